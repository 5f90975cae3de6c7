// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// The first of four kernels on equal tiles, {cp.async, TMA} x {mma.sync, wgmma}: 128 x 128 x 64, 256 threads, the same ring of
// STAGES slots of 32 KB in the 128-byte swizzle; this one is Ampere on both sides, tma_mma, cp_async_wgmma and multistage the
// others. It is mma_multistage with the tiles of those (which has BK = 32, and brings fragments ahead of their use).
// Waiting: each thread waits for its own copies; the barrier of a tile says that everyone's have landed, and that everyone
// has read the tile before, whose slot is then refilled.
//
// Macros: STAGES (2 to 7), BLOCKS_PER_SM (what the registers are budgeted for), COPY_AFTER (1: the next tile is asked for after
// the product, as cuda_pipeline.cu does with the block's pipeline). Launch: grid (ceil(n/128), ceil(m/128)), block 256, dynamic
// shared memory STAGES * 32768 bytes. k a multiple of 8. Measured in recordings/variants.json, COPY_AFTER in pipelines.json.
#include <hopperlab/cp_async_tile.cuh>
#include <hopperlab/mma_tile.cuh>

#ifndef STAGES
#define STAGES 3
#endif
#ifndef BLOCKS_PER_SM
#define BLOCKS_PER_SM 2
#endif
#ifndef COPY_AFTER
#define COPY_AFTER 0
#endif

constexpr int BM = 128, BN = 128, BK = 64, A_BYTES = BM * BK * 2, STAGE_BYTES = A_BYTES + BN * BK * 2;

extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM)
gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile)
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, k_tiles = (k + BK - 1) / BK;

    auto copy = [&](int i) {                                    // tile i into its slot; one group a tile, empty past the end
        unsigned char* stage = shared + i % STAGES * STAGE_BYTES;
        if (i < k_tiles) {
            cp_async_tile_128x64(stage, a, m, k, row0, i * BK);
            cp_async_tile_128x64(stage + A_BYTES, b, n, k, col0, i * BK);
        }
        cp_async_commit_group();
    };
    for (int i = 0; i < STAGES - 1; i++) copy(i);
    float d[4][4][4] = {};
    for (int i = 0; i < k_tiles; i++) {
        cp_async_wait_group<STAGES - 2>();                      // my part of tile i has landed;
        __syncthreads();                                        // so has everyone's, and all have read tile i - 1
        if (!COPY_AFTER) copy(i + STAGES - 1);
        unsigned stage = shared_address(shared) + i % STAGES * STAGE_BYTES;
        mma_k_block_128(d, stage, stage + A_BYTES);
        if (COPY_AFTER) copy(i + STAGES - 1);
    }
    store_mma_tile(c, d, row0, col0, m, n);
}
// SPDX-License-Identifier: Apache-2.0
