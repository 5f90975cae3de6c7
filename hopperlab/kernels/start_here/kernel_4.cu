// Kernel 4: two tiles in shared memory; one thread has the copy engine refill a tile as soon as it is used, while the block
// goes on to the other. What is computed, and how to launch: fold.cuh.
#include <hopperlab/tma.cuh>
#include <hopperlab/fold.cuh>

extern "C" __global__ void __launch_bounds__(128) fold(const float* x, float* y, int tiles) {
    __shared__ __align__(128) float4 slots[2][128];
    __shared__ mbarrier_t full[2];
    int t = threadIdx.x, parity = 0, s = 0;
    if (t == 0) {
        for (int i = 0; i < 2; i++) {
            mbarrier_init(&full[i], 1);
            int tile = blockIdx.x + i * gridDim.x;
            if (tile >= tiles) continue;
            mbarrier_arrive_expect_tx(&full[i], TILE_BYTES);
            cp_async_bulk_load(slots[i], x + tile * TILE, TILE_BYTES, &full[i]);
        }
    }
    __syncthreads();                                        // the barriers are barriers before anyone waits on them
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        mbarrier_wait_parity(&full[s], parity);             // this tile has landed, for every thread that waits
        float4 sum = add_mirrored(slots[s][t], slots[s][t ^ 31]);
        int after_next = tile + 2 * gridDim.x;
        if (t == 0 && after_next < tiles) {                 // this tile is used: bring the one after the next
            mbarrier_arrive_expect_tx(&full[s], TILE_BYTES);
            cp_async_bulk_load(slots[s], x + after_next * TILE, TILE_BYTES, &full[s]);
        }
        __syncthreads();                                    // the block goes on together
        reinterpret_cast<float4*>(y + tile * TILE)[t] = sum;
        s ^= 1;
        parity ^= s == 0;                                   // both slots were used: the next phase begins
    }
}
// SPDX-License-Identifier: Apache-2.0
