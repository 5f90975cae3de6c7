// A block ends while an operation still works in its shared memory.
//! case last_thread_leaves_under_a_copy
//! launch block=32
//! args f32[32]
//! ptx fewer mbarrier.try_wait
KERNEL(32) k(const float* x) {
    __shared__ __align__(128) float s[32];
    __shared__ mbarrier_t full;
    if (threadIdx.x) return;
    mbarrier_init(&full, 1);
    mbarrier_arrive_expect_tx(&full, 128);
    cp_async_bulk_load(s, x, 128, &full);                       // HAZARD
    if (!BUG) mbarrier_wait_parity(&full, 0);
}
//! case leaves_without_wait_group
//! launch block=128 shared=16384
//! args bf16[64x64] f32[4096]
//! ptx fewer wgmma.wait_group
KERNEL(128) k(const void* x, float* y) {
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {};
    wgmma_fence();
    multiply(d, s, s + 8192);                                   // HAZARD
    wgmma_commit_group();
    if (!BUG) { wgmma_wait_group<0>(); put(y, d); }
}
//! case source_leaves_before_the_peer_has_it
//! launch block=64 grid=2
//! args f32[128]
//! ptx fewer barrier.cluster
//! also cluster-lifetime
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(64) k(float* y) {
    __shared__ __align__(128) float from[64], to[64];
    __shared__ mbarrier_t full;
    unsigned rank = cluster_ctarank();
    if (threadIdx.x == 0) { mbarrier_init(&full, 1); fence_mbarrier_init_release_cluster(); }
    barrier_cluster_arrive(); barrier_cluster_wait();
    from[threadIdx.x] = rank * 100 + threadIdx.x;
    fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0 && rank == 1) mbarrier_arrive_expect_tx(&full, 256);
    if (threadIdx.x == 0 && rank == 0)
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
                     :: "r"(mapa_shared_cluster(to, rank ^ 1)), "r"(shared_address(from)), "r"(mapa_shared_cluster(&full, rank ^ 1)) : "memory");  // HAZARD
    if (rank == 1) mbarrier_wait_parity(&full, 0);
#if !BUG
    barrier_cluster_arrive(); barrier_cluster_wait();
#endif
    y[blockIdx.x * 64 + threadIdx.x] = rank ? to[threadIdx.x] : 0;
}
//! case peer_leaves_under_a_copy
//! launch block=64 grid=2
//! args f32[128]
//! ptx fewer mbarrier.try_wait
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(64) k(float* y) {
    __shared__ __align__(128) float from[64], to[64];
    __shared__ mbarrier_t full;
    unsigned rank = cluster_ctarank();
    if (threadIdx.x == 0) { mbarrier_init(&full, 1); fence_mbarrier_init_release_cluster(); }
    barrier_cluster_arrive(); barrier_cluster_wait();
    from[threadIdx.x] = rank * 100 + threadIdx.x;
    fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0 && rank == 1) mbarrier_arrive_expect_tx(&full, 256);
    if (threadIdx.x == 0 && rank == 0)
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
                     :: "r"(mapa_shared_cluster(to, rank ^ 1)), "r"(shared_address(from)), "r"(mapa_shared_cluster(&full, rank ^ 1)) : "memory");  // HAZARD
    if (!BUG && rank == 1) mbarrier_wait_parity(&full, 0);
    barrier_cluster_arrive(); barrier_cluster_wait();
    y[blockIdx.x * 64 + threadIdx.x] = 1;
}
// SPDX-License-Identifier: Apache-2.0
