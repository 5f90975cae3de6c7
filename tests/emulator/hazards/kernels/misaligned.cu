// Accesses at addresses that are no multiple of their size.
//! case float4_at_an_odd_float
//! launch block=8
//! args f32[64] f32[32]
KERNEL(8) k(const float* x, float4* y) {
    y[threadIdx.x] = *(const float4*)(x + 4 * threadIdx.x + BUG);  // HAZARD
}
//! case tile_not_on_128_bytes
//! launch block=32
//! args map:f32:4x32:4x32:none
KERNEL(32) k(const __grid_constant__ TensorMap m) {
    __shared__ __align__(128) float s[256];
    __shared__ mbarrier_t full;
    if (threadIdx.x) return;
    mbarrier_init(&full, 1);
    mbarrier_arrive_expect_tx(&full, 512);
    cp_async_bulk_tensor_2d_load(s + 16 * BUG, &m, &full, 0, 0);  // HAZARD
    mbarrier_wait_parity(&full, 0);
}
// SPDX-License-Identifier: Apache-2.0
