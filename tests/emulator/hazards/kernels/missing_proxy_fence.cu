// Written through the generic proxy, read through the async proxy, and no fence.proxy.async between.
//! case bulk_store_of_plain_stores
//! launch block=64
//! args f32[64]
//! ptx fewer fence.proxy.async
KERNEL(64) k(float* y) {
    __shared__ __align__(128) float s[64];
    s[threadIdx.x] = threadIdx.x;                               // OTHER
#if !BUG
    fence_proxy_async_shared_cta();
#endif
    __syncthreads();
    if (threadIdx.x == 0) {
        cp_async_bulk_store(y, s, 256);                         // HAZARD
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
}
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
