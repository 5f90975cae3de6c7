// A flag between blocks is polled without acquiring, and nothing fences before what it announces is read.
//! case lock_is_taken_and_no_fence_behind_it
//! warning
//! launch block=32 grid=3
//! args f32[8] i32[1]
//! ptx fewer membar.gl
KERNEL(32) k(float* total, int* lock) {
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {}                   // HAZARD
#if !BUG
        __threadfence();
#endif
        total[1] += 2.0f;                                       // OTHER
        __threadfence();
        atomicExch(lock, 0);
    }
}
//! case every_reader_fences_behind_the_barrier
//! clean
//! launch block=64 grid=2
//! args f32[64] f32[64] i32[8]
KERNEL(64) k(float* x, float* y, volatile int* flag) {          // not the thread that polls, but each that reads
    if (blockIdx.x == 0) {
        x[threadIdx.x] = threadIdx.x;
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) flag[0] = 100;
    } else {
        if (threadIdx.x == 0) while (flag[0] != 100) {}
        __syncthreads();
        __threadfence();
        y[threadIdx.x] = x[63 - threadIdx.x];
    }
}
// SPDX-License-Identifier: Apache-2.0
