// Written through the generic proxy, read through the async proxy, and no fence.proxy.async between.
//! case wgmma_of_plain_stores
//! launch block=128 shared=16384
//! args bf16[64x64] f32[4096]
//! ptx fewer fence.proxy.async
KERNEL(128) k(const void* x, float* y) {
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192);                                           // OTHER
    fill(s + 8192, x, 8192);                                    // OTHER
#if !BUG
    fence_proxy_async_shared_cta();
#endif
    __syncthreads();
    float d[32] = {};
    wgmma_fence();
    multiply(d, s, s + 8192);                                   // HAZARD
    wgmma_commit_group();
    wgmma_wait_group<0>();
    put(y, d);
}
//! case tensor_store_of_cp_async
//! launch block=32
//! args f32[128] map:f32:4x32:4x32:none
//! ptx fewer fence.proxy.async
KERNEL(32) k(const float* x, const __grid_constant__ TensorMap m) {
    __shared__ __align__(128) float s[128];
    cp_async_cg_16(s + 4 * threadIdx.x, x + 4 * threadIdx.x);   // OTHER
    cp_async_wait_all();
    if (!BUG) fence_proxy_async_shared_cta();
    __syncwarp();
    if (threadIdx.x == 0) {
        cp_async_bulk_tensor_2d_store(&m, s, 0, 0);             // HAZARD
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
}
//! case fence_by_the_wrong_thread
//! launch block=64
//! args f32[64]
KERNEL(64) k(float* y) {                                        // a fence covers what its thread wrote or has acquired
    __shared__ __align__(128) float s[64];
    s[threadIdx.x] = threadIdx.x;                               // OTHER
    if (BUG ? threadIdx.x < 32 : true) fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0) {
        cp_async_bulk_store(y, s, 256);                         // HAZARD
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
}
//! case fence_by_the_issuer_after_the_barrier
//! clean
//! launch block=64
//! args f32[64]
KERNEL(64) k(float* y) {
    __shared__ __align__(128) float s[64];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) {
        fence_proxy_async_shared_cta();
        cp_async_bulk_store(y, s, 256);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
}
//! case changed_map_is_not_released
//! launch block=32
//! args f32[128] u8[128] f32[32] map:f32:4x32:4x32:none
//! ptx fewer fence.proxy.tensormap
KERNEL(32) k(const float* x, unsigned char* maps, float* y, const __grid_constant__ TensorMap m) {
    __shared__ __align__(128) float s[128];
    __shared__ mbarrier_t full;
    if (threadIdx.x < 8) ((uint4*)maps)[threadIdx.x] = ((const uint4*)&m)[threadIdx.x];
    if (threadIdx.x == 0) mbarrier_init(&full, 1);
    __syncwarp();
    if (threadIdx.x == 0) {
        asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;" :: "l"(maps), "l"(x) : "memory");  // OTHER
#if !BUG
        asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
#endif
        asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(maps) : "memory");
        mbarrier_arrive_expect_tx(&full, 512);
        cp_async_bulk_tensor_2d_load(s, (const TensorMap*)maps, &full, 0, 0);  // HAZARD
    }
    __syncwarp();
    mbarrier_wait_parity(&full, 0);
    y[threadIdx.x] = s[threadIdx.x];
    if (threadIdx.x < 8) ((uint4*)maps)[threadIdx.x] = make_uint4(0, 0, 0, 0);      // addresses differ from run to run
}
//! case changed_map_is_not_acquired
//! launch block=32
//! args f32[128] u8[128] f32[32] map:f32:4x32:4x32:none
//! ptx fewer fence.proxy.tensormap
KERNEL(32) k(const float* x, unsigned char* maps, float* y, const __grid_constant__ TensorMap m) {
    __shared__ __align__(128) float s[128];
    __shared__ mbarrier_t full;
    if (threadIdx.x < 8) ((uint4*)maps)[threadIdx.x] = ((const uint4*)&m)[threadIdx.x];
    if (threadIdx.x == 0) mbarrier_init(&full, 1);
    __syncwarp();
    if (threadIdx.x == 0) {
        asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;" :: "l"(maps), "l"(x) : "memory");  // OTHER
        asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
#if !BUG
        asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(maps) : "memory");
#endif
        mbarrier_arrive_expect_tx(&full, 512);
        cp_async_bulk_tensor_2d_load(s, (const TensorMap*)maps, &full, 0, 0);  // HAZARD
    }
    __syncwarp();
    mbarrier_wait_parity(&full, 0);
    y[threadIdx.x] = s[threadIdx.x];
    if (threadIdx.x < 8) ((uint4*)maps)[threadIdx.x] = make_uint4(0, 0, 0, 0);      // addresses differ from run to run
}
//! case map_published_from_shared_memory
//! launch block=32
//! args f32[128] u8[128] f32[32] map:f32:4x32:4x32:none
//! ptx fewer fence.proxy.tensormap
KERNEL(32) k(const float* x, unsigned char* maps, float* y, const __grid_constant__ TensorMap m) {
    __shared__ __align__(128) unsigned char edited[128];
    __shared__ __align__(128) float s[128];
    __shared__ mbarrier_t full;
    if (threadIdx.x < 8) ((uint4*)edited)[threadIdx.x] = ((const uint4*)&m)[threadIdx.x];
    if (threadIdx.x == 0) mbarrier_init(&full, 1);
    __syncwarp();
    if (threadIdx.x == 0)
        asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" :: "r"(shared_address(edited)), "l"(x) : "memory");
    __syncwarp();
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
                 :: "l"(maps), "r"(shared_address(edited)) : "memory");  // OTHER
