// Producer and consumers around a ring of STAGES slots: one thread has the copy engine fill the slots, four warps use them.
// Two mbarriers a slot say all there is to say:
//   full[s]   one arrival and TILE_BYTES a phase: the producer arrives and announces the bytes, the engine delivers them;
//   empty[s]  four arrivals a phase: one lane of each consumer warp, once its warp has read the tile.
// Nobody waits for anything else, so the producer runs up to STAGES tiles ahead of the slowest consumer warp.
// What is computed: fold.cuh.
// Macros: STAGES. Launch: any grid, block 160 (warp 0 produces, warps 1..4 consume), no dynamic shared memory.
#include <hopperlab/bugs_by_lesson.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/fold.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/tma.cuh>

#ifndef STAGES
#define STAGES 2
#endif

extern "C" __global__ void __launch_bounds__(160) fold(const float* x, float* y, int tiles) {
    __shared__ __align__(128) float4 slots[STAGES][128];
    __shared__ mbarrier_t full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 4);
        }
    }
    __syncthreads();                                            // the barriers exist before anyone uses them

    Ring<STAGES> ring;
    if (threadIdx.x < 32) {
        if (threadIdx.x != 0) return;                           // the producer is one thread
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            // Parity phase ^ 1: on a fresh barrier the wait passes at once, since every slot starts empty.
            mbarrier_wait_parity(&empty[ring.slot], BUG_PRODUCER_PARITY ? ring.phase : ring.phase ^ 1);
            mbarrier_arrive_expect_tx(&full[ring.slot], BUG_WRONG_BYTES ? TILE_BYTES + 16 : TILE_BYTES);
            cp_async_bulk_load(slots[ring.slot], x + tile * TILE, TILE_BYTES, &full[ring.slot]);
            ring.advance();
        }
        return;
    }
    int t = threadIdx.x - 32;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        mbarrier_wait_parity(&full[ring.slot], BUG_WRONG_PARITY ? ring.phase ^ 1 : ring.phase);
        float4 sum = add_mirrored(slots[ring.slot][t], slots[ring.slot][t ^ 31]);
        fence_proxy_async_shared_cta(), __syncwarp();           // every lane has read: before the engine writes again, and before lane 0's arrival
        if (t % 32 == 0 && !BUG_MISSING_ARRIVE) mbarrier_arrive(&empty[ring.slot]);
        reinterpret_cast<float4*>(y + tile * TILE)[t] = sum;
        ring.advance();
    }
}
// SPDX-License-Identifier: Apache-2.0
