// Cluster of two: each block multicasts half of A to both, B is its own; slots are released to both blocks by default-scope arrivals.
//! launch block=256 grid=2 shared=33792
//! args map:bf16:64x256:32x64:128B map:bf16:128x256:64x64:128B f32[64x128]
//! check np.allclose(a[2], a[0].astype(np.float32) @ a[1].astype(np.float32).T)
//! mutate released_to_own_block_only deadlock|overwrite-in-flight
//! mutate released_too_early overwrite-in-flight
//! mutate half_a_tile_expected barrier-misuse
//! mutate peer_barriers_not_ready barrier-misuse
//! mutate gone_before_the_peer_is_done cluster-lifetime|exit-in-flight
constexpr int STAGES = 2, K_TILES = 4;
struct SharedStorage { ClusterBarrier full[STAGES], empty[STAGES]; };
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(256, 1) k(const __grid_constant__ CUtensorMap_ ta, const __grid_constant__ CUtensorMap_ tb, float* c) {
    extern __shared__ __align__(1024) unsigned char buf[];
    __shared__ SharedStorage s;
    uint32_t rank = block_rank_in_cluster();
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) { s.full[i].init(1); s.empty[i].init(2); } //@ peer_barriers_not_ready
        fence_barrier_init();
    }
    cluster_arrive_relaxed(), cluster_wait(); //~ peer_barriers_not_ready: __syncthreads();
    if (threadIdx.x < 128) {
        if (threadIdx.x == 0) {
            PipelineState<STAGES> w(1);
            for (int kt = 0; kt < K_TILES; kt++, w++) {
                s.empty[w.index].wait(w.phase); //@ released_to_own_block_only
                s.full[w.index].arrive_and_expect_tx(16384); //~ half_a_tile_expected: s.full[w.index].arrive_and_expect_tx(12288);
                unsigned char* stage = buf + 16384 * w.index;
                tma_load_2d_multicast(&ta, &s.full[w.index], 3, stage + 4096 * rank, 64 * kt, 32 * rank); //@ released_to_own_block_only released_too_early half_a_tile_expected peer_barriers_not_ready gone_before_the_peer_is_done
                tma_load_2d(&tb, &s.full[w.index], stage + 8192, 64 * kt, 64 * rank); //@ half_a_tile_expected released_too_early
            }
        }
    } else {
        float d[32];
        for (int i = 0; i < 32; i++) d[i] = 0;
        PipelineState<STAGES> r;
        for (int kt = 0; kt < K_TILES; kt++, r++) {
            s.full[r.index].wait(r.phase);
            warpgroup_arrive();
            for (int i = 0; i < 4; i++) wgmma_bf16(d, make_desc(buf + 16384 * r.index) + 2 * i, make_desc(buf + 16384 * r.index + 8192) + 2 * i); //@ released_to_own_block_only released_too_early
            warpgroup_commit_batch();
            warpgroup_wait<0>(); //~ released_too_early: if (kt == K_TILES - 1) warpgroup_wait<0>();
            s.empty[r.index].arrive((threadIdx.x & 1), (threadIdx.x - 128) < 2); //~ released_to_own_block_only: s.empty[r.index].arrive(rank, (threadIdx.x - 128) < 1); //@ gone_before_the_peer_is_done
        }
        int warp = threadIdx.x / 32 & 3, lane = threadIdx.x & 31;
        for (int i = 0; i < 32; i++)
            c[(16 * warp + lane / 4 + 8 * (i >> 1 & 1)) * 128 + 64 * rank + 8 * (i >> 2) + 2 * (lane & 3) + (i & 1)] = d[i];
    }
    cluster_arrive_relaxed(), cluster_wait(); //~ gone_before_the_peer_is_done:
}
// SPDX-License-Identifier: Apache-2.0
