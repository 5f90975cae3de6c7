// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// cp_async_mma with a full and an empty mbarrier for each slot in place of groups and __syncthreads: what the block's
// cuda::pipeline is compiled to (cuda_pipeline.cu with SCOPE 1), written by hand. Every thread copies and every thread multiplies,
// so 256 arrive on either barrier: on `full` when a thread's copies have landed, on `empty` when it has read the tile.
//
// Macros: STAGES (2 to 7), BLOCKS_PER_SM (what the registers are budgeted for), COPY_AFTER (1: the next tile is asked for after
// the product, 0: before it). Launch: grid (ceil(n/128), ceil(m/128)), block 256, dynamic shared memory STAGES * 32768 bytes.
// k a multiple of 8. Measured in recordings/pipelines.json.
#include <hopperlab/cp_async_tile.cuh>
#include <hopperlab/mbarrier.cuh>
#include <hopperlab/mma_tile.cuh>

#ifndef STAGES
#define STAGES 3
#endif
#ifndef BLOCKS_PER_SM
#define BLOCKS_PER_SM 2
#endif
#ifndef COPY_AFTER
#define COPY_AFTER 1
#endif

constexpr int BM = 128, BN = 128, BK = 64, A_BYTES = BM * BK * 2, STAGE_BYTES = A_BYTES + BN * BK * 2;

extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM)
gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile)
    __shared__ mbarrier_t full[STAGES], empty[STAGES];
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, k_tiles = (k + BK - 1) / BK;
    if (threadIdx.x < STAGES) {
        mbarrier_init(&full[threadIdx.x], 256);
        mbarrier_init(&empty[threadIdx.x], 256);
    }
    __syncthreads();                                            // nobody arrives on a barrier that is not there yet

    auto copy = [&](int i) {                                    // tile i into its slot
        if (i >= k_tiles) return;
        int slot = i % STAGES;
        unsigned char* stage = shared + slot * STAGE_BYTES;
        mbarrier_wait_parity(&empty[slot], i / STAGES % 2 ^ 1); // until everyone has read tile i - STAGES
        cp_async_tile_128x64(stage, a, m, k, row0, i * BK);
        cp_async_tile_128x64(stage + A_BYTES, b, n, k, col0, i * BK);
        cp_async_mbarrier_arrive_noinc(&full[slot]);            // when my part has landed
    };
    for (int i = 0; i < STAGES - 1; i++) copy(i);
    float d[4][4][4] = {};
    for (int i = 0; i < k_tiles; i++) {
        int slot = i % STAGES;
        unsigned stage = shared_address(shared) + slot * STAGE_BYTES;
        mbarrier_wait_parity(&full[slot], i / STAGES % 2);      // everyone's part of tile i has landed
        if (!COPY_AFTER) copy(i + STAGES - 1);                  // into the slot of tile i - 1
        mma_k_block_128(d, stage, stage + A_BYTES);
        mbarrier_arrive(&empty[slot]);                          // I have read tile i
        if (COPY_AFTER) copy(i + STAGES - 1);
    }
    store_mma_tile(c, d, row0, col0, m, n);
}
// SPDX-License-Identifier: Apache-2.0
