// Accesses outside every array.
//! case one_past_the_end
//! launch block=64
//! args f32[64] f32[64]
KERNEL(64) k(const float* x, float* y) {
    int i = threadIdx.x + (BUG && threadIdx.x == 63);
    y[threadIdx.x] = x[i];                                      // HAZARD
}
//! case shared_index_too_large
//! launch block=32 shared=1024
//! args i32[32] int:64
KERNEL(32) k(int* y, int n) {
    extern __shared__ int s[];
    s[threadIdx.x + (BUG ? n * 4 : 0)] = threadIdx.x;           // HAZARD
    y[threadIdx.x] = s[threadIdx.x];
}
//! case bulk_copy_past_the_array
//! launch block=32
//! args f32[64]
KERNEL(32) k(const float* x) {
    __shared__ __align__(128) float s[64];
    __shared__ mbarrier_t full;
    if (threadIdx.x) return;
    mbarrier_init(&full, 1);
    mbarrier_arrive_expect_tx(&full, 128);
    cp_async_bulk_load(s, x + (BUG ? 60 : 0), 128, &full);      // HAZARD
    mbarrier_wait_parity(&full, 0);
}
// SPDX-License-Identifier: Apache-2.0
