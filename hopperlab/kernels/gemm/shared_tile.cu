// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// New against naive: the block loads a 64 x 16 tile of A and of B together, once, into shared memory, and every number is
// then read from there by many threads. A thread computes 4 x 4 elements of C, so that 8 numbers from shared memory give
// 16 products. The tiles lie in shared memory as fp32 with k as the outer index: four neighbours are one 16-byte load.
// Two barriers per tile: the tile is complete before anyone reads it, and read by all before anyone overwrites it.
// Still slow, because loading and multiplying take turns: nobody multiplies while the loads of a tile are under way.
//
// Macros: BM, BN (multiples of 64: 16 x 16 threads compute 4 x 4 elements of each 64 x 64 piece), BK (a multiple of 4).
// Launch: grid (ceil(n/BN), ceil(m/BM)), block 256, no dynamic shared memory. Any m, n, k; zeros outside.
// Measured, with 64 x 64 x 16, in recordings/ladder.json.
#include <cuda_bf16.h>
#include <hopperlab/bugs_by_lesson.cuh>

#ifndef BM
#define BM 64
#endif
#ifndef BN
#define BN 64
#endif
#ifndef BK
#define BK 16
#endif

constexpr int FOURS = BK / 4, AT_ONCE = 256 / FOURS;            // loads of four a row; rows that 256 threads load at once
static_assert(BM % 64 == 0 && BN % 64 == 0, "16 x 16 threads compute 64 x 64 pieces of the tile");
static_assert(BK % 4 == 0 && 256 % FOURS == 0 && BM % AT_ONCE == 0 && BN % AT_ONCE == 0, "256 threads share the loads of a tile out evenly");

// This thread's 4 neighbours along k of row `row` of x (rows x k), zeros outside, to column `place` of the tile.
template <int PITCH>
__device__ __forceinline__ void load_four(float (&tile)[BK][PITCH], const __nv_bfloat16* x, int row, int rows, int place,
                                          int k0, int k) {
    int from = threadIdx.x % FOURS * 4;
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        bool inside = row < rows && k0 + from + i < k;
        tile[from + i][place] = inside ? __bfloat162float(x[(size_t)row * k + k0 + from + i]) : 0;
    }
}

extern "C" __global__ void __launch_bounds__(256)
gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int m, int n, int k) {
    // 4 floats more a row move the banks, and 16 bytes stay aligned.
    __shared__ __align__(16) float a_tile[BK][BM + 4], b_tile[BK][BN + 4];
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    int y = threadIdx.x / 16 * 4, x = threadIdx.x % 16 * 4;     // this thread's corner in each 64 x 64 piece of the tile of C
    int loads = threadIdx.x / FOURS;                            // the first row of A and of B that it loads
    float d[BM / 16][BN / 16] = {};
    for (int k0 = 0; k0 < k; k0 += BK) {
        #pragma unroll
        for (int r = loads; r < loads + BM; r += AT_ONCE) load_four(a_tile, a, row0 + r, m, r, k0, k);
        #pragma unroll
        for (int r = loads; r < loads + BN; r += AT_ONCE) load_four(b_tile, b, col0 + r, n, r, k0, k);
        if (!BUG_NO_TILE_BARRIER) __syncthreads();              // the tile is there
        #pragma unroll (BK < 16 ? BK : 16)
        for (int i = 0; i < BK; i++) {
            __align__(16) float fa[BM / 16], fb[BN / 16];
            #pragma unroll
            for (int j = 0; j < BM / 64; j++) *reinterpret_cast<float4*>(&fa[4 * j]) = *reinterpret_cast<float4*>(&a_tile[i][y + 64 * j]);
            #pragma unroll
            for (int j = 0; j < BN / 64; j++) *reinterpret_cast<float4*>(&fb[4 * j]) = *reinterpret_cast<float4*>(&b_tile[i][x + 64 * j]);
            #pragma unroll
            for (int j = 0; j < BM / 16 * BN / 16; j++) d[j / (BN / 16)][j % (BN / 16)] += fa[j / (BN / 16)] * fb[j % (BN / 16)];
        }
        if (!BUG_NO_REUSE_BARRIER) __syncthreads();             // everyone has read it
    }
    #pragma unroll
    for (int j = 0; j < BM / 16 * BN / 16; j++) {
        int u = j / (BN / 16), v = j % (BN / 16);               // this thread's row and column among its own
        int row = row0 + y + u / 4 * 64 + u % 4, col = col0 + x + v / 4 * 64 + v % 4;
        if (row < m && col < n) c[(size_t)row * n + col] = __float2bfloat16(d[u][v]);
    }
}
// SPDX-License-Identifier: Apache-2.0
