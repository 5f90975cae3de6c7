// Read by ordinary loads, then overwritten through the async proxy, in the right order and with no fence.proxy.async between.
//! case slot_is_refilled_behind_an_arrival
//! warning
//! launch block=64
//! args f32[512] f32[512]
//! ptx fewer fence.proxy.async
KERNEL(64) k(const float* x, float* y) {
    __shared__ __align__(128) float slot[32];
    __shared__ mbarrier_t full, empty;
    if (threadIdx.x == 0) { mbarrier_init(&full, 1); mbarrier_init(&empty, 1); }
    __syncthreads();
    if (threadIdx.x == 32) {
        for (int i = 0; i < 4; i++) {
            mbarrier_wait_parity(&empty, (i & 1) ^ 1);
            mbarrier_arrive_expect_tx(&full, 128);
            cp_async_bulk_load(slot, x + 32 * i, 128, &full);       // HAZARD
        }
    }
    if (threadIdx.x < 32) {
        for (int i = 0; i < 4; i++) {
            mbarrier_wait_parity(&full, i & 1);
            y[32 * i + threadIdx.x] = slot[threadIdx.x];            // OTHER
#if !BUG
            fence_proxy_async_shared_cta();
#endif
            __syncwarp();
            if (threadIdx.x == 0) mbarrier_arrive(&empty);
        }
    }
}
//! case tile_is_read_by_ldmatrix_and_loaded_again
//! warning
//! launch block=64
//! args f32[512] u32[512] map:bf16:64x64:8x8:none
//! ptx fewer fence.proxy.async
KERNEL(64) k(const float* x, unsigned* y, const __grid_constant__ TensorMap m) {
    __shared__ __align__(128) unsigned short tile[64];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) mbarrier_init(&full, 1);
    __syncthreads();
    for (int i = 0; i < 3; i++) {
        if (threadIdx.x == 0) {
            mbarrier_arrive_expect_tx(&full, 128);
            cp_async_bulk_tensor_2d_load(tile, &m, &full, 8 * i, 0);    // HAZARD
        }
        mbarrier_wait_parity(&full, i & 1);
        unsigned d;
        asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                     : "=r"(d) : "r"(shared_address(tile + 8 * (threadIdx.x % 8))) : "memory");  // OTHER
        y[64 * i + threadIdx.x] = d;
#if !BUG
        fence_proxy_async_shared_cta();
#endif
        __syncthreads();
    }
}
//! case one_thread_reads_and_loads_again
//! warning
//! launch block=32
//! args f32[512] f32[512]
//! ptx fewer fence.proxy.async
KERNEL(32) k(const float* x, float* y) {                            // program order is no proxy fence either
    __shared__ __align__(128) float slot[4];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        for (int i = 0; i < 3; i++) {
            mbarrier_arrive_expect_tx(&full, 16);
            cp_async_bulk_load(slot, x + 4 * i, 16, &full);         // HAZARD
            mbarrier_wait_parity(&full, i & 1);
            y[i] = slot[0] + slot[3];                               // OTHER
#if !BUG
            fence_proxy_async_shared_cta();
#endif
        }
    }
}
//! case fence_in_another_warp
//! warning
//! launch block=64
//! args f32[512] f32[512]
KERNEL(64) k(const float* x, float* y) {                            // a fence by a thread that is not on the way
    __shared__ __align__(128) float slot[32];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) mbarrier_init(&full, 1);
    __syncthreads();
    for (int i = 0; i < 3; i++) {
        if (threadIdx.x == 0) {
            mbarrier_arrive_expect_tx(&full, 128);
            cp_async_bulk_load(slot, x + 32 * i, 128, &full);       // HAZARD
        }
        mbarrier_wait_parity(&full, i & 1);
        if (threadIdx.x < 32) y[32 * i + threadIdx.x] = slot[threadIdx.x];  // OTHER
        if (BUG ? threadIdx.x >= 32 : threadIdx.x < 32) fence_proxy_async_shared_cta();
        __syncthreads();
    }
}
//! case issuer_fences_behind_its_wait
//! clean
//! launch block=64
//! args f32[512] f32[512]
KERNEL(64) k(const float* x, float* y) {                            // once for all readers: it has learned of their reads
    __shared__ __align__(128) float slot[64];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) mbarrier_init(&full, 1);
    __syncthreads();
    for (int i = 0; i < 3; i++) {
        if (threadIdx.x == 0) {
            fence_proxy_async_shared_cta();
            mbarrier_arrive_expect_tx(&full, 256);
            cp_async_bulk_load(slot, x + 64 * i, 256, &full);
        }
        mbarrier_wait_parity(&full, i & 1);
        y[64 * i + threadIdx.x] = slot[threadIdx.x ^ 33];
        __syncthreads();
    }
}
//! case readers_of_the_async_proxy
//! clean
//! launch block=32
//! args f32[512] f32[512]
KERNEL(32) k(const float* x, float* y) {                            // a bulk store reads the slot: one proxy, no fence
    __shared__ __align__(128) float slot[32];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        for (int i = 0; i < 3; i++) {
            mbarrier_arrive_expect_tx(&full, 128);
            cp_async_bulk_load(slot, x + 32 * i, 128, &full);
            mbarrier_wait_parity(&full, i & 1);
            cp_async_bulk_store(y + 32 * i, slot, 128);
            cp_async_bulk_commit_group();
            cp_async_bulk_wait_group_read<0>();
        }
        cp_async_bulk_wait_group<0>();
    }
}
// SPDX-License-Identifier: Apache-2.0
