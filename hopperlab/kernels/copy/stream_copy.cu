// Copies `count` 16-byte vectors through registers, as vector_copy does with UNROLL=1, and says that nobody will need them
// again: loads pass the L1 by and ask the L2 for PREFETCH bytes around them, stores are the first to leave the L2.
// Many small blocks with one vector a thread: the loads in flight come from the threads, not from unrolling.
//
// Macros: THREADS (a block), VECTORS (a thread, THREADS apart), HINTS (0: plain loads and stores, 1: streaming, 2: streaming and
// 256 bytes from the L2). Launch: grid ceil(count / (THREADS * VECTORS)), block THREADS. Measured in recordings/copies.json.
#ifndef THREADS
#define THREADS 512
#endif
#ifndef VECTORS
#define VECTORS 1
#endif
#ifndef HINTS
#define HINTS 1
#endif

// 16 bytes of memory that this kernel never writes; the L2 fetches 256 around them. [PTX ISA 9.7.9.8]
__device__ __forceinline__ uint4 load_l2_256(const uint4* from) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
    return v;
}

extern "C" __global__ void __launch_bounds__(THREADS)
stream_copy(const uint4* source, uint4* target, long long count) {
    long long first = (long long)blockIdx.x * (THREADS * VECTORS) + threadIdx.x;
    uint4 values[VECTORS];
    #pragma unroll
    for (int i = 0; i < VECTORS; i++)
        if (first + i * THREADS < count)
            values[i] = HINTS == 0 ? source[first + i * THREADS]
                      : HINTS == 1 ? __ldcs(source + first + i * THREADS) : load_l2_256(source + first + i * THREADS);
    #pragma unroll
    for (int i = 0; i < VECTORS; i++)
        if (first + i * THREADS < count) {
            if (HINTS == 0) target[first + i * THREADS] = values[i];
            else __stcs(target + first + i * THREADS, values[i]);
        }
}
// SPDX-License-Identifier: Apache-2.0
