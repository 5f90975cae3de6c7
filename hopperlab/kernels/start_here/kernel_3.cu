// Kernel 3: one thread has the copy engine bring a tile, all threads fold it, one thread has the engine take the result
// away. What is computed, and how to launch: fold.cuh.
#include <hopperlab/fence.cuh>
#include <hopperlab/tma.cuh>
#include <hopperlab/fold.cuh>

extern "C" __global__ void __launch_bounds__(128) fold(const float* x, float* y, int tiles) {
    __shared__ __align__(128) float4 in[128], out[128];
    __shared__ mbarrier_t full;
    int t = threadIdx.x, parity = 0;
    if (t == 0) mbarrier_init(&full, 1);
    __syncthreads();                                        // the barrier is one before anyone waits on it
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, parity ^= 1) {
        if (t == 0) {
            mbarrier_arrive_expect_tx(&full, TILE_BYTES);
            cp_async_bulk_load(in, x + tile * TILE, TILE_BYTES, &full);
        }
        mbarrier_wait_parity(&full, parity);                // the tile has landed, for every thread that waits
        out[t] = add_mirrored(in[t], in[t ^ 31]);
        fence_proxy_async_shared_cta();                     // what I stored comes before what the engine reads
        __syncthreads();                                    // the result is complete, and `in` has been read
        if (t == 0) {
            cp_async_bulk_store(y + tile * TILE, out, TILE_BYTES);
            cp_async_bulk_commit_group();
            cp_async_bulk_wait_group_read<0>();             // `out` has been read ...
        }
        __syncthreads();                                    // ... and everyone may write it again
    }
    if (t == 0) cp_async_bulk_wait_group<0>();              // all has arrived before the block ends
}
// SPDX-License-Identifier: Apache-2.0
