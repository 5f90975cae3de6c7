// Kernel 1: loads into registers, folds into a tile in shared memory, and one thread sends the tile off with a bulk store
// while the block already loads the next. What is computed, and how to launch: fold.cuh.
#include <hopperlab/tma.cuh>
#include <hopperlab/fold.cuh>

extern "C" __global__ void __launch_bounds__(128) fold(const float* x, float* y, int tiles) {
    __shared__ __align__(128) float4 out[128];
    int t = threadIdx.x;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const float4* source = reinterpret_cast<const float4*>(x + tile * TILE);
        float4 sum = add_mirrored(source[t], source[t ^ 31]);
        if (t == 0) cp_async_bulk_wait_group_read<0>();     // the store before this one has read `out` ...
        __syncthreads();                                    // ... and everyone knows it
        out[t] = sum;
        __syncthreads();                                    // the tile is complete
        if (t == 0) {
            cp_async_bulk_store(y + tile * TILE, out, TILE_BYTES);
            cp_async_bulk_commit_group();
        }
    }
    if (t == 0) cp_async_bulk_wait_group<0>();              // all has arrived before the block ends
}
// SPDX-License-Identifier: Apache-2.0
