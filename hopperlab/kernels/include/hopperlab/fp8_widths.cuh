// wgmma on e4m3 operands for tiles of 192 columns and for halves of them, and the promotion of sums whose columns lie in two blocks of B's scales.
// [PTX ISA 9.7.15.5.1]
#pragma once
#include <hopperlab/fp8.cuh>
#include <hopperlab/wgmma_widths.cuh>

WGMMA_SS(wgmma_m64n96k32_e4m3, 48, float, "m64n96k32.f32.e4m3.e4m3", ", 1, 1")

// wgmma_k_block_e4m3 for 64, 96, 128 or 192 columns.
template <int COUNT>
__device__ __forceinline__ void wgmma_k_block_e4m3_wide(float (&d)[COUNT], unsigned long long a_tile, unsigned long long b_tile, int accumulate) {
    static_assert(COUNT == 32 || COUNT == 48 || COUNT == 64 || COUNT == 96);
    if constexpr (COUNT == 32 || COUNT == 64) {
        wgmma_k_block_e4m3(d, a_tile, b_tile, accumulate);
        return;
    }
    #pragma unroll
    for (int step = 0; step < 4; step++) {                      // 32 elements are 32 bytes inside a swizzled row
        unsigned long long a = wgmma_descriptor_at(a_tile, step * 32), b = wgmma_descriptor_at(b_tile, step * 32);
        if constexpr (COUNT == 48) wgmma_m64n96k32_e4m3(d, a, b, step ? 1 : accumulate);
        else if constexpr (COUNT == 96) wgmma_m64n192k32_e4m3(d, a, b, step ? 1 : accumulate);
    }
}

// `promote` with the scale of the row * that of the columns, in PIECES equal parts of the columns: those that begin before column `in_first` of the
// sums take the scale `first`, the others `second`.
template <int PIECES, int COUNT, int PART>
__device__ __forceinline__ void promote_pieces(float (&sum)[COUNT], const float (&part)[PART], float upper, float lower, float first, float second, int in_first) {
    #pragma unroll
    for (int piece = 0; piece < PIECES; piece++) {
        constexpr int EACH = PART / PIECES;                     // registers; twice as many columns
        float scale = PIECES == 1 || piece * 2 * EACH < in_first ? first : second;
        promote(sum, piece * EACH, reinterpret_cast<const float (&)[EACH]>(part[piece * EACH]), upper * scale, lower * scale);
    }
}
// SPDX-License-Identifier: Apache-2.0