#if !BUG
        asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(maps) : "memory");
#endif
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(&full, 512);
        cp_async_bulk_tensor_2d_load(s, (const TensorMap*)maps, &full, 0, 0);  // HAZARD
    }
    __syncwarp();
    mbarrier_wait_parity(&full, 0);
    y[threadIdx.x] = s[threadIdx.x];
    if (threadIdx.x < 8) ((uint4*)maps)[threadIdx.x] = make_uint4(0, 0, 0, 0);      // addresses differ from run to run
}
//! case some_lanes_fence_for_their_warp
//! launch block=64
//! args f32[64] f32[64]
KERNEL(64) k(const float* x, float* y) {                        // a fence covers what its own thread wrote, or has synchronised with
    __shared__ __align__(128) float s[64];
    s[threadIdx.x] = 2 * x[threadIdx.x];                        // OTHER
    if (!BUG || threadIdx.x % 32 < 4) fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0) {
        cp_async_bulk_store(y, s, 256);                         // HAZARD
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
}
//! case lane_fences_before_the_warp_meets
//! launch block=32
//! args f32[64] f32[64]
KERNEL(32) k(float* x, float* y) {                              // global memory, written here and read by a copy
    __shared__ __align__(128) float s[32];
    __shared__ mbarrier_t full;
    x[threadIdx.x] = threadIdx.x;                               // OTHER
    if (threadIdx.x == 0) mbarrier_init(&full, 1);
    if (BUG && threadIdx.x == 0) fence_proxy_async();
    __syncwarp();
    if (!BUG && threadIdx.x == 0) fence_proxy_async();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(&full, 128);
        cp_async_bulk_load(s, x, 128, &full);                   // HAZARD
    }
    __syncwarp();
    mbarrier_wait_parity(&full, 0);
    y[threadIdx.x] = s[threadIdx.x];
}
//! case lanes_write_and_fence_one_by_one
//! clean
//! launch block=64
//! args f32[64] f32[64] int:3
KERNEL(64) k(const float* x, float* y, int n) {                 // two lanes at different places, each for what it wrote; then halves of a warp
    __shared__ __align__(128) float s[64];
    for (int i = 0; i < n; i++) {
        if (threadIdx.x == 0) { for (int k = 0; k < 16; k++) s[k] = x[k] + i; fence_proxy_async_shared_cta(); }
        if (threadIdx.x == 1) { for (int k = 16; k < 32; k++) s[k] = x[k] - i; fence_proxy_async_shared_cta(); }
        if (threadIdx.x >= 32) {
            if (threadIdx.x < 48) { s[threadIdx.x] = 1; fence_proxy_async_shared_cta(); }
            else { s[threadIdx.x] = i; fence_proxy_async_shared_cta(); }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            cp_async_bulk_store(y, s, 256);
            cp_async_bulk_commit_group();
            cp_async_bulk_wait_group<0>();
        }
        __syncthreads();
    }
}
//! case elected_lane_fences_behind_syncwarp
//! clean
//! launch block=64
//! args f32[64] f32[64] int:3
KERNEL(64) k(const float* x, float* y, int n) {                 // all lanes write, meet, and one fences and stores
    __shared__ __align__(128) float s[64];
    int warp = threadIdx.x / 32 * 32;
    for (int i = 0; i < n; i++) {
        s[threadIdx.x] = x[threadIdx.x] * i;
        __syncwarp();
        if (threadIdx.x == warp) {
            fence_proxy_async_shared_cta();
            cp_async_bulk_store(y + warp, s + warp, 128);
            cp_async_bulk_commit_group();
            cp_async_bulk_wait_group<0>();
        }
        __syncwarp();
    }
}
//! case bulk_reduction_into_an_inbox_zeroed_without_a_fence
//! launch block=32 grid=2
//! args u32[64]
//! ptx fewer fence.proxy.async
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(32) k(unsigned* y) {
    __shared__ __align__(16) unsigned source[32], inbox[32];
    __shared__ mbarrier_t full;
    int t = threadIdx.x, peer = cluster_ctarank() ^ 1;
    source[t] = t;
    fence_proxy_async_shared_cta();
    inbox[t] = 0;                                               // OTHER
    if (!BUG) fence_proxy_async_shared_cta();
    if (t == 0) { mbarrier_init(&full, 1); mbarrier_arrive_expect_tx(&full, 128); }
    barrier_cluster_arrive(); barrier_cluster_wait();
    if (t == 0) cp_reduce_async_bulk_add(mapa_shared_cluster(inbox, peer), source, 128, mapa_shared_cluster(&full, peer));  // HAZARD
    mbarrier_wait_parity(&full, 0);
    y[blockIdx.x * 32 + t] = inbox[t ^ 1];
    barrier_cluster_arrive(); barrier_cluster_wait();
}
//! case source_of_a_copy_to_another_cta
//! launch block=32 grid=2
//! args u32[64]
//! ptx fewer fence.proxy.async
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(32) k(unsigned* y) {
    __shared__ __align__(16) unsigned source[32], inbox[32];
    __shared__ mbarrier_t full;
    int t = threadIdx.x, peer = cluster_ctarank() ^ 1;
    source[t] = t;                                              // OTHER
    if (!BUG) fence_proxy_async_shared_cta();
    if (t == 0) { mbarrier_init(&full, 1); mbarrier_arrive_expect_tx(&full, 128); }
    barrier_cluster_arrive(); barrier_cluster_wait();
    if (t == 0) cp_async_bulk_to_cta(mapa_shared_cluster(inbox, peer), source, 128, mapa_shared_cluster(&full, peer));  // HAZARD
    mbarrier_wait_parity(&full, 0);
    y[blockIdx.x * 32 + t] = inbox[t ^ 1];
    barrier_cluster_arrive(); barrier_cluster_wait();
}
//! case st_async_and_red_async_into_zeroed_inboxes
//! clean
//! launch block=32 grid=2
//! args u32[64]
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(32) k(unsigned* y) {                  // generic proxy: the cluster barrier is enough
    __shared__ __align__(16) uint4 inbox[32];
    __shared__ __align__(16) unsigned sum[32];
    __shared__ mbarrier_t full;
    int t = threadIdx.x, peer = cluster_ctarank() ^ 1;
    inbox[t] = make_uint4(0, 0, 0, 0);
    sum[t] = 0;
    if (t == 0) { mbarrier_init(&full, 1); mbarrier_arrive_expect_tx(&full, 640); }
    barrier_cluster_arrive(); barrier_cluster_wait();
    st_async_v4(mapa_shared_cluster(inbox + t, peer), make_uint4(t, t, t, t), mapa_shared_cluster(&full, peer));
    red_async_add(mapa_shared_cluster(sum + t, peer), t, mapa_shared_cluster(&full, peer));
    mbarrier_wait_parity(&full, 0);
    y[blockIdx.x * 32 + t] = inbox[t ^ 1].x + sum[t ^ 1];
}
// SPDX-License-Identifier: Apache-2.0
