// stmatrix: the way back of ldmatrix, 8x8 matrices of 16-bit elements from the fragments of a warp to shared memory.
// [PTX ISA 9.7.14.5.16] A generic-proxy store: a fence.proxy.async must come between it and a bulk store of the tile.
#pragma once
#include <cuda_bf16.h>
#include <hopperlab/shared.cuh>

// Four 8x8 matrices. Lanes 8j..8j+7 give the addresses of the rows of matrix j (16 bytes, 16-byte aligned); lane l holds
// of matrix j, in d[j], row l / 4, columns 2 (l % 4) and the next. [9.7.14.5.16]
__device__ __forceinline__ void stmatrix_x4(unsigned row_address, unsigned d0, unsigned d1, unsigned d2, unsigned d3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(row_address), "r"(d0), "r"(d1), "r"(d2), "r"(d3) : "memory");
}

// Two fp32 numbers, rounded to nearest even, as a bf16 pair; `low` in the low half. [cvt: 9.7.9.21]
__device__ __forceinline__ unsigned pack_bf16x2(float low, float high) {
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<unsigned*>(&pair);
}
// SPDX-License-Identifier: Apache-2.0
