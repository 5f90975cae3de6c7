// Bank conflicts by the clock: every warp reads a tile of 64 rows x ROW_BYTES in shared memory again and again, in one pattern of
// addresses; out[sample] = cycles of ROUNDS x 8 reads by each warp. Many warps hide each other's latency, so that what remains is
// the time that shared memory is busy. The tile lies as TMA lays it in the swizzle that MASK stands for (0 none,
// 0x080 32 B, 0x180 64 B, 0x380 128 B), with PAD bytes after each row (0 with a swizzle; TMA cannot pad).
// ACCESS: 0  16 bytes per lane along the rows           1  16 bytes per lane down the rows, the same column
//         2  4 bytes per lane down the rows             3  2 bytes per lane down the rows (neighbouring lanes, neighbouring rows)
//         4  ldmatrix of four 8x8 matrices of 16-bit elements, down the rows
// The loads are volatile and the rounds not unrolled: otherwise ptxas would load each address once. Every word holds its own
// number, so that the sum shows that the right ones were read: sums[thread].
//
// Macros: MASK, ROW_BYTES (32, 64, 128), PAD, ACCESS, ROUNDS, SAMPLES. Launch: grid 1, block a multiple of 32, dynamic
// shared memory 64 * (ROW_BYTES + PAD) bytes. Measured in recordings/micro.json.
#include <hopperlab/clock.cuh>
#include <hopperlab/mma.cuh>

#ifndef MASK
#define MASK 0x380
#endif
#ifndef ROW_BYTES
#define ROW_BYTES 128
#endif
#ifndef PAD
#define PAD 0
#endif
#ifndef ACCESS
#define ACCESS 1
#endif
#ifndef ROUNDS
#define ROUNDS 32
#endif
#ifndef SAMPLES
#define SAMPLES 4
#endif

constexpr int PITCH = ROW_BYTES + PAD;

// Shared address of byte x of row y.
__device__ __forceinline__ unsigned place(unsigned tile, int y, int x) {
    unsigned at = tile + y * PITCH + x;
    return at ^ ((at & MASK) >> 3);
}

extern "C" __global__ void __launch_bounds__(512)
swizzle_reads(long long* out, unsigned* sums) {
    extern __shared__ __align__(1024) unsigned char shared[];
    require_aligned(shared, 1024);
    unsigned tile = shared_address(shared), lane = threadIdx.x % 32;
    for (int i = threadIdx.x; i < 64 * ROW_BYTES / 4; i += blockDim.x)
        asm volatile("st.shared.u32 [%0], %1;"
                     :: "r"(place(tile, i / (ROW_BYTES / 4), i % (ROW_BYTES / 4) * 4)), "r"(i) : "memory");
    __syncthreads();
    unsigned addresses[8], sum = 0;
    for (int j = 0; j < 8; j++) {                           // eight columns (or runs of rows) in turn
        int row = lane + 32 * (j % 2);
        if (ACCESS == 0) addresses[j] = place(tile, (lane * 16 + j * 512) / ROW_BYTES % 64, (lane * 16 + j * 512) % ROW_BYTES);
        if (ACCESS == 1) addresses[j] = place(tile, row, j / 2 * 16 % ROW_BYTES);
        if (ACCESS == 2) addresses[j] = place(tile, row, j / 2 * 4);
        if (ACCESS == 3) addresses[j] = place(tile, row, j / 2 * 2);
        if (ACCESS == 4) addresses[j] = place(tile, lane % 8 + 8 * j, lane / 8 * 16 % ROW_BYTES);
    }
    for (int sample = 0; sample < SAMPLES; sample++) {
        __syncthreads();
        long long start = clock_cycles();
        #pragma unroll 1
        for (int i = 0; i < ROUNDS; i++) {
            #pragma unroll
            for (int j = 0; j < 8; j++) {
                unsigned at = addresses[j], v[4] = {};
                unsigned short half = 0;
                if (ACCESS <= 1) asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                                              : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(at) : "memory");
                if (ACCESS == 2) asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(v[0]) : "r"(at) : "memory");
                if (ACCESS == 3) asm volatile("ld.volatile.shared.u16 %0, [%1];" : "=h"(half) : "r"(at) : "memory");
                if (ACCESS == 4) ldmatrix_x4(v, at);
                sum += v[0] + v[1] + v[2] + v[3] + half;
            }
        }
        __syncthreads();
        long long done = clock_cycles();
        if (threadIdx.x == 0) out[sample] = done - start;
    }
    sums[threadIdx.x] = sum;
}
// SPDX-License-Identifier: Apache-2.0
