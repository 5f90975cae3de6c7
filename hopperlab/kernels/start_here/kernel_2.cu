// Kernel 2: two tiles in shared memory; cp.async brings the next one while the block folds the last. What is computed,
// and how to launch: fold.cuh.
#include <hopperlab/cp_async.cuh>
#include <hopperlab/fold.cuh>

extern "C" __global__ void __launch_bounds__(128) fold(const float* x, float* y, int tiles) {
    __shared__ __align__(128) float4 slots[2][128];
    int t = threadIdx.x, s = 0;
    if (blockIdx.x < tiles) cp_async_cg_16(&slots[0][t], x + blockIdx.x * TILE + 4 * t);
    cp_async_commit_group();
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        int next = tile + gridDim.x;
        if (next < tiles) cp_async_cg_16(&slots[s ^ 1][t], x + next * TILE + 4 * t);
        cp_async_commit_group();
        cp_async_wait_group<1>();                           // this tile has landed, the next may still be under way
        reinterpret_cast<float4*>(y + tile * TILE)[t] = add_mirrored(slots[s][t], slots[s][t ^ 31]);
        __syncthreads();                                    // everyone has read this tile: its slot is free
        s ^= 1;
    }
}
// SPDX-License-Identifier: Apache-2.0
