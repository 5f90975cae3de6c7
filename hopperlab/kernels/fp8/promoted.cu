// C[m,n] = sum over k-blocks of (A scale * B scale) * (A block * B block^T), e4m3 in, bf16 out; A m x k, B n x k, row-major.
// A has a scale for each row and 128 columns (1 x 128), B one for each 128 rows and 128 columns (128 x 128).
//
// Step 2 of the fp8 ladder: two accumulators. Each k-block of 128 is multiplied from zero into `part`; then its sums go, with the
// scales, into `sum` in fp32 on the ordinary units. So the tensor core never adds up more than 128 columns, and the scales,
// which change from k-block to k-block, come in where they belong. While one warpgroup promotes, the other one multiplies.
// The scales are read from global memory, as any thread would.
//
// Macros: STAGES, GROUP, C_SLOTS. Launch: grid at most the SMs, block 384, dynamic shared memory STAGES * 32768 + C_SLOTS * 16384
// + 128. Tensor maps: A, B boxes 128 rows x 128 columns (uint8, swizzle 128B, fill zero), C box 64 x 64 bf16, swizzle 128B.
// a_scales: k-blocks x `pitch` floats, row i at [k-block][i]; b_scales: ceil(n / 128) x k-blocks floats.
// k a multiple of 16, n of 8. Measured in recordings/fp8.json.
#include <cuda_bf16.h>
#include <hopperlab/epilogue.cuh>
#include <hopperlab/fp8.cuh>
#include <hopperlab/raster.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/ring_barriers.cuh>
#include <hopperlab/setmaxnreg.cuh>

#ifndef STAGES
#define STAGES 5
#endif
#ifndef GROUP
#define GROUP 8
#endif
#ifndef C_SLOTS
#define C_SLOTS 1
#endif

constexpr int BM = 128, BN = 128, A_BYTES = BM * FP8_BK, STAGE_BYTES = (BM + BN) * FP8_BK, SLOT_BYTES = 8192;

extern "C" __global__ void __launch_bounds__(384, 1)
gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap c_map,
     const float* a_scales, const float* b_scales, int pitch, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile), slots of C, barriers
    unsigned char* slots = shared + STAGES * STAGE_BYTES;
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(slots + 2 * C_SLOTS * SLOT_BYTES);
    mbarrier_t* empty = full + STAGES;
    require_aligned(shared, 1024);
    int k_tiles = (k + FP8_BK - 1) / FP8_BK, rows = (m + BM - 1) / BM, cols = (n + BN - 1) / BN;
    int warpgroup = threadIdx.x / 128;
    if (threadIdx.x == 0) ring_barriers_init<STAGES>(full, 1, empty, 2);        // the producer, and the bytes; a thread of each consumer
    __syncthreads();

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
                    cp_async_bulk_tensor_2d_load(stage, &a, &full[ring.slot], i * FP8_BK, tile.row * BM);
                    cp_async_bulk_tensor_2d_load(stage + A_BYTES, &b, &full[ring.slot], i * FP8_BK, tile.col * BN);
                }
            }
        }
        return;
    }
    setmaxnreg_inc<232>();
    int me = __shfl_sync(0xffffffff, warpgroup - 1, 0), thread = threadIdx.x % 128;
    float part[BN / 2], sum[1][BN / 2];
    for (int index = blockIdx.x; index < rows * cols; index += gridDim.x) {
        Tile tile = grouped_tile<GROUP>(index, rows, cols);
        int row = tile.row * BM + me * 64 + thread / 32 * 16 + thread % 32 / 4;     // this thread's upper row; the lower one is 8 below
        #pragma unroll
        for (int i = 0; i < BN / 2; i++) sum[0][i] = 0;
        for (int i = 0; i < k_tiles; i++, ring.advance()) {
            unsigned stage = shared_address(shared) + ring.slot * STAGE_BYTES;
            float b_scale = b_scales[tile.col * k_tiles + i];   // a tile of 128 columns has one
            float upper = row < m ? a_scales[i * pitch + row] * b_scale : 0;
            float lower = row + 8 < m ? a_scales[i * pitch + row + 8] * b_scale : 0;
            mbarrier_wait_parity(&full[ring.slot], ring.phase);
            wgmma_fence();
            wgmma_k_block_e4m3(part, stage + me * 64 * FP8_BK, stage + A_BYTES, 0);
            wgmma_commit_group();
            wgmma_wait_group<0>();
            if (thread == 0) mbarrier_arrive(&empty[ring.slot]);                    // the slot is free before the promotion begins
            promote(sum[0], 0, part, upper, lower);
        }
        store_accumulators_tma<C_SLOTS>(&c_map, sum, slots + me * C_SLOTS * SLOT_BYTES, 1 + me, tile.row * BM + me * 64, tile.col * BN, m, n);
    }
    if (thread == 0) cp_async_bulk_wait_group_read<0>();        // shared memory outlives its readers
}
// SPDX-License-Identifier: Apache-2.0
