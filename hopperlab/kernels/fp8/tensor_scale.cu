// C[m,n] = scale * A[m,k] * B[n,k]^T, e4m3 in, bf16 out; all row-major, so both operands are K-major (the only way for fp8).
//
// Step 1 of the fp8 ladder: the bf16 product of gemm/overlapped_store.cu with half the bytes. One scale for the whole product,
// and the tensor core adds up all of k by itself: fast, and less exact than it looks, because it does not keep all bits of an
// fp32 sum while it adds fp8 products (lesson 15 measures it).
//
// Macros: STAGES, GROUP (rows of tiles the order walks down), C_SLOTS.
// Launch: grid at most the SMs, block 384 (a producer and two consumer warpgroups of 64 rows), dynamic shared memory
// STAGES * 49152 + C_SLOTS * 16384 + 128.
// Tensor maps: A box 128 rows x 128 columns, B box 256 x 128 (uint8, swizzle 128B, fill zero), C box 64 x 64 bf16, swizzle
// 128B. k a multiple of 16, n of 8. Measured in recordings/fp8.json.
#include <cuda_bf16.h>
#include <hopperlab/epilogue.cuh>
#include <hopperlab/fp8.cuh>
#include <hopperlab/raster.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/ring_barriers.cuh>
#include <hopperlab/setmaxnreg.cuh>

#ifndef STAGES
#define STAGES 4
#endif
#ifndef GROUP
#define GROUP 8
#endif
#ifndef C_SLOTS
#define C_SLOTS 1
#endif

constexpr int BM = 128, BN = 256, A_BYTES = BM * FP8_BK, STAGE_BYTES = (BM + BN) * FP8_BK, SLOT_BYTES = 8192;

extern "C" __global__ void __launch_bounds__(384, 1)
gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap c_map,
     float scale, int m, int n, int k) {
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
    float d[1][BN / 2];
    for (int index = blockIdx.x; index < rows * cols; index += gridDim.x) {
        int before = 0;
        for (int i = 0; i < k_tiles; i++, ring.advance()) {
            unsigned stage = shared_address(shared) + ring.slot * STAGE_BYTES;
            mbarrier_wait_parity(&full[ring.slot], ring.phase);
            wgmma_fence();
            wgmma_k_block_e4m3(d[0], stage + me * 64 * FP8_BK, stage + A_BYTES, i > 0);
            wgmma_commit_group();
            wgmma_wait_group<1>();                              // the k-block before has been read
            if (i > 0 && thread == 0) mbarrier_arrive(&empty[before]);
            before = ring.slot;
        }
        wgmma_wait_group<0>();
        if (thread == 0) mbarrier_arrive(&empty[before]);
        #pragma unroll
        for (int i = 0; i < BN / 2; i++) d[0][i] *= scale;
        Tile tile = grouped_tile<GROUP>(index, rows, cols);
        store_accumulators_tma<C_SLOTS>(&c_map, d, slots + me * C_SLOTS * SLOT_BYTES, 1 + me, tile.row * BM + me * 64, tile.col * BN, m, n);
    }
    if (thread == 0) cp_async_bulk_wait_group_read<0>();        // shared memory outlives its readers
}
// SPDX-License-Identifier: Apache-2.0
