// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// New against persistent: the two consumer warpgroups work on different tiles (128 x 128 each), half a tile apart in time:
// while one stores its tile, the other has the tensor core to itself. Why: with both on one tile, both store at the same
// time and the tensor core rests. The producer fills the ring in the order of the tiles; each consumer takes the k-blocks
// of its own tiles and skips the other's.
// The order barrier: a warpgroup begins its k-blocks when the other has issued its last one. Two named barriers, one a
// warpgroup: the other arrives on it, the owner waits. It gives speed, and correctness: without it a consumer that skips
// k-blocks would wait two phases ahead, which a parity cannot tell. (No cluster here. 128 rows: two wgmma of 64, B read twice.)
//
// Macros: STAGES (2 to 7), GROUP. Launch: grid (CTAs), at most the SMs; block 384, dynamic shared memory
// STAGES * 32768 + 128. Tensor maps: box 128 rows x 64 columns, swizzle 128B, fill zero. k a multiple of 8.
// Measured in recordings/ladder.json.
#include <cuda_bf16.h>
#include <hopperlab/epilogue.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/raster.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/setmaxnreg.cuh>
#include <hopperlab/tma.cuh>
#include <hopperlab/wgmma_tile.cuh>

#ifndef STAGES
#define STAGES 6
#endif
#ifndef GROUP
#define GROUP 16
#endif
#ifndef BUG_NO_ORDER                // the order barrier is left out: the consumers mix their k-blocks, and take one phase of a slot for another
#define BUG_NO_ORDER 0
#endif
#ifndef BUG_OWN_ORDER               // a consumer arrives on the barrier that it waits on itself: deadlock
#define BUG_OWN_ORDER 0
#endif
#ifndef BUG_OUT_OF_ORDER            // the second consumer begins with the first one's k-blocks: both read the same slots
#define BUG_OUT_OF_ORDER 0
#endif

constexpr int BM = 128, BN = 128, BK = 64;
constexpr int A_BYTES = BM * BK * 2, B_BYTES = BN * BK * 2, STAGE_BYTES = A_BYTES + B_BYTES;

extern "C" __global__ void __launch_bounds__(384, 1)
gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, __nv_bfloat16* c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile), then the barriers
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(shared + STAGES * STAGE_BYTES);
    mbarrier_t* empty = full + STAGES;
    require_aligned(shared, 1024);
    int k_tiles = (k + BK - 1) / BK, rows = (m + BM - 1) / BM, cols = (n + BN - 1) / BN;
    int warpgroup = threadIdx.x / 128;

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 1);                        // one warpgroup reads a slot
        }
    }
    __syncthreads();                                            // nobody touches a barrier before it is one

    Ring<STAGES> ring;
    if (warpgroup == 0) {
        setmaxnreg_dec<40>();
        if (threadIdx.x == 0) {
            for (int index = blockIdx.x; index < rows * cols; index += gridDim.x) {
                Tile tile = grouped_tile<GROUP>(index, rows, cols);
                for (int i = 0; i < k_tiles; i++, ring.advance()) {
                    unsigned char* stage = shared + ring.slot * STAGE_BYTES;
                    mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
                    mbarrier_arrive_expect_tx(&full[ring.slot], STAGE_BYTES);
                    cp_async_bulk_tensor_2d_load(stage, &a, &full[ring.slot], i * BK, tile.row * BM);
                    cp_async_bulk_tensor_2d_load(stage + A_BYTES, &b, &full[ring.slot], i * BK, tile.col * BN);
                }
            }
        }
    } else {
        setmaxnreg_inc<232>();
        float d[2][BN / 2];                                     // rows 0..63 and 64..127 of the tile
        int me = warpgroup - 1, thread = threadIdx.x % 128;
        if (me == 1 && !BUG_OUT_OF_ORDER) ring.skip(k_tiles);   // the first tile is the other's
        for (int index = blockIdx.x + me * gridDim.x; index < rows * cols; index += 2 * gridDim.x) {
            Tile tile = grouped_tile<GROUP>(index, rows, cols);
            if (index != blockIdx.x && !BUG_NO_ORDER) bar_sync(1 + me, 256);    // the other has issued the tile before mine
            for (int i = 0; i < k_tiles; i++, ring.advance()) {
                unsigned stage = shared_address(shared) + ring.slot * STAGE_BYTES;
                mbarrier_wait_parity(&full[ring.slot], ring.phase);
                wgmma_fence();
                wgmma_k_block(d[0], stage, stage + A_BYTES, i > 0);
                wgmma_k_block(d[1], stage + 64 * BK * 2, stage + A_BYTES, i > 0);
                wgmma_commit_group();
                if (i == k_tiles - 1 && index + gridDim.x < rows * cols && !BUG_NO_ORDER)
                    bar_arrive(BUG_OWN_ORDER ? 1 + me : 2 - me, 256);   // the other's turn
                wgmma_wait_group<0>();
                if (thread == 0) mbarrier_arrive(&empty[ring.slot]);
            }
            ring.skip(k_tiles);
            #pragma unroll
            for (int half = 0; half < 2; half++)
                store_accumulator(c, d[half], tile.row * BM + half * 64, tile.col * BN, m, n);
        }
    }
}
// SPDX-License-Identifier: Apache-2.0
