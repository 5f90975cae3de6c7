// y[m,n] = x[m,k] * w[n,k]^T, bf16 in, fp32 accumulate, bf16 out: a product so small that its start and its end count. Lesson
// 13x runs it four times in a row, each on what the one before wrote.
//
// One tile of 64 x 64 a block: one warp loads, one warpgroup multiplies (lesson 10). New: the two instructions of programmatic
// dependent launch. Everything above the wait runs beside the tail of the kernel in front: the barriers, the
// descriptors, and the weights of the first STAGES k-blocks, which nobody in front writes. Only the producer's thread waits:
//   its wait -> its loads of x and its arrival on full[s] -> the consumers, who write y no sooner
// So its arrival stands behind the wait, though the slot's bytes are announced before it (expect_tx alone is no arrival).
//
// Macros: LAUNCH_AT, WAIT_AT (chain.cuh), STAGES. Launch: grid (n / 64, ceil(m / 64)), block 160, dynamic shared memory STAGES *
// 16384 + 16 * STAGES. Tensor maps: box 64 x 64, swizzle 128B, fill zero. n and k multiples of 64. Measured in
// recordings/launches.json.
#include <hopperlab/chain.cuh>

extern "C" __global__ void __launch_bounds__(160)
product(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w, __nv_bfloat16* y, int m, int n, int k) {
    Trace trace;
    trace.begin(TRACE_KERNEL);
    if (WAIT_AT == WAIT_AT_START) wait_for_grid_in_front(trace);
    if (LAUNCH_AT == LAUNCH_AT_START) griddepcontrol_launch_dependents();
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (tile of x, tile of w), then the barriers
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(shared + STAGES * STAGE_BYTES);
    mbarrier_t* empty = full + STAGES;
    int row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE, k_tiles = k / TILE;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) mbarrier_init(&full[s], 1), mbarrier_init(&empty[s], 1);
    }
    __syncthreads();                                            // nobody touches a barrier before it is one

    if (threadIdx.x == 128) {                                   // the producer
        auto load_w = [&](int i) {
            mbarrier_expect_tx(&full[i % STAGES], STAGE_BYTES);
            cp_async_bulk_tensor_2d_load(shared + i % STAGES * STAGE_BYTES + TILE_BYTES, &w, &full[i % STAGES], i * TILE, col0);
        };
        auto load_x = [&](int i) {
            cp_async_bulk_tensor_2d_load(shared + i % STAGES * STAGE_BYTES, &x, &full[i % STAGES], i * TILE, row0);
            mbarrier_arrive(&full[i % STAGES]);
        };
        int first = min(STAGES, k_tiles);
        if (WAIT_AT == WAIT_AT_LOADS) wait_for_grid_in_front(trace);
        for (int i = 0; i < first; i++) load_w(i);
        if (WAIT_AT == WAIT_AT_X && !BUG_X_BEFORE_GRID_WAIT) wait_for_grid_in_front(trace);
        for (int i = 0; i < first; i++) load_x(i);
        if (BUG_X_BEFORE_GRID_WAIT) wait_for_grid_in_front(trace);
        for (int i = first; i < k_tiles; i++) {
            mbarrier_wait_parity(&empty[i % STAGES], i / STAGES % 2 ^ 1);
            load_w(i), load_x(i);
        }
        if (LAUNCH_AT == LAUNCH_AT_LOADED) griddepcontrol_launch_dependents();
    } else if (threadIdx.x < 128) {                             // the consumers
        float d[TILE / 2];
        Ring<STAGES> ring;
        trace.begin(TRACE_MMA);
        multiply_tile(d, shared, full, empty, ring, k_tiles);
        trace.end(TRACE_MMA);
        if (LAUNCH_AT == LAUNCH_AT_MULTIPLIED) griddepcontrol_launch_dependents();
        store_accumulator(y, d, row0, col0, m, n);
    }
}
// SPDX-License-Identifier: Apache-2.0
