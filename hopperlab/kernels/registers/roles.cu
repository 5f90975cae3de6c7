// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// Lesson 11's kernel: gemm/two_consumers_128x256.cu with its tile and its registers left open, so that the budget can be
// tried. One producer warpgroup copies, CONSUMERS warpgroups multiply, each ROW_BLOCKS x 64 rows of a tile BN columns wide:
// ROW_BLOCKS * BN / 2 accumulators a thread. PRODUCER_REGISTERS and CONSUMER_REGISTERS are what setmaxnreg asks for.
//
// Macros: CONSUMERS (1 or 2), ROW_BLOCKS (1, 2 or 3), BN (64, 128 or 256), STAGES, PRODUCER_REGISTERS, CONSUMER_REGISTERS (0: leave
// the registers as they are), BUG_NO_LAUNCH_BOUNDS (ptxas then ignores setmaxnreg: note C7508).
// Launch: grid (ceil(n/BN), ceil(m/BM)) with BM = CONSUMERS * ROW_BLOCKS * 64, block (1 + CONSUMERS) * 128, dynamic shared memory
// STAGES * (BM + BN) * 128 + 16 * STAGES. Tensor maps: A box ROW_BLOCKS * 64 rows x 64 columns, B box BN x 64, swizzle 128B, fill zero.
#include <cuda_bf16.h>
#include <hopperlab/bugs_by_lesson.cuh>
#include <hopperlab/epilogue.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/setmaxnreg.cuh>
#include <hopperlab/tma.cuh>
#include <hopperlab/wgmma_tile.cuh>

#ifndef CONSUMERS
#define CONSUMERS 2
#endif
#ifndef ROW_BLOCKS
#define ROW_BLOCKS 1
#endif
#ifndef BN
#define BN 256
#endif
#ifndef STAGES
#define STAGES 2
#endif
#ifndef PRODUCER_REGISTERS
#define PRODUCER_REGISTERS 24
#endif
#ifndef CONSUMER_REGISTERS
#define CONSUMER_REGISTERS 240
#endif
#if BUG_NO_LAUNCH_BOUNDS
#define BOUNDS
#else
#define BOUNDS __launch_bounds__((1 + CONSUMERS) * 128, 1)
#endif

constexpr int BM = CONSUMERS * ROW_BLOCKS * 64, BK = 64;
constexpr int A_BYTES = BM * BK * 2, B_BYTES = BN * BK * 2, STAGE_BYTES = A_BYTES + B_BYTES;

extern "C" __global__ void BOUNDS
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
            mbarrier_init(&empty[s], CONSUMERS);                // one arrival a consumer warpgroup
        }
    }
    __syncthreads();                                            // nobody touches a barrier before it is one

    Ring<STAGES> ring;
    if (warpgroup == 0) {
#if PRODUCER_REGISTERS
        setmaxnreg_dec<PRODUCER_REGISTERS>();
#endif
        if (threadIdx.x == 0) {
            for (int i = 0; i < k_tiles; i++, ring.advance()) {
                unsigned char* stage = shared + ring.slot * STAGE_BYTES;
                mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
                mbarrier_arrive_expect_tx(&full[ring.slot], STAGE_BYTES);
                for (int rows = 0; rows < BM; rows += ROW_BLOCKS * 64)      // a consumer's part at a time: a box has at most 256 rows
                    cp_async_bulk_tensor_2d_load(stage + rows * BK * 2, &a, &full[ring.slot], i * BK, row0 + rows);
                cp_async_bulk_tensor_2d_load(stage + A_BYTES, &b, &full[ring.slot], i * BK, col0);
            }
        }
    } else {
#if CONSUMER_REGISTERS
        setmaxnreg_inc<CONSUMER_REGISTERS>();                   // waits until the producer's warps have given theirs back
#endif
        float d[ROW_BLOCKS][BN / 2];
        int my_rows = (warpgroup - 1) * ROW_BLOCKS * 64;
        for (int i = 0; i < k_tiles; i++, ring.advance()) {
            unsigned stage = shared_address(shared) + ring.slot * STAGE_BYTES;
            mbarrier_wait_parity(&full[ring.slot], ring.phase);
            wgmma_fence();
            #pragma unroll
            for (int block = 0; block < ROW_BLOCKS; block++)
                wgmma_k_block(d[block], stage + (my_rows + block * 64) * BK * 2, stage + A_BYTES, i > 0);
            wgmma_commit_group();
            wgmma_wait_group<0>();
            if (threadIdx.x % 128 == 0) mbarrier_arrive(&empty[ring.slot]);
        }
        #pragma unroll
        for (int block = 0; block < ROW_BLOCKS; block++) store_accumulator(c, d[block], row0 + my_rows + block * 64, col0, m, n);
    }
}
// SPDX-License-Identifier: Apache-2.0
