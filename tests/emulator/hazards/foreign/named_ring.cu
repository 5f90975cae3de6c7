// Producer and consumer warps with two named barriers per slot (CudaDMA's manner): bar.arrive on one side, bar.sync on the other.
//! launch block=64
//! args f32[512] f32[32]
//! check np.array_equal(a[1], a[0].reshape(8, 64).sum(axis=0).reshape(2, 32).sum(axis=0))
//! mutate slot_taken_too_early race
//! mutate slot_read_too_early race
//! mutate counts_differ barrier-misuse
extern "C" __global__ void __launch_bounds__(64) k(const float* x, float* y) {
    __shared__ float slot[2][64];
    int lane = threadIdx.x & 31;
    if (threadIdx.x < 32) {
        for (int step = 0; step < 8; step++) {
            int i = step & 1;
            if (step > 1) named_sync(3 + i, 64); //~ slot_taken_too_early: if (step > 1) named_arrive(3 + i, 64);
            slot[i][lane] = x[64 * step + lane]; //@ slot_taken_too_early slot_read_too_early
            slot[i][lane + 32] = x[64 * step + lane + 32]; //@ slot_taken_too_early slot_read_too_early
            named_arrive(1 + i, 64); //~ counts_differ: named_arrive(1 + i, 96); //@ counts_differ
        }
        return;
    }
    float sum = 0;
    for (int step = 0; step < 8; step++) {
        int i = step & 1;
        named_sync(1 + i, 64); //~ slot_read_too_early: named_arrive(1 + i, 64); //@ counts_differ
        sum += slot[i][lane ^ 5] + slot[i][(lane ^ 5) + 32]; //@ slot_taken_too_early slot_read_too_early
        if (step < 6) named_arrive(3 + i, 64);
    }
    y[lane ^ 5] = sum;
}
// SPDX-License-Identifier: Apache-2.0
