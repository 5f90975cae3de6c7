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
// SPDX-License-Identifier: Apache-2.0
