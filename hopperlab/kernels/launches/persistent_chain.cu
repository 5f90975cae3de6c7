// Lesson 13x's whole chain in one launch: `layers` products of n x n weights, then the norm. No kernel ends between two steps;
// instead the blocks wait for each other by counters in global memory, one for each 64 rows of each layer's result:
//
//   ready[layer * row_blocks + r]   tiles of these rows that have been written; all n / 64 of them: the rows may be read
//   ready[layers * row_blocks]      blocks that have waited for the last time; who comes last sets all counters to 0
//
// The order of a hand-over: 128 threads store a tile -> their barrier -> one thread's red.release; the reader's ld.acquire, then a
// proxy fence, because TMA reads what ordinary stores wrote. The weights of the next layer are loaded before the wait, as
// in product.cu. The counters of one launch are 0 again before the next begins.
//
// Macros: STAGES, VECTORS (n <= 1024 * VECTORS). Launch: cooperative, grid (blocks; those without a tile norm rows), block 160,
// dynamic shared memory STAGES * 16384 + 16 * STAGES. steps: (layers + 1) x m x n, the first of them the input; w: layers x n x n.
// Tensor maps of both as matrices of n columns, box 64 x 64, swizzle 128B. m and n multiples of 64. Measured in
// recordings/launches.json.
#include <hopperlab/chain.cuh>
#include <hopperlab/grid_flag.cuh>
#include <hopperlab/rms_norm.cuh>

#ifndef VECTORS
#define VECTORS 1
#endif

extern "C" __global__ void __launch_bounds__(160)
persistent_chain(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w, __nv_bfloat16* steps,
                 const __nv_bfloat16* gain, __nv_bfloat16* out, unsigned* ready, int m, int n, int layers, float epsilon) {
    Trace trace;
    trace.begin(TRACE_KERNEL);
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (tile of x, tile of w), then the barriers
    __shared__ float partial[4];
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(shared + STAGES * STAGE_BYTES);
    mbarrier_t* empty = full + STAGES;
    int row_blocks = m / TILE, cols = n / TILE, tiles = row_blocks * cols;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) mbarrier_init(&full[s], 1), mbarrier_init(&empty[s], 1);
    }
    __syncthreads();                                            // nobody touches a barrier before it is one

    Ring<STAGES> ring;
    if (threadIdx.x == 128) {                                   // the producer
        for (int layer = 0; layer < layers; layer++) {
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                int row = tile / cols, col0 = layer * n + tile % cols * TILE, row0 = layer * m + row * TILE;
                Ring<STAGES> behind = ring;                     // x follows w through the same slots
                auto load_w = [&](int i) {
                    mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
                    mbarrier_expect_tx(&full[ring.slot], STAGE_BYTES);
                    cp_async_bulk_tensor_2d_load(shared + ring.slot * STAGE_BYTES + TILE_BYTES, &w, &full[ring.slot], i * TILE, col0);
                    ring.advance();
                };
                int first = min(STAGES, cols);
                for (int i = 0; i < first; i++) load_w(i);
                if (layer > 0) {
                    unsigned* flag = &ready[(layer - 1) * row_blocks + row];
                    trace.begin(TRACE_WAIT, layer);
                    wait_for_count(flag, cols);
                    trace.end(TRACE_WAIT, layer);
                    fence_proxy_async();                        // written by ordinary stores, read by TMA
                    if (BUG_FLAG_RESET_EARLY) *flag = 0;
                }
                for (int i = 0; i < cols; i++, behind.advance()) {
                    if (i >= first) load_w(i);
                    cp_async_bulk_tensor_2d_load(shared + behind.slot * STAGE_BYTES, &x, &full[behind.slot], i * TILE, row0);
                    mbarrier_arrive(&full[behind.slot]);
                }
            }
        }
    } else if (threadIdx.x < 128) {                             // the consumers
        uint4 kept[VECTORS], gains[VECTORS];
        load_row(gains, gain, n);
        for (int layer = 0; layer < layers; layer++) {
            __nv_bfloat16* y = steps + (size_t)(layer + 1) * m * n;
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                float d[TILE / 2];
                trace.begin(TRACE_MMA, layer);
                multiply_tile(d, shared, full, empty, ring, cols);
                trace.end(TRACE_MMA, layer);
                store_accumulator(y, d, tile / cols * TILE, tile % cols * TILE, m, n);
                bar_sync(1, 128);                               // all 128 have stored
                if (threadIdx.x == 0) red_release_gpu_add_one(&ready[layer * row_blocks + tile / cols]);
            }
        }
        for (int row = blockIdx.x; row < m; row += gridDim.x) {
            if (threadIdx.x == 0) wait_for_count(&ready[(layers - 1) * row_blocks + row / TILE], cols);
            bar_sync(1, 128);                                   // what thread 0 has acquired, the others now know too
            load_row(kept, steps + ((size_t)layers * m + row) * n, n);
            rms_norm_row(out + (size_t)row * n, kept, gains, n, epsilon, partial, 1);
        }
        int flags = layers * row_blocks;
        if (threadIdx.x == 0 && atom_acq_rel_gpu_add_one(&ready[flags]) == gridDim.x - 1) {    // everybody has waited for the last time
            for (int i = 0; i <= flags; i++) ready[i] = 0;
        }
    }
}
// SPDX-License-Identifier: Apache-2.0
