// The exercise of lesson 04: the ring of ring.cu with two slots, without its synchronisation. The learner's lines replace
// the four marked ones; as it stands, nothing is initialised and nobody waits for anybody.
// In scope: full[2], empty[2], slots[2], x, tile (its number), i (the block's tiles so far: 0, 1, 2 …), s = i % 2, and in the
// consumers t (0..127) and sum, which the reads set.
// Launch: any grid, block 160 (thread 0 produces, warps 1..4 consume).
#include <hopperlab/fence.cuh>
#include <hopperlab/fold.cuh>
#include <hopperlab/tma.cuh>

extern "C" __global__ void __launch_bounds__(160) fold(const float* x, float* y, int tiles) {
    __shared__ __align__(128) float4 slots[2][128];
    __shared__ mbarrier_t full[2], empty[2];
    if (threadIdx.x == 0) {
        for (int s = 0; s < 2; s++) {
            // ANSWER init
        }
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        if (threadIdx.x != 0) return;
        for (int tile = blockIdx.x, i = 0; tile < tiles; tile += gridDim.x, i++) {
            int s = i % 2;
            // ANSWER before_load
            cp_async_bulk_load(slots[s], x + tile * TILE, TILE_BYTES, &full[s]);
        }
        return;
    }
    int t = threadIdx.x - 32;
    for (int tile = blockIdx.x, i = 0; tile < tiles; tile += gridDim.x, i++) {
        int s = i % 2;
        // ANSWER before_reads
        float4 sum = add_mirrored(slots[s][t], slots[s][t ^ 31]); fence_proxy_async_shared_cta();     // before the engine writes again
        // ANSWER after_reads
        reinterpret_cast<float4*>(y + tile * TILE)[t] = sum;
    }
}
// SPDX-License-Identifier: Apache-2.0
