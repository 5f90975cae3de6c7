// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// New against warp_specialized: the tile of C is 128 x 256, each consumer warpgroup multiplies 64 x 256 of it, with the
// widest wgmma there is. Why: a byte of A is used 256 times instead of 128, so global and shared memory move a quarter
// less for the same products, and the tensor core reads B once for 64 rows of 256 columns.
// What it costs: 128 accumulators a thread. setmaxnreg makes room: 24 registers for the producer, 240 for the consumers
// (24 + 2 * 240 = 504 = 3 * 168, all there are). The first k-step overwrites the accumulator, so nothing sets it to zero.
//
// Macros: STAGES (2 to 4). Launch: grid (ceil(n/256), ceil(m/128)), block 384, dynamic shared memory STAGES * 49152 + 64.
// Tensor maps: A box 128 rows x 64 columns, B box 256 x 64, swizzle 128B, fill zero. k a multiple of 8.
// Measured in recordings/ladder.json.
#include <cuda_bf16.h>
#include <hopperlab/epilogue.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/setmaxnreg.cuh>
#include <hopperlab/tma.cuh>
#include <hopperlab/wgmma_tile.cuh>

#ifndef STAGES
#define STAGES 4
#endif

constexpr int BM = 128, BN = 256, BK = 64;
constexpr int A_BYTES = BM * BK * 2, B_BYTES = BN * BK * 2, STAGE_BYTES = A_BYTES + B_BYTES;

extern "C" __global__ void __launch_bounds__(384, 1)
gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, __nv_bfloat16* c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile), then the barriers
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(shared + STAGES * STAGE_BYTES);
    mbarrier_t* empty = full + STAGES;
    require_aligned(shared, 1024);
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, k_tiles = (k + BK - 1) / BK;
    int warpgroup = threadIdx.x / 128;

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            mbarrier_init(&full[s], 1);                         // the producer, and the bytes
            mbarrier_init(&empty[s], 2);                        // one arrival a consumer warpgroup
        }
    }
    __syncthreads();                                            // nobody touches a barrier before it is one

    Ring<STAGES> ring;
    if (warpgroup == 0) {
        setmaxnreg_dec<24>();
        if (threadIdx.x == 0) {
            for (int i = 0; i < k_tiles; i++, ring.advance()) {
                unsigned char* stage = shared + ring.slot * STAGE_BYTES;
                mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
                mbarrier_arrive_expect_tx(&full[ring.slot], STAGE_BYTES);
                cp_async_bulk_tensor_2d_load(stage, &a, &full[ring.slot], i * BK, row0);
                cp_async_bulk_tensor_2d_load(stage + A_BYTES, &b, &full[ring.slot], i * BK, col0);
            }
        }
    } else {
        setmaxnreg_inc<240>();
        float d[BN / 2];
        int my_rows = (warpgroup - 1) * 64;
        for (int i = 0; i < k_tiles; i++, ring.advance()) {
            unsigned stage = shared_address(shared) + ring.slot * STAGE_BYTES;
            mbarrier_wait_parity(&full[ring.slot], ring.phase);
            wgmma_fence();
            wgmma_k_block(d, stage + my_rows * BK * 2, stage + A_BYTES, i > 0);
            wgmma_commit_group();
            wgmma_wait_group<0>();                              // all four warps' reads are done: one thread hands it back
            if (threadIdx.x % 128 == 0) mbarrier_arrive(&empty[ring.slot]);
        }
        store_accumulator(c, d, row0 + my_rows, col0, m, n);
    }
}
// SPDX-License-Identifier: Apache-2.0
