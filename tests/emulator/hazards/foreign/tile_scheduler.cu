// Persistent blocks with a dynamic scheduler: one warp draws tiles from a global counter and hands them out through shared memory.
//! launch block=128 grid=3
//! args f32[512] f32[512] u32[1]
//! moves
//! check np.array_equal(a[1], 3 * a[0])
//! mutate slot_overwritten phase-overrun|race
//! mutate tile_read_too_early race|deadlock
//! mutate released_by_one_lane_at_once race
//! mutate too_few_releases deadlock|barrier-misuse|phase-overrun|race
constexpr int SLOTS = 2;
extern "C" __global__ void __launch_bounds__(128) k(const float* x, float* y, unsigned* counter) {
    __shared__ int tile_id[SLOTS];
    __shared__ ClusterBarrier full[SLOTS], empty[SLOTS];
    if (threadIdx.x == 0)
        for (int i = 0; i < SLOTS; i++) { full[i].init(1); empty[i].init(3); }
    __syncthreads();
    PipelineState<SLOTS> state(threadIdx.x < 32);
    if (threadIdx.x < 32) {
        if (threadIdx.x == 0)
            for (int next = 0; next < 16; state++) {
                empty[state.index].wait(state.phase); //~ slot_overwritten: if (next < 0) empty[state.index].wait(state.phase); //@ too_few_releases
                next = atomicAdd(counter, 1);
                tile_id[state.index] = next < 16 ? next : -1; //@ slot_overwritten tile_read_too_early released_by_one_lane_at_once
                full[state.index].arrive();
            }
        return;
    }
    for (;; state++) {
        full[state.index].wait(state.phase); //~ tile_read_too_early: if (state.index == 0) full[state.index].wait(state.phase); //@ slot_overwritten too_few_releases tile_read_too_early
        int tile = tile_id[state.index]; //@ slot_overwritten tile_read_too_early released_by_one_lane_at_once
        __syncwarp(); //~ released_by_one_lane_at_once:
        if (threadIdx.x % 32 == 0) empty[state.index].arrive(); //~ too_few_releases: if (threadIdx.x == 32) empty[state.index].arrive(); //@ too_few_releases
        if (tile < 0) break;
        int t = threadIdx.x - 32;
        if (t < 32) y[32 * tile + t] = 3 * x[32 * tile + t];
    }
}
// SPDX-License-Identifier: Apache-2.0
