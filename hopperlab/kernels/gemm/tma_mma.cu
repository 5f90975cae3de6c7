// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// New against mma_multistage: TMA instead of cp.async, and nothing else: one thread names two boxes per tile, the engine
// computes the addresses, fills what lies outside with zeros and swizzles. The tensor core is still driven as on Ampere,
// by ldmatrix and mma.sync. Why: it shows which half of Hopper's gain comes from the copies alone (compare tma_wgmma,
// which changes the other half too). A row of the tile is now 128 bytes (BK = 64) in the 128-byte swizzle.
// Waiting: full[s] counts the bytes of slot s; the barrier of each tile says that everyone has read the tile before,
// whose slot thread 0 then refills. ldmatrix reads through the generic proxy what TMA wrote; the mbarrier orders them, and a
// proxy fence orders what TMA writes next behind what ldmatrix has read.
// Macros: STAGES (2 to 7). Launch: grid (ceil(n/128), ceil(m/128)), block 256, dynamic shared memory
// STAGES * 32768 + 64 bytes. Tensor maps: box 128 rows x 64 columns, swizzle 128B, fill zero. k a multiple of 8.
// Measured in recordings/ladder.json.
#include <cuda_bf16.h>
#include <hopperlab/fence.cuh>
#include <hopperlab/mma.cuh>
#include <hopperlab/tma.cuh>
#ifndef STAGES
#define STAGES 3
#endif

constexpr int BM = 128, BN = 128, BK = 64, ROW_BYTES = 128;
constexpr int A_BYTES = BM * ROW_BYTES, STAGE_BYTES = A_BYTES + BN * ROW_BYTES;
constexpr int WM = 64, WN = 32;                                 // a warp's part: 2 x 4 warps

extern "C" __global__ void __launch_bounds__(256, 2)
gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, __nv_bfloat16* c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile), then the barriers
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(shared + STAGES * STAGE_BYTES);
    require_aligned(shared, 1024);
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, k_tiles = (k + BK - 1) / BK;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    auto load = [&](int i) {                                    // thread 0 only: tile i into its slot
        unsigned char* stage = shared + i % STAGES * STAGE_BYTES;
        mbarrier_arrive_expect_tx(&full[i % STAGES], STAGE_BYTES);
        cp_async_bulk_tensor_2d_load(stage, &a, &full[i % STAGES], i * BK, row0);
        cp_async_bulk_tensor_2d_load(stage + A_BYTES, &b, &full[i % STAGES], i * BK, col0);
    };
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) mbarrier_init(&full[s], 1);
        for (int i = 0; i < STAGES - 1 && i < k_tiles; i++) load(i);
    }
    __syncthreads();                                            // nobody waits on a barrier before it is one

    // The row whose address this lane gives to ldmatrix, and which 16 bytes of it at k-step 0. A: rows 0-7 and 8-15 of the
    // low 8 columns, then of the high 8. B: columns 0-7 low, high, then columns 8-15. Rows repeat the swizzle every 8.
    int warp_row = warp / 4 * WM, warp_col = warp % 4 * WN;
    unsigned a_row = (warp_row + lane % 16) * ROW_BYTES, a_chunk = lane / 16;
    unsigned b_row = (warp_col + lane % 8 + lane / 16 * 8) * ROW_BYTES + A_BYTES, b_chunk = lane / 8 % 2;
    float d[4][4][4] = {};                                      // [16-row block][8-column block][fragment register]
    for (int i = 0; i < k_tiles; i++) {
        mbarrier_wait_parity(&full[i % STAGES], i / STAGES % 2);
        __syncthreads();                                        // everyone has read tile i - 1: its slot may be refilled
        if (threadIdx.x == 0 && i + STAGES - 1 < k_tiles) fence_proxy_async_shared_cta(), load(i + STAGES - 1);
        unsigned tile = shared_address(shared) + i % STAGES * STAGE_BYTES;
        #pragma unroll
        for (int step = 0; step < 4; step++) {
            unsigned fa[4][4], fb[2][4];
            #pragma unroll
            for (int y = 0; y < 4; y++)
                ldmatrix_x4(fa[y], tile + a_row + y * 16 * ROW_BYTES + ((2 * step + a_chunk) ^ (lane % 8)) * 16);
            #pragma unroll
            for (int x = 0; x < 2; x++)
                ldmatrix_x4(fb[x], tile + b_row + x * 16 * ROW_BYTES + ((2 * step + b_chunk) ^ (lane % 8)) * 16);
            #pragma unroll
            for (int j = 0; j < 16; j++)
                mma_m16n8k16_bf16(d[j / 4][j % 4], fa[j / 4], fb[j % 4 / 2][j % 2 * 2], fb[j % 4 / 2][j % 2 * 2 + 1]);
        }
    }
    #pragma unroll
    for (int j = 0; j < 32; j++) {                              // 16-row block, 8-column block, rows g or g + 8
        int y = j / 8, x = j / 2 % 4, half = j % 2;
        int row = row0 + warp_row + 16 * y + lane / 4 + 8 * half, col = col0 + warp_col + 8 * x + lane % 4 * 2;
        __nv_bfloat16* out = c + (size_t)row * n + col;
        float low = d[y][x][2 * half], high = d[y][x][2 * half + 1];
        if (row < m && col + 1 < n && n % 2 == 0) {
            *reinterpret_cast<__nv_bfloat162*>(out) = __floats2bfloat162_rn(low, high);
        } else if (row < m) {                                   // odd n: pairs are not 4-byte aligned
            if (col < n) out[0] = __float2bfloat16(low);
            if (col + 1 < n) out[1] = __float2bfloat16(high);
        }
    }
}
// SPDX-License-Identifier: Apache-2.0
