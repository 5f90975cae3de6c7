// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// New against pingpong: both consumer warpgroups work on the same tile, 64 of its 128 rows each. Tile, ring, order of the
// tiles and epilogue stay as they are. Why: so that the two schedules are compared at equal tiles. Nothing is skipped, so
// nobody needs an order barrier; what is lost is that somebody multiplies while somebody else stores.
// A slot is free when both have read it.
//
// Macros: STAGES (2 to 7), GROUP. Launch: grid (CTAs), at most the SMs; block 384, dynamic shared memory
// STAGES * 32768 + 128. Tensor maps: box 128 rows x 64 columns, swizzle 128B, fill zero. k a multiple of 8.
// Measured by `hopperlab bench lessons --kernels schedules`.
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
            mbarrier_init(&empty[s], 2);                        // both warpgroups read a slot
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
        float d[BN / 2];
        int my_rows = (warpgroup - 1) * 64, thread = threadIdx.x % 128;
        for (int index = blockIdx.x; index < rows * cols; index += gridDim.x) {
            Tile tile = grouped_tile<GROUP>(index, rows, cols);
            for (int i = 0; i < k_tiles; i++, ring.advance()) {
                unsigned stage = shared_address(shared) + ring.slot * STAGE_BYTES;
                mbarrier_wait_parity(&full[ring.slot], ring.phase);
                wgmma_fence();
                wgmma_k_block(d, stage + my_rows * BK * 2, stage + A_BYTES, i > 0);
                wgmma_commit_group();
                wgmma_wait_group<0>();
                if (thread == 0) mbarrier_arrive(&empty[ring.slot]);
            }
            store_accumulator(c, d, tile.row * BM + my_rows, tile.col * BN, m, n);
        }
    }
}
// SPDX-License-Identifier: Apache-2.0
