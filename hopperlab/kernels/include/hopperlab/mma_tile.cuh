// A 128 x 128 tile of C by ldmatrix and mma.sync with eight warps, 64 x 32 each: the part of an Ampere-style kernel that does not
// depend on how the tiles came into shared memory. [PTX ISA 9.7.14.5] Tiles of A and B: 128 rows of 128 bytes (64 columns of k)
// in the 128-byte swizzle, as TMA writes them and as swizzled_128() places them.
#pragma once
#include <cuda_bf16.h>
#include <hopperlab/mma.cuh>

// Byte offset of 16-byte chunk `chunk` (0..7) of row `row`.
__device__ __forceinline__ unsigned swizzled_128(int row, int chunk) {
    return row * 128 + ((chunk ^ (row % 8)) * 16);
}

// d += A * B^T over 64 columns of k. A lane gives ldmatrix the row of A: rows 0-7 and 8-15 of the low 8 columns, then of the
// high 8; of B: columns 0-7 low, high, then columns 8-15. d: [16-row block][8-column block][fragment register].
__device__ __forceinline__ void mma_k_block_128(float (&d)[4][4][4], unsigned a_tile, unsigned b_tile) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    unsigned a_row = a_tile + (warp / 4 * 64 + lane % 16) * 128, a_chunk = lane / 16;
    unsigned b_row = b_tile + (warp % 4 * 32 + lane % 8 + lane / 16 * 8) * 128, b_chunk = lane / 8 % 2;
    #pragma unroll
    for (int step = 0; step < 4; step++) {
        unsigned fa[4][4], fb[2][4];
        #pragma unroll
        for (int y = 0; y < 4; y++) ldmatrix_x4(fa[y], a_row + y * 2048 + ((2 * step + a_chunk) ^ (lane % 8)) * 16);
        #pragma unroll
        for (int x = 0; x < 2; x++) ldmatrix_x4(fb[x], b_row + x * 2048 + ((2 * step + b_chunk) ^ (lane % 8)) * 16);
        #pragma unroll
        for (int j = 0; j < 16; j++)
            mma_m16n8k16_bf16(d[j / 4][j % 4], fa[j / 4], fb[j % 4 / 2][j % 2 * 2], fb[j % 4 / 2][j % 2 * 2 + 1]);
    }
}

// The tile to C (m x n, row-major), its corner at row0, col0, guarded at the edges.
__device__ __forceinline__ void store_mma_tile(__nv_bfloat16* c, const float (&d)[4][4][4], int row0, int col0, int m, int n) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    #pragma unroll
    for (int j = 0; j < 32; j++) {                              // 16-row block, 8-column block, rows g or g + 8
        int y = j / 8, x = j / 2 % 4, half = j % 2;
        int row = row0 + warp / 4 * 64 + 16 * y + lane / 4 + 8 * half, col = col0 + warp % 4 * 32 + 8 * x + lane % 4 * 2;
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
