// Cooperative groups: reduce in tiles of 32, one value a tile through shared memory.
//! plain
//! launch block=256
//! args f32[256] f32[1]
//! check a[1][0] == a[0].sum()
//! mutate no_block_sync race
//! mutate tile_values_in_one_place race
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float part[8];
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<32>(block);
    float v = cg::reduce(tile, x[block.thread_rank()], cg::plus<float>());
    if (tile.thread_rank() == 0) part[tile.meta_group_rank()] = v; //~ tile_values_in_one_place: if (tile.thread_rank() == 0) part[tile.meta_group_rank() / 2] = v; //@ no_block_sync tile_values_in_one_place
    block.sync(); //~ no_block_sync:
    if (block.thread_rank() == 0) {
        float s = 0;
        for (int i = 0; i < 8; i++) s += part[i]; //@ no_block_sync
        y[0] = s;
    }
}
// SPDX-License-Identifier: Apache-2.0
