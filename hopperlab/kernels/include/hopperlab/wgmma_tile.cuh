// One k-block of a K-major product by wgmma: the four k-steps of 16 that a 128-byte row holds. [PTX ISA 9.7.15.5.2]
// The accumulator's size picks the instruction: 32, 64 or 128 registers per thread are 64 rows x 64, 128 or 256 columns.
#pragma once
#include <hopperlab/wgmma.cuh>

__device__ __forceinline__ void wgmma_m64k16_bf16(float (&d)[32], unsigned long long a, unsigned long long b, int accumulate) {
    wgmma_m64n64k16_bf16(d, a, b, accumulate);
}
__device__ __forceinline__ void wgmma_m64k16_bf16(float (&d)[64], unsigned long long a, unsigned long long b, int accumulate) {
    wgmma_m64n128k16_bf16(d, a, b, accumulate);
}
__device__ __forceinline__ void wgmma_m64k16_bf16(float (&d)[128], unsigned long long a, unsigned long long b, int accumulate) {
    wgmma_m64n256k16_bf16(d, a, b, accumulate);
}

// d (+)= a * b over 64 columns of k; a_tile and b_tile: shared addresses of rows of 128 bytes in the 128-byte swizzle, a
// multiple of 1024. accumulate 0: the first k-step overwrites d, so that nobody sets it to zero before.
template <int COUNT>
__device__ __forceinline__ void wgmma_k_block(float (&d)[COUNT], unsigned a_tile, unsigned b_tile, int accumulate) {
    #pragma unroll
    for (int step = 0; step < 4; step++)                        // 16 elements are 32 bytes inside a swizzled row
        wgmma_m64k16_bf16(d, wgmma_descriptor_128B(a_tile + step * 32), wgmma_descriptor_128B(b_tile + step * 32),
                          step == 0 ? accumulate : 1);
}
// SPDX-License-Identifier: Apache-2.0
