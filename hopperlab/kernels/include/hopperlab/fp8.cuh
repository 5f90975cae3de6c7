// wgmma on e4m3 operands (always K-major), 64 rows by 64, 128, 192 or 256 columns, and the promotion of a k-block's partial sums
// into fp32 accumulators with the scales of its rows. [PTX ISA 9.7.15.5.1]
#pragma once
#include <hopperlab/wgmma_operands.cuh>

WGMMA_SS(wgmma_m64n64k32_e4m3, 32, float, "m64n64k32.f32.e4m3.e4m3", ", 1, 1")
WGMMA_SS(wgmma_m64n128k32_e4m3, 64, float, "m64n128k32.f32.e4m3.e4m3", ", 1, 1")
WGMMA_SS(wgmma_m64n192k32_e4m3, 96, float, "m64n192k32.f32.e4m3.e4m3", ", 1, 1")
WGMMA_SS(wgmma_m64n256k32_e4m3, 128, float, "m64n256k32.f32.e4m3.e4m3", ", 1, 1")
WGMMA_RS(wgmma_m64n64k32_e4m3_rs, 32, float, "m64n64k32.f32.e4m3.e4m3", ", 1, 1")
WGMMA_RS(wgmma_m64n128k32_e4m3_rs, 64, float, "m64n128k32.f32.e4m3.e4m3", ", 1, 1")

// The descriptor of an operand `bytes` further on: one addition, where making it anew takes five instructions. Its lower word counts
// 16 bytes from 0 to 16383; no address in shared memory carries out of that. [9.7.15.5.1.2.2]
__device__ __forceinline__ unsigned long long wgmma_descriptor_at(unsigned long long descriptor, unsigned bytes) {
    return (descriptor & 0xFFFFFFFF00000000) | static_cast<unsigned>(static_cast<unsigned>(descriptor) + bytes / 16);
}

constexpr int FP8_BK = 128;                                     // columns of a k-block: 128 bytes, one row of the 128-byte swizzle

// d (+)= a * b over 128 columns of k, in four k-steps: rows of 128 bytes in the 128-byte swizzle, given by their descriptors.
// accumulate 0: the first k-step overwrites d.
template <int COUNT>
__device__ __forceinline__ void wgmma_k_block_e4m3(float (&d)[COUNT], unsigned long long a_tile, unsigned long long b_tile, int accumulate) {
    static_assert(COUNT == 32 || COUNT == 64 || COUNT == 128);
    #pragma unroll
    for (int step = 0; step < 4; step++) {                      // 32 elements are 32 bytes inside a swizzled row
        unsigned long long a = wgmma_descriptor_at(a_tile, step * 32), b = wgmma_descriptor_at(b_tile, step * 32);
        if constexpr (COUNT == 32) wgmma_m64n64k32_e4m3(d, a, b, step ? 1 : accumulate);
        else if constexpr (COUNT == 64) wgmma_m64n128k32_e4m3(d, a, b, step ? 1 : accumulate);
        else wgmma_m64n256k32_e4m3(d, a, b, step ? 1 : accumulate);
    }
}

// The same by the tiles' addresses.
template <int COUNT>
__device__ __forceinline__ void wgmma_k_block_e4m3(float (&d)[COUNT], unsigned a_tile, unsigned b_tile, int accumulate) {
    wgmma_k_block_e4m3(d, wgmma_descriptor_k_major<128>(a_tile), wgmma_descriptor_k_major<128>(b_tile), accumulate);
}

// sum += scale * part, where d[i] of both lies in the thread's upper row for i / 2 even, in the row 8 below for i / 2 odd.
template <int COUNT, int PART>
__device__ __forceinline__ void promote(float (&sum)[COUNT], int first, const float (&part)[PART], float upper, float lower) {
    #pragma unroll
    for (int i = 0; i < PART; i++) sum[first + i] = fmaf(i / 2 % 2 ? lower : upper, part[i], sum[first + i]);
}
// SPDX-License-Identifier: Apache-2.0
