// A barrier's next phase does not wait for those who still wait for this one.
//! case arrivals_without_an_answer
//! launch block=64
//! args i32[32] int:4
KERNEL(64) k(int* y, int n) {
    __shared__ mbarrier_t ready, seen;
    if (threadIdx.x == 0) { mbarrier_init(&ready, 1); mbarrier_init(&seen, 32); }
    __syncthreads();
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (threadIdx.x == 32) {
            if (!BUG) mbarrier_wait_parity(&seen, (i & 1) ^ 1);
            mbarrier_arrive(&ready);                            // OTHER
        }
        if (threadIdx.x < 32) {
            mbarrier_wait_parity(&ready, i & 1);                // HAZARD
            count++;
            mbarrier_arrive(&seen);
        }
        if (BUG) __nanosleep(20);
    }
    if (threadIdx.x < 32) y[threadIdx.x] = count;
}
//! case phases_nobody_waits_for
//! clean
//! launch block=64
//! args i32[64]
KERNEL(64) k(int* y) {                                          // skipped phases and tails are legal
    __shared__ mbarrier_t b;
    if (threadIdx.x == 0) mbarrier_init(&b, 64);
    __syncthreads();
    mbarrier_arrive(&b);
    __syncthreads();
    mbarrier_arrive(&b);
    mbarrier_wait_parity(&b, 1);
    mbarrier_arrive(&b);
    y[threadIdx.x] = 1;
}
//! case peek_then_wait
//! clean
//! launch block=64
//! args f32[128] f32[64]
KERNEL(64) k(const float* x, float* y) {
    __shared__ __align__(128) float s[32];
    __shared__ mbarrier_t full, empty;
    if (threadIdx.x == 0) { mbarrier_init(&full, 1); mbarrier_init(&empty, 32); }
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        if (threadIdx.x == 32) {
            mbarrier_wait_parity(&empty, (i & 1) ^ 1);
            mbarrier_arrive_expect_tx(&full, 128);
            cp_async_bulk_load(s, x + 32 * i, 128, &full);
        }
        if (threadIdx.x < 32) {
            bool there = mbarrier_test_wait_parity(&full, i & 1);
            if (!there) mbarrier_wait_parity(&full, i & 1);
            sum += s[threadIdx.x];
            fence_proxy_async_shared_cta();
            mbarrier_arrive(&empty);
        }
    }
    if (threadIdx.x < 32) y[threadIdx.x] = sum;
}
// SPDX-License-Identifier: Apache-2.0
