// Shared memory of another block of the cluster, before it starts or after it has ended.
//! case multicast_outside_the_cluster
//! launch block=32 grid=2
//! args f32[64]
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(32) k(const float* x) {
    __shared__ __align__(128) float s[32];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init_release_cluster();
        mbarrier_arrive_expect_tx(&full, 128);
    }
    barrier_cluster_arrive(); barrier_cluster_wait();
    if (threadIdx.x == 0 && cluster_ctarank() == 0) {
        unsigned short mask = BUG ? 7 : 3;
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 128, [%2], %3;"
                     :: "r"(shared_address(s)), "l"(x), "r"(shared_address(&full)), "h"(mask) : "memory");  // HAZARD
    }
    mbarrier_wait_parity(&full, 0);
    barrier_cluster_arrive(); barrier_cluster_wait();
}
//! case peer_not_waited_for
//! launch block=32 grid=2
//! args i32[64]
//! ptx fewer barrier.cluster
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(32) k(int* y) {
    __shared__ mbarrier_t b;
    if (threadIdx.x == 0) { mbarrier_init(&b, 1); fence_mbarrier_init_release_cluster(); }
    barrier_cluster_arrive(); barrier_cluster_wait();
    if (threadIdx.x == 0) mbarrier_arrive_remote(mapa_shared_cluster(&b, cluster_ctarank() ^ 1));  // HAZARD
#if !BUG
    mbarrier_wait_parity(&b, 0);
    barrier_cluster_arrive(); barrier_cluster_wait();
#endif
    y[blockIdx.x * 32 + threadIdx.x] = 1;
}
//! case barriers_published_by_a_relaxed_cluster_barrier
//! clean
//! launch block=32 grid=2
//! args i32[64]
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(32) k(int* y) {
    __shared__ mbarrier_t b;                                    // as CUTLASS does: fence.mbarrier_init, arrive.relaxed, wait
    if (threadIdx.x == 0) { mbarrier_init(&b, 32); fence_mbarrier_init_release_cluster(); }
    __syncwarp();
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    mbarrier_arrive_remote(mapa_shared_cluster(&b, cluster_ctarank() ^ 1));
    mbarrier_wait_parity(&b, 0);
    barrier_cluster_arrive(); barrier_cluster_wait();
    y[blockIdx.x * 32 + threadIdx.x] = 1;
}
// SPDX-License-Identifier: Apache-2.0
