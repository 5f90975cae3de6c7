// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// New against cp_async_mma: wgmma instead of ldmatrix and mma.sync; the copies stay Ampere's. Why: it shows which half of
// Hopper's gain comes from the tensor core's side alone (tma_mma shows the other half, multistage both).
// What it costs: wgmma reads shared memory through the async proxy, cp.async writes through the generic one. Each thread fences
// its own landed copies (fence.proxy.async) before the barrier that tells everyone; with TMA neither is needed.
// One product is in flight while the copies of a later tile are issued: slot i - 2 is refilled in step i, after all have
// waited for product i - 2 and met at the barrier. So STAGES - 2 tiles are ahead.
//
// Macros: STAGES (3 to 7), BLOCKS_PER_SM (what the registers are budgeted for). Launch: grid (ceil(n/128), ceil(m/128)), block
// 256 (two warpgroups, 64 rows each), dynamic shared memory STAGES * 32768 bytes. k a multiple of 8.
// Measured in recordings/variants.json.
#include <hopperlab/cp_async_tile.cuh>
#include <hopperlab/epilogue.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/wgmma_tile.cuh>

#ifndef STAGES
#define STAGES 3
#endif
#ifndef BLOCKS_PER_SM
#define BLOCKS_PER_SM 2
#endif

constexpr int BM = 128, BN = 128, BK = 64, A_BYTES = BM * BK * 2, STAGE_BYTES = A_BYTES + BN * BK * 2;
static_assert(STAGES >= 3, "one slot is multiplied, one is still being read, the others load");

extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM)
gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile)
    require_aligned(shared, 1024);
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, k_tiles = (k + BK - 1) / BK;
    int my_rows = threadIdx.x / 128 * 64;

    auto copy = [&](int i) {                                    // tile i into its slot; one group a tile, empty past the end
        unsigned char* stage = shared + i % STAGES * STAGE_BYTES;
        if (i < k_tiles) {
            cp_async_tile_128x64(stage, a, m, k, row0, i * BK);
            cp_async_tile_128x64(stage + A_BYTES, b, n, k, col0, i * BK);
        }
        cp_async_commit_group();
    };
    for (int i = 0; i < STAGES - 2; i++) copy(i);
    float d[64];
    for (int i = 0; i < k_tiles; i++) {
        cp_async_wait_group<STAGES - 3>();                      // my part of tile i has landed,
        fence_proxy_async_shared_cta();                         // and comes before what the tensor core reads;
        wgmma_wait_group<1>();                                  // product i - 2 has read its slot;
        __syncthreads();                                        // all of this for everyone
        unsigned stage = shared_address(shared) + i % STAGES * STAGE_BYTES;
        wgmma_fence();
        wgmma_k_block(d, stage + my_rows * BK * 2, stage + A_BYTES, i > 0);
        wgmma_commit_group();
        copy(i + STAGES - 2);                                   // into slot i - 2, under product i
    }
    wgmma_wait_group<0>();
    store_accumulator(c, d, row0 + my_rows, col0, m, n);
}
// SPDX-License-Identifier: Apache-2.0
