// Sum over a cluster of four through distributed shared memory (cooperative groups' cluster API).
//! plain
//! launch block=64 grid=4
//! args f32[256] f32[1]
//! check a[1][0] == a[0].sum()
//! mutate peers_not_ready race|uninitialised-read
//! mutate peers_may_be_gone cluster-lifetime
//! mutate block_not_ready race
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void __cluster_dims__(4) k(const float* x, float* y) {
    __shared__ float part[2], whole;
    auto cluster = cg::this_cluster(); auto block = cg::this_thread_block(); auto tile = cg::tiled_partition<32>(block);
    float v = cg::reduce(tile, x[blockIdx.x * 64 + threadIdx.x], cg::plus<float>());
    if (tile.thread_rank() == 0) part[tile.meta_group_rank()] = v; //@ block_not_ready
    block.sync(); //~ block_not_ready:
    if (threadIdx.x == 0) whole = part[0] + part[1]; //@ peers_not_ready block_not_ready
    cluster.sync(); //~ peers_not_ready: block.sync();
    if (cluster.block_rank() == 0 && threadIdx.x == 0) {
        float s = 0;
        for (int r = 0; r < 4; r++) s += *cluster.map_shared_rank(&whole, r); //@ peers_not_ready peers_may_be_gone
        y[0] = s;
    }
    cluster.sync(); //~ peers_may_be_gone:
}
// SPDX-License-Identifier: Apache-2.0
