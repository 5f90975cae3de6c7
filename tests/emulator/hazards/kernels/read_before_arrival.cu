// Data is used before the copy that brings it is known to have arrived.
//! case bulk_copy_without_wait
//! launch block=32
//! args f32[64] f32[32]
//! ptx fewer mbarrier.try_wait
KERNEL(32) k(const float* x, float* y) {
    __shared__ __align__(128) float s[64];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) mbarrier_init(&full, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(&full, 256);
        cp_async_bulk_load(s, x, 256, &full);                   // OTHER
    }
    __syncwarp();
#if !BUG
    mbarrier_wait_parity(&full, 0);
#endif
    y[threadIdx.x] = s[threadIdx.x + 32];                       // HAZARD
    mbarrier_wait_parity(&full, 0);
}
//! case bulk_copy_read_by_a_volatile_load
//! launch block=32
//! args f32[32] f32[32]
//! ptx fewer mbarrier.try_wait
KERNEL(32) k(const float* x, float* y) {
    __shared__ __align__(128) float s[32];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) mbarrier_init(&full, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(&full, 128);
        cp_async_bulk_load(s, x, 128, &full);                   // OTHER
    }
    __syncwarp();
#if !BUG
    mbarrier_wait_parity(&full, 0);
#endif
    y[threadIdx.x] = *(volatile float*)&s[threadIdx.x];         // HAZARD
    mbarrier_wait_parity(&full, 0);
}
//! case waits_for_the_other_stage
//! launch block=32
//! args map:f32:16x32:8x32:none f32[32]
KERNEL(32) k(const __grid_constant__ TensorMap m, float* y) {
    __shared__ __align__(128) float s[2][256];
    __shared__ mbarrier_t full[2];
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) {
            mbarrier_init(&full[i], 1);
            mbarrier_arrive_expect_tx(&full[i], 1024);
            cp_async_bulk_tensor_2d_load(s[i], &m, &full[i], 0, 8 * i);  // OTHER
        }
    }
    __syncthreads();
    mbarrier_wait_parity(&full[!BUG], 0);
    y[threadIdx.x] = s[1][threadIdx.x * 8];                     // HAZARD
    mbarrier_wait_parity(&full[BUG], 0);
}
//! case cp_async_wait_too_shallow
//! launch block=32
//! args f32[256] f32[32]
KERNEL(32) k(const float* x, float* y) {
    __shared__ __align__(128) float s[256];
    int t = threadIdx.x;
    cp_async_cg_16(s + 4 * t, x + 4 * t); cp_async_commit_group();
    cp_async_cg_16(s + 128 + 4 * t, x + 128 + 4 * t);           // OTHER
    cp_async_commit_group();
    cp_async_wait_group<BUG>();
    y[t] = s[4 * t] + s[128 + 4 * t];                           // HAZARD
    cp_async_wait_all();
}
//! case cp_async_of_others_without_barrier
//! launch block=64
//! args f32[256] f32[64]
//! ptx fewer bar.sync
KERNEL(64) k(const float* x, float* y) {
    __shared__ __align__(128) float s[256];
    int t = threadIdx.x;
    cp_async_cg_16(s + 4 * t, x + 4 * t);                       // OTHER
    cp_async_wait_all();
#if !BUG
    __syncthreads();
#endif
    y[t] = s[4 * (63 - t)];                                     // HAZARD
}
//! case st_shared_before_tma_says_nothing
//! clean
//! launch block=32
//! args f32[32] f32[32]
KERNEL(32) k(const float* x, float* y) {                        // one thread acquires, the others follow by __syncwarp
    __shared__ __align__(128) float s[32];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_arrive_expect_tx(&full, 128);
        cp_async_bulk_load(s, x, 128, &full);
        mbarrier_wait_parity(&full, 0);
    }
    __syncwarp();
    y[threadIdx.x] = s[31 - threadIdx.x];
}
//! case red_async_read_before_its_wait
//! launch block=32 grid=2
//! args u32[64]
//! ptx fewer mbarrier.try_wait
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(32) k(unsigned* y) {
    __shared__ __align__(16) unsigned inbox[32];
    __shared__ mbarrier_t full;
    int t = threadIdx.x, peer = cluster_ctarank() ^ 1;
    inbox[t] = 0;
    if (t == 0) { mbarrier_init(&full, 1); mbarrier_arrive_expect_tx(&full, 128); }
    barrier_cluster_arrive(); barrier_cluster_wait();
    red_async_add(mapa_shared_cluster(inbox + t, peer), t, mapa_shared_cluster(&full, peer));  // OTHER
#if !BUG
    mbarrier_wait_parity(&full, 0);
#endif
    y[blockIdx.x * 32 + t] = inbox[t ^ 1];                      // HAZARD
    mbarrier_wait_parity(&full, 0);
}
//! case bulk_reduction_read_before_its_wait
//! launch block=32 grid=2
//! args u32[64]
//! ptx fewer mbarrier.try_wait
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(32) k(unsigned* y) {
    __shared__ __align__(16) unsigned source[32], inbox[32];
    __shared__ mbarrier_t full;
    int t = threadIdx.x, peer = cluster_ctarank() ^ 1;
    source[t] = t;
    inbox[t] = 0;
    fence_proxy_async_shared_cta();
    if (t == 0) { mbarrier_init(&full, 1); mbarrier_arrive_expect_tx(&full, 128); }
    barrier_cluster_arrive(); barrier_cluster_wait();
    if (t == 0) cp_reduce_async_bulk_add(mapa_shared_cluster(inbox, peer), source, 128, mapa_shared_cluster(&full, peer));  // OTHER
#if !BUG
    mbarrier_wait_parity(&full, 0);
#endif
    y[blockIdx.x * 32 + t] = inbox[t ^ 1];                      // HAZARD
    mbarrier_wait_parity(&full, 0);
    barrier_cluster_arrive(); barrier_cluster_wait();
}
//! case one_of_two_reductions_waited_for
//! launch block=32 grid=2
//! args u32[64]
//! ptx fewer mbarrier.try_wait
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(32) k(unsigned* y) {                  // both add to the same words, and each counts on a barrier of its own
    __shared__ __align__(16) unsigned inbox[32];
    __shared__ mbarrier_t full[2];
    int t = threadIdx.x, peer = cluster_ctarank() ^ 1;
    inbox[t] = 0;
    if (t == 0) for (int i = 0; i < 2; i++) { mbarrier_init(&full[i], 1); mbarrier_arrive_expect_tx(&full[i], 128); }
    barrier_cluster_arrive(); barrier_cluster_wait();
    red_async_add(mapa_shared_cluster(inbox + t, peer), t, mapa_shared_cluster(&full[0], peer));  // OTHER
    red_async_add(mapa_shared_cluster(inbox + t, peer), t, mapa_shared_cluster(&full[1], peer));
    mbarrier_wait_parity(&full[1], 0);
#if !BUG
    mbarrier_wait_parity(&full[0], 0);
#endif
    y[blockIdx.x * 32 + t] = inbox[t ^ 1];                      // HAZARD
    mbarrier_wait_parity(&full[0], 0);
}
//! case reduction_read_behind_an_atomic
//! launch block=32 grid=2
//! args u32[64]
//! ptx fewer mbarrier.try_wait
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(32) k(unsigned* y) {                  // the CTA adds to its own inbox as well
    __shared__ __align__(16) unsigned inbox[32];
    __shared__ mbarrier_t full;
    int t = threadIdx.x, peer = cluster_ctarank() ^ 1;
    inbox[t] = 0;
    if (t == 0) { mbarrier_init(&full, 1); mbarrier_arrive_expect_tx(&full, 128); }
    barrier_cluster_arrive(); barrier_cluster_wait();
    red_async_add(mapa_shared_cluster(inbox + t, peer), t, mapa_shared_cluster(&full, peer));  // OTHER
    atomicAdd(inbox + t, 1u);
#if !BUG
    mbarrier_wait_parity(&full, 0);
#endif
    y[blockIdx.x * 32 + t] = inbox[t];                          // HAZARD
    mbarrier_wait_parity(&full, 0);
}
//! case reductions_of_several_peers_then_the_wait
//! clean
//! launch block=32 grid=4
//! args u32[128] int:3
extern "C" __global__ void __cluster_dims__(4) __launch_bounds__(32) k(unsigned* y, int rounds) {      // three peers at once, by both instructions, round after round
    __shared__ __align__(16) unsigned source[32], inbox[32];
    __shared__ mbarrier_t full;
    int t = threadIdx.x, rank = cluster_ctarank();
    source[t] = t;
    if (t == 0) mbarrier_init(&full, 1);
    for (int i = 0; i < rounds; i++) {
        inbox[t] = 0;
        fence_proxy_async();
        if (t == 0) mbarrier_arrive_expect_tx(&full, 3 * 256);
        barrier_cluster_arrive(); barrier_cluster_wait();
        for (int p = 1; p < 4; p++) {
            unsigned to = mapa_shared_cluster(inbox, rank ^ p), there = mapa_shared_cluster(&full, rank ^ p);
            red_async_add(to + 4 * t, t, there);
            if (t == 0) cp_reduce_async_bulk_add(to, source, 128, there);
        }
        mbarrier_wait_parity(&full, i & 1);
        y[32 * blockIdx.x + t] += inbox[t ^ 1];
        barrier_cluster_arrive(); barrier_cluster_wait();
    }
}
//! case neighbours_in_a_granule_sent_one_after_the_other
//! clean
//! launch block=32 grid=2
//! args u32[64]
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(32) k(unsigned* y) {                  // each first written by a copy, and the one read before the other comes
    __shared__ __align__(16) uint2 inbox[2];
    __shared__ mbarrier_t full[2];
    int t = threadIdx.x, peer = cluster_ctarank() ^ 1;
    if (t == 0) for (int i = 0; i < 2; i++) { mbarrier_init(&full[i], 1); mbarrier_arrive_expect_tx(&full[i], 8); }
    barrier_cluster_arrive(); barrier_cluster_wait();
    for (int i = 0; i < 2; i++) {
        if (t == 0)
            asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];"
                         :: "r"(mapa_shared_cluster(inbox + i, peer)), "r"(i), "r"(peer), "r"(mapa_shared_cluster(&full[i], peer)) : "memory");
        mbarrier_wait_parity(&full[i], 0);
        y[blockIdx.x * 32 + t] += inbox[i].x + inbox[i].y;
        barrier_cluster_arrive(); barrier_cluster_wait();
    }
}
//! case total_of_reductions_read_by_a_volatile_load
//! launch block=128 grid=3
//! args f32[384] f32[128] f32[128] u32[1]
KERNEL(128) k(const float* x, float* sum, float* y, unsigned* tickets) {       // volatile is no wait: what copies add may still be on its way
    __shared__ __align__(16) float tile[128];
    __shared__ unsigned last;
    tile[threadIdx.x] = x[128 * blockIdx.x + threadIdx.x];
    fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 512;"
                     :: "l"(sum), "r"(shared_address(tile)) : "memory");       // OTHER
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        if (BUG) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); else asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        __threadfence();
        last = atomicAdd(tickets, 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (last) y[threadIdx.x] = *(volatile float*)&sum[threadIdx.x];             // HAZARD
}
// SPDX-License-Identifier: Apache-2.0
