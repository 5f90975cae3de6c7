// What short sequences ask for besides attention.cuh: the product with V where several CTAs share an SM's registers, and the rows of a sequence's end.
#pragma once
#include <hopperlab/attention.cuh>

// wgmma_values; HALVES: by a wgmma for each half of the columns. ptxas refuses one that alone needs more registers than the kernel starts with.
template <int KEYS, bool HALVES, int COUNT>
__device__ __forceinline__ void wgmma_values_in(float (&o)[COUNT], const unsigned (&p)[KEYS / 16][4], unsigned v_tile, unsigned v_panel, int accumulate) {
    if constexpr (HALVES) {
        #pragma unroll
        for (int half = 0; half < 2; half++)
            wgmma_values<KEYS>(*reinterpret_cast<float (*)[COUNT / 2]>(o + half * COUNT / 2), p, v_tile + half * (COUNT / 64) * v_panel, v_panel, accumulate);
    } else {
        wgmma_values<KEYS>(o, p, v_tile, v_panel, accumulate);
    }
}

// A warp's 16 rows of bf16, or as many as `rows`, from panels of 64 columns (128-byte swizzle, `panel` bytes apart; tile: of the first row) to rows of
// WIDTH that begin `pitch` elements apart: 16 bytes a lane, so that sectors are written whole.
template <int WIDTH>
__device__ __forceinline__ void store_rows(const unsigned char* tile, unsigned panel, __nv_bfloat16* out, int pitch, int rows) {
    constexpr int WORDS = WIDTH / 8;
    #pragma unroll
    for (int i = 0; i < WORDS / 2; i++) {
        int at = threadIdx.x % 32 + 32 * i, row = at / WORDS, word = at % WORDS;
        if (row < rows)
            *reinterpret_cast<uint4*>(out + (size_t)row * pitch + word * 8) = *reinterpret_cast<const uint4*>(tile + word / 8 * panel + row * 128 + (word ^ row) % 8 * 16);
    }
}
// SPDX-License-Identifier: Apache-2.0
