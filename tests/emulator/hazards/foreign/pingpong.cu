// Two consumer warpgroups take turns (ping-pong): an ordered sequence of named barriers, one staging tile, TMA stores.
//! launch block=384 shared=33792
//! args map:bf16:256x64:64x64:128B map:bf16:64x64:64x64:128B map:f32:256x64:64x32:128B
//! check np.allclose(a[2], a[0].astype(np.float32) @ a[1].astype(np.float32).T)
//! mutate out_of_turn race|overwrite-in-flight|missing-proxy-fence
//! mutate store_not_fenced missing-proxy-fence
//! mutate staging_reused overwrite-in-flight
//! mutate leaves_under_its_store exit-in-flight
//! mutate product_not_waited register-in-flight
struct SharedStorage { ClusterBarrier a_full[2], a_empty[2], b_full; };
extern "C" __global__ void __launch_bounds__(384, 1) k(const __grid_constant__ CUtensorMap_ ta, const __grid_constant__ CUtensorMap_ tb,
                                                       const __grid_constant__ CUtensorMap_ tc) {
    extern __shared__ __align__(1024) unsigned char buf[];      // A: two tiles, B: one; C: 64 x 32 floats
    __shared__ SharedStorage s;
    unsigned char *a = buf, *b = buf + 16384; float* stage = (float*)(buf + 24576);
    int group = threadIdx.x / 128;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) { s.a_full[i].init(1); s.a_empty[i].init(128); }
        s.b_full.init(1);
        fence_barrier_init();
    }
    __syncthreads();
    if (group == 0) {
        if (threadIdx.x == 0) {
            s.b_full.arrive_and_expect_tx(8192);
            tma_load_2d(&tb, &s.b_full, b, 0, 0);
            PipelineState<2> w(1);
            for (int tile = 0; tile < 4; tile++, w++) {
                s.a_empty[w.index].wait(w.phase);
                s.a_full[w.index].arrive_and_expect_tx(8192);
                tma_load_2d(&ta, &s.a_full[w.index], a + 8192 * w.index, 0, 64 * tile);
            }
        }
        return;
    }
    s.b_full.wait(0);
    int me = group - 1, t = threadIdx.x & 127, warp = t / 32, lane = t & 31;
    if (me == 1) named_arrive(1, 256);                          // the first turn is group 1's
    for (int tile = me, round = 0; tile < 4; tile += 2, round++) {
        s.a_full[me].wait(round & 1);
        float d[32];
        for (int i = 0; i < 32; i++) d[i] = 0;
        warpgroup_arrive();
        for (int kk = 0; kk < 4; kk++) wgmma_bf16(d, make_desc(a + 8192 * me) + 2 * kk, make_desc(b) + 2 * kk); //@ product_not_waited
        warpgroup_commit_batch();
        warpgroup_wait<0>(); //~ product_not_waited:
        s.a_empty[me].arrive();
        named_sync(1 + me, 256); //~ out_of_turn: if (tile < 2) named_sync(1 + me, 256); else named_arrive(1 + me, 256);
        for (int half = 0; half < 2; half++) {
            for (int i = 0; i < 16; i++) {
                int r = 16 * warp + lane / 4 + 8 * (i >> 1 & 1), c = 8 * (i >> 2) + 2 * (lane & 3) + (i & 1);
                stage[r * 32 + (c & 3) + 4 * ((c >> 2) ^ (r & 7))] = d[16 * half + i]; //@ out_of_turn store_not_fenced staging_reused product_not_waited
            }
            fence_view_async_shared(); //~ store_not_fenced:
            named_sync(3 + me, 128);
            if (t == 0) {
                tma_store_2d(&tc, stage, 32 * half, 64 * tile); //@ out_of_turn store_not_fenced staging_reused leaves_under_its_store
                tma_store_arrive();
                if (!half || tile < 2) tma_store_wait<0>(); //~ staging_reused: if (half && tile < 2) tma_store_wait<0>();
                if (half && tile >= 2) tma_store_wait<0>(); //~ leaves_under_its_store:
            }
            named_sync(3 + me, 128);
        }
        if (tile < 3) named_arrive(1 + (me ^ 1), 256);
    }
}
// SPDX-License-Identifier: Apache-2.0
