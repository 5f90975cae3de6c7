// wgmma on e4m3 operands (always K-major), 64 rows by 64, 128, 192 or 256 columns, and the promotion of a k-block's partial sums
// into fp32 accumulators with the scales of its rows. [PTX ISA 9.7.15.5.1]
#pragma once
#include <hopperlab/mma.cuh>
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

// d (+)= a * b over 128 columns of k, or its k-steps FROM to END - 1 of 4: rows of 128 bytes in the 128-byte swizzle, given by their
// descriptors. accumulate 0: the first k-step overwrites d.
template <int FROM = 0, int END = 4, int COUNT>
__device__ __forceinline__ void wgmma_k_block_e4m3(float (&d)[COUNT], unsigned long long a_tile, unsigned long long b_tile, int accumulate) {
    static_assert(COUNT == 32 || COUNT == 64 || COUNT == 96 || COUNT == 128);
    #pragma unroll
    for (int step = FROM; step < END; step++) {                 // 32 elements are 32 bytes inside a swizzled row
        unsigned long long a = wgmma_descriptor_at(a_tile, step * 32), b = wgmma_descriptor_at(b_tile, step * 32);
        if constexpr (COUNT == 32) wgmma_m64n64k32_e4m3(d, a, b, step ? 1 : accumulate);
        else if constexpr (COUNT == 64) wgmma_m64n128k32_e4m3(d, a, b, step ? 1 : accumulate);
        else if constexpr (COUNT == 96) wgmma_m64n192k32_e4m3(d, a, b, step ? 1 : accumulate);
        else wgmma_m64n256k32_e4m3(d, a, b, step ? 1 : accumulate);
    }
}

// The same by the tiles' addresses.
template <int COUNT>
__device__ __forceinline__ void wgmma_k_block_e4m3(float (&d)[COUNT], unsigned a_tile, unsigned b_tile, int accumulate) {
    wgmma_k_block_e4m3(d, wgmma_descriptor_k_major<128>(a_tile), wgmma_descriptor_k_major<128>(b_tile), accumulate);
}

// The A fragments of a warpgroup for one k-block, from its 64 rows of 128 bytes in the 128-byte swizzle: 16 registers a thread.
// A fragment of 8-bit elements is one of 16-bit elements with pairs of bytes in their place. [9.7.15.5.1, 9.7.14.5.15]
__device__ __forceinline__ void load_fragments_e4m3(unsigned (&fragments)[4][4], unsigned tile) {
    int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane % 16;
    #pragma unroll
    for (int step = 0; step < 4; step++)                        // lanes 0-15: the first 16 bytes of the step; 16-31: the others
        ldmatrix_x4(fragments[step], tile + row * 128 + ((2 * step + lane / 16) ^ row % 8) * 16);
}

// The same product with A in registers: B is all that it reads from shared memory.
template <int COUNT>
__device__ __forceinline__ void wgmma_k_block_e4m3(float (&d)[COUNT], const unsigned (&a)[4][4], unsigned long long b_tile) {
    static_assert(COUNT == 32 || COUNT == 64);
    #pragma unroll
    for (int step = 0; step < 4; step++) {
        unsigned long long b = wgmma_descriptor_at(b_tile, step * 32);
        if constexpr (COUNT == 32) wgmma_m64n64k32_e4m3_rs(d, a[step], b, step > 0);
        else wgmma_m64n128k32_e4m3_rs(d, a[step], b, step > 0);
    }
}

// sum += scale * part, where d[i] of both lies in the thread's upper row for i / 2 even, in the row 8 below for i / 2 odd.
template <int COUNT, int PART>
__device__ __forceinline__ void promote(float (&sum)[COUNT], int first, const float (&part)[PART], float upper, float lower) {
    #pragma unroll
    for (int i = 0; i < PART; i++) sum[first + i] = fmaf(i / 2 % 2 ? lower : upper, part[i], sum[first + i]);
}

// The same for SPAN registers of `part` from `from` on: columns that share a scale.
template <int SPAN, int COUNT, int PART>
__device__ __forceinline__ void promote_span(float (&sum)[COUNT], int first, const float (&part)[PART], int from, float upper, float lower) {
    #pragma unroll
    for (int i = 0; i < SPAN; i++) sum[first + from + i] = fmaf(i / 2 % 2 ? lower : upper, part[from + i], sum[first + from + i]);
}
