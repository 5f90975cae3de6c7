// Warp-specialised product in CUTLASS's manner: PipelineTmaAsync with states, one producer warp, one consumer warpgroup.
//! launch block=256 shared=33792
//! args map:bf16:64x256:64x64:128B map:bf16:64x256:64x64:128B f32[64x64]
//! check np.allclose(a[2], a[0].astype(np.float32) @ a[1].astype(np.float32).T)
//! mutate no_full_wait read-before-arrival
//! mutate release_before_wait overwrite-in-flight
//! mutate half_the_bytes barrier-misuse|read-before-arrival
//! mutate producer_starts_in_phase_0 deadlock
//! mutate no_sync_after_init barrier-misuse
//! mutate no_warpgroup_arrive register-in-flight
//! mutate accumulators_too_early register-in-flight
constexpr int STAGES = 2, K_TILES = 4, TILE = 8192;
struct SharedStorage { ClusterBarrier full[STAGES], empty[STAGES]; };
extern "C" __global__ void __launch_bounds__(256, 1) k(const __grid_constant__ CUtensorMap_ ta, const __grid_constant__ CUtensorMap_ tb, float* c) {
    extern __shared__ __align__(1024) unsigned char buf[];
    __shared__ SharedStorage s;
    int warp_group = threadIdx.x / 128, warp = threadIdx.x / 32;
    if (warp == 0 && elect_one()) {
        for (int i = 0; i < STAGES; i++) { s.full[i].init(1); s.empty[i].init(1); } //@ no_sync_after_init
        fence_barrier_init();
    }
    __syncthreads(); //~ no_sync_after_init:
    if (warp_group == 0) {
        if (warp == 0 && elect_one()) {
            PipelineState<STAGES> write(1); //~ producer_starts_in_phase_0: PipelineState<STAGES> write(0);
            for (int kt = 0; kt < K_TILES; kt++, write++) {
                s.empty[write.index].wait(write.phase); //@ producer_starts_in_phase_0
                s.full[write.index].arrive_and_expect_tx(2 * TILE); //~ half_the_bytes: s.full[write.index].arrive_and_expect_tx(TILE); //@ half_the_bytes
                tma_load_2d(&ta, &s.full[write.index], buf + write.index * 2 * TILE, kt * 64, 0); //@ no_full_wait release_before_wait half_the_bytes
                tma_load_2d(&tb, &s.full[write.index], buf + write.index * 2 * TILE + TILE, kt * 64, 0); //@ no_full_wait release_before_wait half_the_bytes
            }
        }
    } else {
        float acc[32];
        for (int i = 0; i < 32; i++) acc[i] = 0;
        PipelineState<STAGES> read;
        for (int kt = 0; kt < K_TILES; kt++, read++) {
            s.full[read.index].wait(read.phase); //~ no_full_wait:
            warpgroup_arrive(); //~ no_warpgroup_arrive:
            for (int kk = 0; kk < 4; kk++)
                wgmma_bf16(acc, make_desc(buf + read.index * 2 * TILE) + 2 * kk, make_desc(buf + read.index * 2 * TILE + TILE) + 2 * kk); //@ no_full_wait release_before_wait no_warpgroup_arrive accumulators_too_early
            warpgroup_commit_batch();
            warpgroup_wait<0>(); //~ release_before_wait: if (kt == K_TILES - 1) warpgroup_wait<0>();
            if (threadIdx.x == 128) s.empty[read.index].arrive();
            if (kt == 2) warpgroup_arrive(); //~ accumulators_too_early: if (kt == 2) { warpgroup_arrive(); wgmma_bf16(acc, make_desc(buf), make_desc(buf), 1); acc[3] *= 2.0f; warpgroup_commit_batch(); warpgroup_wait<0>(); } //@ accumulators_too_early
        }
        int w = warp & 3, lane = threadIdx.x & 31;
        for (int i = 0; i < 32; i++)
            c[(16 * w + lane / 4 + 8 * (i >> 1 & 1)) * 64 + 8 * (i >> 2) + 2 * (lane & 3) + (i & 1)] = acc[i];
    }
}
// SPDX-License-Identifier: Apache-2.0
