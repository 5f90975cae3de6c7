// What the tensor core has left of shared memory while TMA writes into it: cycles of ROUNDS x 4 wgmma instructions by each of two
// warpgroups (e4m3, both operands in shared memory), while a third warp copies from global memory as fast as it may, or not at all.
// Each wgmma reads 64 rows of A, the warpgroup's own, and N rows of B, 32 bytes each, in the N / 2 cycles that it takes at best.
//
// Macros: N (32, 64, 128, 256), COPY_BYTES (of one copy, a multiple of 16; 0: no copies), COPIES (under way at once), ROUNDS. Launch: any
// grid, block 288, dynamic shared memory 49152 + COPIES * COPY_BYTES bytes. source: grid * COPIES * COPY_BYTES bytes. out: 3 numbers for
// each CTA: cycles of its wgmma, cycles of its copies, and how many copies there were. results: float, one a consumer thread, so that
// nothing is left out. Measured in recordings/fp8.json (`wgmma_beside_copies`).
#include <hopperlab/clock.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/mbarrier.cuh>
#include <hopperlab/tma.cuh>
#include <hopperlab/wgmma_operands.cuh>

#ifndef N
#define N 128
#endif
#ifndef COPY_BYTES
#define COPY_BYTES 16384
#endif
#ifndef COPIES
#define COPIES 4
#endif
#ifndef ROUNDS
#define ROUNDS 256
#endif
#if N == 32
#define COUNT 16
#elif N == 64
#define COUNT 32
#elif N == 128
#define COUNT 64
#else
#define COUNT 128
#endif
#define QUOTED(x) #x
#define QUOTE(x) QUOTED(x)
#define INSTANCE(NAME, REGISTERS) WGMMA_SS(NAME, REGISTERS, float, "m64n" QUOTE(N) "k32.f32.e4m3.e4m3", ", 1, 1")
INSTANCE(multiply, COUNT)

extern "C" __global__ void __launch_bounds__(288)
wgmma_beside_copies(const unsigned char* source, long long* out, float* results) {
    extern __shared__ __align__(1024) unsigned char shared[];   // A: 128 rows of 128 bytes, B: 256 rows, then what is copied
    __shared__ mbarrier_t arrived[COPIES], finished;
    require_aligned(shared, 1024);
    for (int i = threadIdx.x; i < 49152 / 4; i += blockDim.x) reinterpret_cast<unsigned*>(shared)[i] = 0x38003800 + i % 7;
    fence_proxy_async_shared_cta();                             // ordinary stores come before the tensor core's reads
    if (threadIdx.x == 0) {
        for (int i = 0; i < COPIES; i++) mbarrier_init(&arrived[i], 1);
        mbarrier_init(&finished, 256);
    }
    __syncthreads();
    int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);
    if (warpgroup == 2) {
#if COPY_BYTES
        if (threadIdx.x == 256) {
            unsigned char* landing = shared + 49152;
            const unsigned char* from = source + static_cast<size_t>(blockIdx.x) * COPIES * COPY_BYTES;
            auto copy = [&](int i) {
                mbarrier_arrive_expect_tx(&arrived[i], COPY_BYTES);
                cp_async_bulk_load(landing + i * COPY_BYTES, from + i * COPY_BYTES, COPY_BYTES, &arrived[i]);
            };
            long long start = clock_cycles(), copies = 0;
            for (int i = 0; i < COPIES; i++) copy(i);
            for (unsigned phase = 0; !mbarrier_test_wait_parity(&finished, 0); phase ^= 1) {
                for (int i = 0; i < COPIES; i++, copies++) {    // a slot is copied into again as soon as its copy has landed: nobody reads it
                    mbarrier_wait_parity(&arrived[i], phase);
                    copy(i);
                }
            }
            out[3 * blockIdx.x + 1] = clock_cycles() - start;
            out[3 * blockIdx.x + 2] = copies;
            unsigned last = copies / COPIES % 2;
            for (int i = 0; i < COPIES; i++) mbarrier_wait_parity(&arrived[i], last);          // none is left under way
        }
#endif
        return;
    }
    unsigned a_tile = shared_address(shared) + warpgroup * 8192, b_tile = shared_address(shared) + 16384;
    float d[COUNT];
    long long start = clock_cycles();
    wgmma_fence();
    for (int i = 0; i < ROUNDS; i++) {
        #pragma unroll
        for (int step = 0; step < 4; step++) {
            multiply(d, wgmma_descriptor_k_major<128>(a_tile + step * 32), wgmma_descriptor_k_major<128>(b_tile + step * 32), i > 0 || step > 0);
            wgmma_commit_group();
            wgmma_wait_group<3>();
        }
    }
    wgmma_wait_group<0>();
    if (threadIdx.x == 0) out[3 * blockIdx.x] = clock_cycles() - start;
    mbarrier_arrive(&finished);
    float sum = 0;
    #pragma unroll
    for (int i = 0; i < COUNT; i++) sum += d[i];
    results[blockIdx.x * 256 + threadIdx.x] = sum;
}
// SPDX-License-Identifier: Apache-2.0
