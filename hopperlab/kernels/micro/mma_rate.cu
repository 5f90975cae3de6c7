// mma.sync on one multiprocessor: each warp multiplies into ILP accumulators of its own, `rounds` times each.
// out[2 * sample]: cycles of warp 0 until all were issued; out[2 * sample + 1]: until all results were there. With ILP 1 each
// product waits for the one before: the latency. With ROUNDS 1 the first number shows whether an instruction holds its warp until
// it completes.
//
// Macros: ILP (1 to 16), SAMPLES. Launch: any grid, block 32 * warps. results: float, one a thread, so that nothing is
// left out. Measured in recordings/micro.json.
#include <hopperlab/clock.cuh>
#include <hopperlab/mma.cuh>

#ifndef ILP
#define ILP 8
#endif
#ifndef SAMPLES
#define SAMPLES 4
#endif

extern "C" __global__ void __launch_bounds__(512)
mma_rate(int rounds, long long* out, float* results) {
    unsigned a[4] = {0x3c003c00u + threadIdx.x % 5, 0x3c013c00u, 0x3c003c01u, 0x3c023c00u}, b0 = 0x3c003c00u, b1 = 0x3c003c03u;
    float d[ILP][4] = {};
    for (int sample = 0; sample < SAMPLES; sample++) {
        __syncthreads();
        long long start = clock_cycles();
        #pragma unroll 1
        for (int i = 0; i < rounds; i++)                    // a number that ptxas does not know: it cannot mix the clock in
            #pragma unroll
            for (int j = 0; j < ILP; j++) mma_m16n8k16_bf16(d[j], a, b0, b1);
        long long issued = clock_cycles();
        float sum = 0;
        #pragma unroll
        for (int j = 0; j < ILP; j++) sum += d[j][0];
        if (sum == -1) results[threadIdx.x] = sum;          // never; but every result is needed to know
        long long done = clock_cycles();
        if (threadIdx.x == 0 && blockIdx.x == 0) {
            out[2 * sample] = issued - start;
            out[2 * sample + 1] = done - start;
        }
    }
    float sum = 0;
    #pragma unroll
    for (int j = 0; j < ILP; j++) sum += d[j][0] + d[j][1] + d[j][2] + d[j][3];
    results[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// SPDX-License-Identifier: Apache-2.0
