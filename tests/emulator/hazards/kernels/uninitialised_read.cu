// Shared memory is read that nobody has written.
//! case reads_the_other_buffer
//! launch block=64
//! args f32[64] f32[64]
KERNEL(64) k(const float* x, float* y) {
    __shared__ float s[2][64];
    s[0][threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[BUG][63 - threadIdx.x];                  // HAZARD
}
//! case wgmma_of_a_tile_never_loaded
//! launch block=128 shared=24576
//! args bf16[64x64] f32[4096]
KERNEL(128) k(const void* x, float* y) {
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {};
    wgmma_fence();
    multiply(d, s, s + (BUG ? 16384 : 8192));                   // HAZARD
    wgmma_commit_group();
    wgmma_wait_group<0>();
    put(y, d);
}
//! case bulk_store_of_nothing
//! launch block=32
//! args f32[64]
KERNEL(32) k(float* y) {
    __shared__ __align__(128) float s[64];
    s[threadIdx.x] = 1;
    fence_proxy_async_shared_cta();
    __syncwarp();
    if (threadIdx.x == 0) {
        cp_async_bulk_store(y, s + 32 * BUG, 128);              // HAZARD
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
}
//! case edges_that_are_dropped
//! clean
//! launch block=64
//! args f32[64] f32[64] int:40
KERNEL(64) k(const float* x, float* y, int n) {
    __shared__ float s[64];
    if (threadIdx.x < n) s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    float v = s[threadIdx.x] * 2;
    if (threadIdx.x < n) y[threadIdx.x] = v;
}
