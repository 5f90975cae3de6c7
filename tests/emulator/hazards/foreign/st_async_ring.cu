// Two blocks of a cluster pass values with st.async through a ring of two slots; the receiver gives slots back over the cluster.
//! launch block=32 grid=2
//! args f32[256] f32[32]
//! check np.array_equal(a[1], a[0].reshape(8, 32).sum(axis=0))
//! mutate slot_not_awaited overwrite-in-flight|phase-overrun
//! mutate data_not_awaited read-before-arrival
//! mutate wrong_bytes barrier-misuse|read-before-arrival
//! mutate gone_too_early cluster-lifetime|exit-in-flight
extern "C" __global__ void __cluster_dims__(2) k(const float* x, float* y) {
    __shared__ float ring[2][32];
    __shared__ ClusterBarrier full[2], empty[2];
    int lane = threadIdx.x;
    if (lane == 0) {
        for (int i = 0; i < 2; i++) { full[i].init(1); empty[i].init(32); }
        fence_barrier_init();
    }
    cluster_arrive_relaxed(); cluster_wait();
    if (block_rank_in_cluster() == 0) {
        PipelineState<2> w(1);
        for (int step = 0; step < 8; step++, w++) {
            empty[w.index].wait(w.phase); //~ slot_not_awaited:
            asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];"
                         :: "r"(mapa(&ring[w.index][lane], 1)), "f"(x[32 * step + lane]), "r"(mapa(&full[w.index], 1)) : "memory"); //@ slot_not_awaited data_not_awaited wrong_bytes gone_too_early
        }
    } else {
        PipelineState<2> r;
        float sum = 0;
        for (int i = 0; i < 2; i++) if (lane == 0) full[i].arrive_and_expect_tx(128); //~ wrong_bytes: for (int i = 0; i < 2; i++) if (lane == 0) full[i].arrive_and_expect_tx(64); //@ wrong_bytes
        for (int step = 0; step < 8; step++, r++) {
            full[r.index].wait(r.phase); //~ data_not_awaited: if (step & 1) full[r.index].wait(r.phase); //@ slot_not_awaited
            sum += ring[r.index][lane]; //@ slot_not_awaited data_not_awaited
            if (lane == 0 && step < 6) full[r.index].arrive_and_expect_tx(128);
            asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(mapa(&empty[r.index], 0)) : "memory"); //@ gone_too_early
        }
        y[lane] = sum;
    }
    cluster_sync(); //~ gone_too_early:
}
// SPDX-License-Identifier: Apache-2.0
