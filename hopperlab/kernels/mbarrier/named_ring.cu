// The same ring with the hardware's named barriers in place of mbarriers. What changes against ring.cu:
//   - a named barrier counts threads, in whole warps, and no bytes, so the copy engine cannot report to it: a warp of
//     producers carries the tile through its registers;
//   - barrier 1 + s is "full", barrier 1 + STAGES + s is "empty"; all 160 threads take part in each, one side arriving and
//     going on (bar.arrive), the other waiting (bar.sync);
//   - there is no parity to keep. A barrier that was arrived at must also be waited for, so the last STAGES tiles are not
//     handed back.
//
// Macros: STAGES (at most 7: there are 16 barriers, and barrier 0 is __syncthreads). Launch: any grid, block 160.
#include <hopperlab/fence.cuh>
#include <hopperlab/fold.cuh>

#ifndef STAGES
#define STAGES 2
#endif
static_assert(2 * STAGES < 16, "named barriers 1 .. 2 * STAGES of 16");

extern "C" __global__ void __launch_bounds__(160) fold(const float* x, float* y, int tiles) {
    __shared__ __align__(128) float4 slots[STAGES][128];
    int lane = threadIdx.x % 32, slot = 0, turn = 0;            // turn: tiles of this block so far
    if (threadIdx.x < 32) {
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, turn++) {
            const float4* from = reinterpret_cast<const float4*>(x + tile * TILE);
            float4 carried[4];
            for (int i = 0; i < 4; i++) carried[i] = from[lane + 32 * i];
            if (turn >= STAGES) bar_sync(1 + STAGES + slot, 160); // the consumers have read what lies there
            for (int i = 0; i < 4; i++) slots[slot][lane + 32 * i] = carried[i];
            bar_arrive(1 + slot, 160);                          // the stores above come before the consumers' reads
            slot = (slot + 1) % STAGES;
        }
        return;
    }
    int t = threadIdx.x - 32;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, turn++) {
        bar_sync(1 + slot, 160);
        float4 sum = add_mirrored(slots[slot][t], slots[slot][t ^ 31]);
        if (tile + STAGES * (int)gridDim.x < tiles) bar_arrive(1 + STAGES + slot, 160);
        reinterpret_cast<float4*>(y + tile * TILE)[t] = sum;
        slot = (slot + 1) % STAGES;
    }
}
// SPDX-License-Identifier: Apache-2.0
