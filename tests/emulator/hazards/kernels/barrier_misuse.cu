// Barriers used against their rules.
//! case used_before_init
//! launch block=32
//! args i32[32]
KERNEL(32) k(int* y) {
    __shared__ mbarrier_t b;
    if (!BUG && threadIdx.x == 0) mbarrier_init(&b, 32);
    __syncwarp();
    mbarrier_arrive(&b);                                        // HAZARD
    mbarrier_wait_parity(&b, 0);
    y[threadIdx.x] = 1;
}
//! case initialised_twice
//! launch block=32
//! args i32[32]
//! ptx fewer mbarrier.inval
KERNEL(32) k(int* y) {
    __shared__ mbarrier_t b;
    if (threadIdx.x == 0) mbarrier_init(&b, 32);                // OTHER
    __syncthreads();
    mbarrier_arrive(&b);
    mbarrier_wait_parity(&b, 0);
    __syncthreads();
#if !BUG
    if (threadIdx.x == 0) mbarrier_inval(&b);
#endif
    if (threadIdx.x == 0) mbarrier_init(&b, 1);                 // HAZARD
    y[threadIdx.x] = 1;
}
//! case every_thread_initialises
//! launch block=32
//! args i32[32]
KERNEL(32) k(int* y) {
    __shared__ mbarrier_t b;
    if (BUG || threadIdx.x == 0) mbarrier_init(&b, 32);         // HAZARD OTHER
    __syncthreads();
    mbarrier_arrive(&b);
    mbarrier_wait_parity(&b, 0);
    y[threadIdx.x] = 1;
}
//! case overwritten_by_a_store
//! launch block=64 shared=1024
//! args i32[64]
KERNEL(64) k(int* y) {
    extern __shared__ __align__(128) unsigned char memory[];       // 64 numbers take 256 bytes
    int* s = (int*)memory;
    mbarrier_t* b = (mbarrier_t*)(memory + (BUG ? 128 : 256));
    if (threadIdx.x == 0) mbarrier_init(b, 64);                 // OTHER
    __syncthreads();
    s[threadIdx.x] = threadIdx.x;                               // HAZARD
    mbarrier_arrive(b);
    mbarrier_wait_parity(b, 0);
    y[threadIdx.x] = s[threadIdx.x ^ 1];
}
//! case overwritten_by_a_copy
//! launch block=32 shared=1024
//! args f32[64] f32[32]
KERNEL(32) k(const float* x, float* y) {
    extern __shared__ __align__(128) unsigned char memory[];
    mbarrier_t* b = (mbarrier_t*)(memory + (BUG ? 192 : 256));
    if (threadIdx.x == 0) {
        mbarrier_init(b, 1);                                    // OTHER
        mbarrier_arrive_expect_tx(b, 256);
        cp_async_bulk_load(memory, x, 256, b);                     // HAZARD
    }
    __syncthreads();
    mbarrier_wait_parity(b, 0);
    y[threadIdx.x] = ((float*)memory)[threadIdx.x];
}
//! case too_many_arrivals
//! launch block=64
//! args i32[64]
KERNEL(64) k(int* y) {
    __shared__ mbarrier_t b;
    if (threadIdx.x == 0) mbarrier_init(&b, BUG ? 33 : 64);
    __syncthreads();
    if (threadIdx.x < 33) mbarrier_arrive(&b);
    else mbarrier_arrive(&b);
    if (BUG && threadIdx.x < 32) {
        asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0], 40;" :: "r"(shared_address(&b)) : "memory");  // HAZARD
    }
    y[threadIdx.x] = 1;
}
//! case fewer_bytes_announced_than_copied
//! launch block=32
//! args f32[64] f32[32]
//! also read-before-arrival
KERNEL(32) k(const float* x, float* y) {
    __shared__ __align__(128) float s[64];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_arrive_expect_tx(&full, BUG ? 128 : 256);      // OTHER
        cp_async_bulk_load(s, x, 256, &full);                   // HAZARD
    }
    __syncthreads();
    mbarrier_wait_parity(&full, 0);
    y[threadIdx.x] = s[threadIdx.x];
}
//! case named_barrier_with_two_counts
//! launch block=96
//! args i32[96]
//! also deadlock
KERNEL(96) k(int* y) {
    if (threadIdx.x < 32) bar_arrive(1, BUG ? 64 : 96);         // HAZARD OTHER
    else bar_sync(1, 96);                                       // OTHER HAZARD
    y[threadIdx.x] = 1;
}
//! case barrier_after_some_have_left
//! warning
//! launch block=64
//! args i32[64] int:40
KERNEL(64) k(int* y, int n) {
    if (BUG && threadIdx.x >= n) return;
    __syncthreads();                                            // HAZARD
    if (threadIdx.x < n) y[threadIdx.x] = 1;
}
//! case barrier_of_warps_that_remain
//! warning
//! launch block=128
//! args i32[128]
KERNEL(128) k(int* y) {                                         // the hardware counts the threads that have not exited
    __shared__ int s[128];
    s[threadIdx.x] = threadIdx.x;
    if (BUG && threadIdx.x >= 64) return;
    __syncthreads();                                            // HAZARD
    if (threadIdx.x < 64) y[threadIdx.x] = s[threadIdx.x ^ 32];
}
//! case bytes_before_they_are_announced
//! clean
//! launch block=32
//! args f32[32] f32[32]
KERNEL(32) k(const float* x, float* y) {                        // the count may be negative for a while
    __shared__ __align__(128) float s[32];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        cp_async_bulk_load(s, x, 128, &full);
        mbarrier_arrive_expect_tx(&full, 128);
    }
    __syncthreads();
    mbarrier_wait_parity(&full, 0);
    y[threadIdx.x] = s[threadIdx.x];
}
//! case last_arrival_that_nobody_takes
//! warning
//! launch block=64
//! args i32[64] int:3
KERNEL(64) k(int* y, int n) {                                   // two warps take turns; the last turn is handed to nobody
    int me = threadIdx.x / 32;
    if (me == 1) bar_arrive(1, 64);                             // warp 0 may begin
    for (int i = 0; i < n; i++) {
        bar_sync(1 + me, 64);
        y[threadIdx.x] += i;
        if (me == 0 || BUG || i < n - 1) bar_arrive(2 - me, 64);  // HAZARD
    }
}
//! case ring_slot_freed_once_too_often
//! warning
//! launch block=64
//! args i32[64] int:4
KERNEL(64) k(int* y, int n) {                                   // full 1, free 2: the consumer frees the slot of the last round as well
    __shared__ int slot[32];
    if (threadIdx.x < 32) {
        for (int i = 0; i < n; i++) {
            if (i > 0) bar_sync(2, 64);
            slot[threadIdx.x] = i + threadIdx.x;
            bar_arrive(1, 64);
        }
        return;
    }
    for (int i = 0; i < n; i++) {
        bar_sync(1, 64);
        y[threadIdx.x] += slot[threadIdx.x - 32];
        if (BUG || i < n - 1) bar_arrive(2, 64);                // HAZARD
    }
}
//! case bytes_and_a_second_arriver_on_one_arrival
//! launch block=64
//! args f32[32] f32[32]
//! also race
KERNEL(64) k(const float* x, float* y) {
    __shared__ __align__(128) float s[64];
    __shared__ mbarrier_t full;
    int t = threadIdx.x;
    if (t == 63) mbarrier_init(&full, BUG ? 1 : 2);             // OTHER
    __syncthreads();
    if (t == 0) { mbarrier_arrive_expect_tx(&full, 128); cp_async_bulk_load(s, x, 128, &full); }
    if (t >= 32) {
        s[t] = t;
        __syncwarp();
        if (t == 50) mbarrier_arrive(&full);                    // HAZARD
    } else {
        mbarrier_wait_parity(&full, 0);
        y[t] = s[t] + s[32 + t];
    }
}
//! case three_whole_warps_on_an_mbarrier_for_one_less
//! launch block=128
//! args i32[128]
KERNEL(128) k(int* y) {
    __shared__ int s[96];
    __shared__ mbarrier_t full;
    int t = threadIdx.x;
    if (t == 0) mbarrier_init(&full, BUG ? 95 : 96);            // OTHER
    __syncthreads();
    if (t < 96) { s[t] = t; mbarrier_arrive(&full); }           // HAZARD
    else { mbarrier_wait_parity(&full, 0); y[t] = s[t - 32] + s[t - 96]; }
}
//! case warps_that_come_together_with_two_counts
//! launch block=128
//! args f32[128]
KERNEL(128) k(float* y) {                                       // one instruction, whose count differs from warp to warp
    int count = BUG && threadIdx.x < 96 ? 96 : 128;
    asm volatile("bar.sync 1, %0;" :: "r"(count) : "memory");   // HAZARD OTHER
    y[threadIdx.x] = 1;
    asm volatile("bar.sync 1, 128;" ::: "memory");              // OTHER
}
// SPDX-License-Identifier: Apache-2.0
