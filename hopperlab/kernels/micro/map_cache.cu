// How many tensor maps does the copy engine keep? One thread copies the same 128 bytes, which are in the L2, through one map after
// the other, and through all of them again: PASSES times. A map that is still kept costs nothing, one that has to be fetched again
// shows in the cycles: out[pass * count + i] of the i-th copy of a pass, from issue until it has landed.
//
// `stride` is the distance of two maps, in maps of 128 bytes. `turn` 1: every other pass goes through the maps backwards, so that a
// cache which is too small still finds those that were used last; 0: always forwards, where one that evicts the longest unused finds
// none.
//
// Macros: PASSES. Launch: grid 1, block 32, dynamic shared memory 128 bytes. Maps: box 1 row x 64 columns of bf16, in global memory.
// Measured in recordings/engine.json.
#include <hopperlab/clock.cuh>
#include <hopperlab/tensormap.cuh>

#ifndef PASSES
#define PASSES 3
#endif

constexpr int BOX_BYTES = 64 * 2;

extern "C" __global__ void __launch_bounds__(32)
map_cache(const __grid_constant__ TensorMap first, const TensorMap* maps, int count, int stride, int turn, long long* out) {
    extern __shared__ __align__(128) unsigned char box[];
    __shared__ mbarrier_t full;
    if (threadIdx.x != 0) return;
    mbarrier_init(&full, 1);
    unsigned phase = 0;
    auto timed = [&](const TensorMap* map) {
        long long start = clock_cycles();
        mbarrier_arrive_expect_tx(&full, BOX_BYTES);
        cp_async_bulk_tensor_2d_load(box, map, &full, 0, 0);
        mbarrier_wait_parity(&full, phase);
        phase ^= 1;
        return clock_cycles() - start;
    };
    for (int i = 0; i < count; i++) fence_proxy_tensormap_acquire(maps + (long long)i * stride);   // somebody else wrote them
    timed(&first);                                          // the data, and the instructions
    timed(&first);
    for (int pass = 0; pass < PASSES; pass++)
        for (int i = 0; i < count; i++) {
            int at = turn && pass % 2 ? count - 1 - i : i;
            out[(long long)pass * count + i] = timed(maps + (long long)at * stride);
        }
}
// SPDX-License-Identifier: Apache-2.0
