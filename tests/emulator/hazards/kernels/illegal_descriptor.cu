// Matrix descriptors and tensor maps that break a rule.
//! case another_descriptor_in_each_warp
//! launch block=128 shared=16384
//! args bf16[64x64] f32[4096]
KERNEL(128) k(const void* x, float* y) {
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {};
    wgmma_fence();
    multiply(d, s + (BUG ? threadIdx.x / 32 * 1024 : 0), s + 8192);  // HAZARD
    wgmma_commit_group();
    wgmma_wait_group<0>();
    put(y, d);
}
//! case base_offset_set
//! launch block=128 shared=16384
//! args bf16[64x64] f32[4096]
KERNEL(128) k(const void* x, float* y) {
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {};
    wgmma_fence();
    wgmma_m64n64k16_bf16(d, wgmma_descriptor_128B(shared_address(s)) | (BUG ? 3ull << 49 : 0), wgmma_descriptor_128B(shared_address(s + 8192)), 1);  // HAZARD
    wgmma_commit_group();
    wgmma_wait_group<0>();
    put(y, d);
}
//! case address_in_bytes
//! launch block=128 shared=16384
//! args bf16[64x64] f32[4096]
//! also uninitialised-read
KERNEL(128) k(const void* x, float* y) {                        // stride 1024 >> 4 forgotten: bits beyond the field
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    unsigned long long b = (shared_address(s + 8192) >> 4) | 1ull << 16 | (unsigned long long)(BUG ? 0x4000 | 64 : 64) << 32 | 1ull << 62;
    float d[32] = {};
    wgmma_fence();
    wgmma_m64n64k16_bf16(d, wgmma_descriptor_128B(shared_address(s)), b, 1);  // HAZARD
    wgmma_commit_group();
    wgmma_wait_group<0>();
    put(y, d);
}
//! case not_a_tensor_map
//! launch block=32
//! args map:f32:4x32:4x32:none f32[64]
KERNEL(32) k(const __grid_constant__ TensorMap m, const TensorMap* other) {
    __shared__ __align__(128) float s[128];
    __shared__ mbarrier_t full;
    if (threadIdx.x) return;
    mbarrier_init(&full, 1);
    mbarrier_arrive_expect_tx(&full, 512);
    cp_async_bulk_tensor_2d_load(s, BUG ? other : &m, &full, 0, 0);  // HAZARD
    mbarrier_wait_parity(&full, 0);
}
// SPDX-License-Identifier: Apache-2.0
