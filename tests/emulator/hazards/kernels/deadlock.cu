// Nothing can run and nothing is under way.
//! case nobody_arrives
//! launch block=64
//! args i32[64]
KERNEL(64) k(int* y) {
    __shared__ mbarrier_t b;
    if (threadIdx.x == 0) mbarrier_init(&b, 64);
    __syncthreads();
    if (!BUG || threadIdx.x < 32) mbarrier_arrive(&b);
    mbarrier_wait_parity(&b, 0);                                // HAZARD
    y[threadIdx.x] = 1;
}
//! case producer_waits_for_the_first_release
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
            mbarrier_wait_parity(&empty, (i & 1) ^ !BUG);       // HAZARD
            mbarrier_arrive_expect_tx(&full, 128);
            cp_async_bulk_load(s, x + 32 * i, 128, &full);
        }
        if (threadIdx.x < 32) {
            mbarrier_wait_parity(&full, i & 1);                 // HAZARD
            sum += s[threadIdx.x];
            fence_proxy_async_shared_cta();
            mbarrier_arrive(&empty);
        }
    }
    if (threadIdx.x < 32) y[threadIdx.x] = sum;
}
//! case named_barrier_short_of_a_warp
//! launch block=96
//! args i32[96]
KERNEL(96) k(int* y) {
    if (threadIdx.x < 64) bar_sync(1, BUG ? 96 : 64);           // HAZARD
    y[threadIdx.x] = 1;
}
//! case one_lane_waits_while_its_warp_stands_at_syncwarp
//! launch block=64
//! args i32[64]
KERNEL(64) k(int* y) {
    __shared__ mbarrier_t empty;
    if (threadIdx.x == 0) mbarrier_init(&empty, 2);
    __syncthreads();
    if (threadIdx.x % 32 == 0 && (!BUG || threadIdx.x == 0)) mbarrier_arrive(&empty);
    if (threadIdx.x == 0) mbarrier_wait_parity(&empty, 0);      // HAZARD
    __syncwarp();
    y[threadIdx.x] = 1;
}
//! case one_lane_waits_while_its_warpgroup_stands_at_wgmma
//! launch block=128
//! args f32[128]
KERNEL(128) k(float* y) {
    __shared__ __align__(1024) unsigned char tile[64 * 128];
    __shared__ mbarrier_t empty;
    for (int i = threadIdx.x; i < 64 * 128 / 4; i += 128) reinterpret_cast<int*>(tile)[i] = 0;
    fence_proxy_async_shared_cta();
    if (threadIdx.x == 0) mbarrier_init(&empty, 2);
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive(&empty);
        if (!BUG) mbarrier_arrive(&empty);
        mbarrier_wait_parity(&empty, 0);                        // HAZARD
    }
    __syncwarp();
    float d[32];
    unsigned long long desc = wgmma_descriptor_128B(shared_address(tile));
    wgmma_fence();
    wgmma_m64n64k16_bf16(d, desc, desc, 0);                     // HAZARD
    wgmma_commit_group();
    wgmma_wait_group<0>();
    y[threadIdx.x] = d[0];
}
// SPDX-License-Identifier: Apache-2.0
