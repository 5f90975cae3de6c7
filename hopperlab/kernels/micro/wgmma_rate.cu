// How fast one multiprocessor multiplies: cycles of ROUNDS x 4 wgmma instructions by each warpgroup, out[2 * sample + 1],
// and the cycles until they were issued, before anyone waits for them, out[2 * sample] (ROUNDS 1 shows how far issue runs
// ahead). With one round, every product adds to the sums of all before it, or ptxas would leave out what nobody reads.
// Operands lie in the 128-byte swizzle, K-major, and are whatever the shared memory was filled with (small numbers).
//
// Macros: N (8, 16, 32, 64, 128, 192, 256), INPUT (0 bf16, 1 f16, 2 tf32, 3 e4m3, 4 s8), A_SOURCE (0 shared memory, 1
// registers), IN_FLIGHT (groups of one wgmma that may be under way: wait_group IN_FLIGHT after each commit; 0 to 3), ROUNDS,
// SAMPLES. Launch: any grid, block 128 * warpgroups, dynamic shared memory 49152 bytes. results: float, one a thread, so
// that nothing is left out. Measured in recordings/micro.json.
#include <hopperlab/clock.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/wgmma_operands.cuh>

#ifndef N
#define N 128
#endif
#ifndef INPUT
#define INPUT 0
#endif
#ifndef A_SOURCE
#define A_SOURCE 0
#endif
#ifndef IN_FLIGHT
#define IN_FLIGHT 3
#endif
#ifndef ROUNDS
#define ROUNDS 64
#endif
#ifndef SAMPLES
#define SAMPLES 4
#endif

#define QUOTED(x) #x
#define QUOTE(x) QUOTED(x)
#if INPUT == 0
#define KINDS "k16.f32.bf16.bf16"
#elif INPUT == 1
#define KINDS "k16.f32.f16.f16"
#elif INPUT == 2
#define KINDS "k8.f32.tf32.tf32"
#elif INPUT == 3
#define KINDS "k32.f32.e4m3.e4m3"
#else
#define KINDS "k32.s32.s8.s8"
#endif
#if INPUT == 4
#define ACCUMULATOR int
#define TAIL ""
#else
#define ACCUMULATOR float
#if INPUT >= 2
#define TAIL ", 1, 1"
#elif A_SOURCE
#define TAIL ", 1, 1, 0"
#else
#define TAIL ", 1, 1, 0, 0"
#endif
#endif
#if N == 8
#define COUNT 4
#elif N == 16
#define COUNT 8
#elif N == 32
#define COUNT 16
#elif N == 64
#define COUNT 32
#elif N == 128
#define COUNT 64
#elif N == 192
#define COUNT 96
#else
#define COUNT 128
#endif
#define INSTANCE(MACRO, NAME, REGISTERS, TYPE) MACRO(NAME, REGISTERS, TYPE, "m64n" QUOTE(N) KINDS, TAIL)
#if A_SOURCE
INSTANCE(WGMMA_RS, multiply, COUNT, ACCUMULATOR)
#else
INSTANCE(WGMMA_SS, multiply, COUNT, ACCUMULATOR)
#endif

extern "C" __global__ void __launch_bounds__(256)
wgmma_rate(long long* out, float* results) {
    extern __shared__ __align__(1024) unsigned char shared[];   // A: 128 rows of 128 bytes (two warpgroups share), B: 256 rows
    require_aligned(shared, 1024);
    for (int i = threadIdx.x; i < 49152 / 4; i += blockDim.x) reinterpret_cast<unsigned*>(shared)[i] = 0x38003800 + i % 7;
    fence_proxy_async_shared_cta();                             // ordinary stores come before the tensor core's reads
    __syncthreads();
    unsigned a_tile = shared_address(shared) + threadIdx.x / 128 % 2 * 8192, b_tile = shared_address(shared) + 16384;
    ACCUMULATOR d[COUNT];
#if A_SOURCE
    unsigned a[4] = {0x38003800u + threadIdx.x % 5, 0x38013800u, 0x38003801u, 0x38023800u};
#endif
    for (int sample = 0; sample < SAMPLES; sample++) {
        __syncthreads();
        long long start = clock_cycles();
        wgmma_fence();
        for (int i = 0; i < ROUNDS; i++) {
            #pragma unroll
            for (int step = 0; step < 4; step++) {
#if A_SOURCE
                multiply(d, a, wgmma_descriptor_k_major<128>(b_tile + step * 32),
                         i > 0 || step > 0 || (ROUNDS == 1 && sample > 0));
#else
                multiply(d, wgmma_descriptor_k_major<128>(a_tile + step * 32), wgmma_descriptor_k_major<128>(b_tile + step * 32),
                         i > 0 || step > 0 || (ROUNDS == 1 && sample > 0));
#endif
                wgmma_commit_group();
                wgmma_wait_group<IN_FLIGHT>();
            }
        }
        long long issued = clock_cycles();
        wgmma_wait_group<0>();
        long long done = clock_cycles();
        if (threadIdx.x == 0 && blockIdx.x == 0) {
            out[2 * sample] = issued - start;
            out[2 * sample + 1] = done - start;
        }
    }
    float sum = 0;
    #pragma unroll
    for (int i = 0; i < COUNT; i++) sum += (float)d[i];
    results[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// SPDX-License-Identifier: Apache-2.0
