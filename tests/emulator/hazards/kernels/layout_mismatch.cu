// A tile is read in another layout than the one TMA gave it.
//! case tile_64B_descriptor_128B
//! launch block=128 shared=17408
//! args map:bf16:64x32:64x32:64B bf16[64x64] f32[4096]
KERNEL(128) k(const __grid_constant__ TensorMap m, const void* x, float* y) {
    extern __shared__ __align__(1024) unsigned char s[];
    mbarrier_t* full = (mbarrier_t*)(s + 16384);
    if (threadIdx.x == 0) {
        mbarrier_init(full, 1);
        mbarrier_arrive_expect_tx(full, 4096);
        cp_async_bulk_tensor_2d_load(s, &m, full, 0, 0);        // OTHER
    }
    fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    mbarrier_wait_parity(full, 0);
    // 64 columns of 64 bytes: 8 rows take 512 bytes, swizzle code 2. The bug says 128 B, code 1, 8 rows in 1024 bytes.
    unsigned long long a = (shared_address(s) >> 4) | 1ull << 16 | (BUG ? 64ull << 32 | 1ull << 62 : 32ull << 32 | 2ull << 62);
    float d[32] = {};
    wgmma_fence();
    wgmma_m64n64k16_bf16(d, a, wgmma_descriptor_128B(shared_address(s + 8192)), 1);  // HAZARD
    wgmma_commit_group();
    wgmma_wait_group<0>();
    put(y, d);
}
//! case unswizzled_tile_descriptor_128B
//! launch block=128 shared=17408
//! args map:bf16:64x64:64x64:none map:bf16:64x64:64x64:128B bf16[64x64] f32[4096]
KERNEL(128) k(const __grid_constant__ TensorMap plain, const __grid_constant__ TensorMap swizzled, const void* x, float* y) {
    extern __shared__ __align__(1024) unsigned char s[];
    mbarrier_t* full = (mbarrier_t*)(s + 16384);
    if (threadIdx.x == 0) {
        mbarrier_init(full, 1);
        mbarrier_arrive_expect_tx(full, 8192);
        cp_async_bulk_tensor_2d_load(s + 8192, BUG ? &plain : &swizzled, full, 0, 0);  // OTHER
    }
    fill(s, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    mbarrier_wait_parity(full, 0);
    float d[32] = {};
    wgmma_fence();
    multiply(d, s, s + 8192);                                   // HAZARD
    wgmma_commit_group();
    wgmma_wait_group<0>();
    put(y, d);
}
//! case loaded_swizzled_stored_plain
//! launch block=32
//! args map:f32:8x32:8x32:128B map:f32:8x32:8x32:none map:f32:8x32:8x32:128B
KERNEL(32) k(const __grid_constant__ TensorMap from, const __grid_constant__ TensorMap plain, const __grid_constant__ TensorMap swizzled) {
    __shared__ __align__(1024) float s[256];
    __shared__ mbarrier_t full;
    if (threadIdx.x) return;
    mbarrier_init(&full, 1);
    mbarrier_arrive_expect_tx(&full, 1024);
    cp_async_bulk_tensor_2d_load(s, &from, &full, 0, 0);        // OTHER
    mbarrier_wait_parity(&full, 0);
    cp_async_bulk_tensor_2d_store(BUG ? &plain : &swizzled, s, 0, 0);  // HAZARD
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group<0>();
}
//! case tile_that_starts_between_patterns
//! clean
//! launch block=128 shared=18432
//! args map:bf16:64x64:64x64:128B bf16[64x64] f32[4096]
KERNEL(128) k(const __grid_constant__ TensorMap m, const void* x, float* y) {
    extern __shared__ __align__(1024) unsigned char s[];        // 128-byte aligned is enough: both swizzle the address itself
    mbarrier_t* full = (mbarrier_t*)(s + 17408);
    if (threadIdx.x == 0) {
        mbarrier_init(full, 1);
        mbarrier_arrive_expect_tx(full, 8192);
        cp_async_bulk_tensor_2d_load(s + 8192 + 384, &m, full, 0, 0);
    }
    fill(s, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    mbarrier_wait_parity(full, 0);
    float d[32] = {};
    wgmma_fence();
    multiply(d, s, s + 8192 + 384);
    wgmma_commit_group();
    wgmma_wait_group<0>();
    put(y, d);
}
//! case stride_of_two_groups
//! warning
//! launch block=128 shared=34816
//! args map:bf16:64x64:64x64:128B bf16[64x64] f32[4096]
KERNEL(128) k(const __grid_constant__ TensorMap m, const void* x, float* y) {
    extern __shared__ __align__(1024) unsigned char s[];
    mbarrier_t* full = (mbarrier_t*)(s + 32768);
    if (threadIdx.x == 0) {
        mbarrier_init(full, 1);
        mbarrier_arrive_expect_tx(full, 8192);
        cp_async_bulk_tensor_2d_load(s, &m, full, 0, 0);        // OTHER
    }
    for (int i = 8192; i < 32768; i += 8192) fill(s + i, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    mbarrier_wait_parity(full, 0);
    float d[32] = {};
    wgmma_fence();
    #pragma unroll
    for (int k = 0; k < 4; k++) {
        // 8 rows of 128 bytes take 1024 bytes, 64 in the descriptor's units.
        unsigned long long a = ((shared_address(s) + 32 * k) >> 4) | 1ull << 16 | (BUG ? 128ull : 64ull) << 32 | 1ull << 62;
        wgmma_m64n64k16_bf16(d, a, wgmma_descriptor_128B(shared_address(s + 16384) + 32 * k), 1);  // HAZARD
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
    put(y, d);
}
//! case stride_of_half_a_group
//! warning
//! launch block=128 shared=17408
//! args bf16[64x64] f32[4096]
KERNEL(128) k(const void* x, float* y) {
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192);
    fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {};
    unsigned long long b = (shared_address(s + 8192) >> 4) | 1ull << 16 | (BUG ? 32ull : 64ull) << 32 | 1ull << 62;
    wgmma_fence();
    wgmma_m64n64k16_bf16(d, wgmma_descriptor_128B(shared_address(s)), b, 1);  // HAZARD
    wgmma_commit_group();
    wgmma_wait_group<0>();
    put(y, d);
}
//! case leading_and_stride_exchanged
//! warning
//! launch block=128 shared=17408
//! args bf16[64x64] f32[4096]
KERNEL(128) k(const void* x, float* y) {
    extern __shared__ __align__(1024) unsigned char s[];        // core matrices of 8 rows x 16 bytes: two along k, then the next 8 rows
    fill(s, x, 8192);
    fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {};
    unsigned long long tile = BUG ? 16ull << 16 | 8ull << 32 : 8ull << 16 | 16ull << 32;
    wgmma_fence();
    wgmma_m64n64k16_bf16(d, (shared_address(s) >> 4) | tile, (shared_address(s + 8192) >> 4) | 8ull << 16 | 16ull << 32, 1);  // HAZARD
    wgmma_commit_group();
    wgmma_wait_group<0>();
    put(y, d);
}
//! case panels_between_each_other
//! clean
//! launch block=128 shared=25600
//! args bf16[64x64] f32[4096]
KERNEL(128) k(const void* x, float* y) {
    extern __shared__ __align__(1024) unsigned char s[];        // 8 rows of one panel, 8 rows of the other …: each is skipped by one product and read by another
    fill(s, x, 8192);
    fill(s + 8192, x, 8192);
    fill(s + 16384, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {};
    wgmma_fence();
    #pragma unroll
    for (int k = 0; k < 8; k++) {
        unsigned long long a = ((shared_address(s) + 32 * (k % 4) + 1024 * (k / 4)) >> 4) | 1ull << 16 | 128ull << 32 | 1ull << 62;
        wgmma_m64n64k16_bf16(d, a, wgmma_descriptor_128B(shared_address(s + 16384) + 32 * (k % 4)), 1);
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
    put(y, d);
}
// SPDX-License-Identifier: Apache-2.0
