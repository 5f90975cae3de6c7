// stmatrix with every matrix transposed on its way: what a warp holds by columns becomes rows in shared memory. [PTX ISA 9.7.14.5.16]
#pragma once
#include <hopperlab/stmatrix.cuh>

// As stmatrix_x4, but lane l holds of matrix j, in d[j], column l / 4, rows 2 (l % 4) and the next of what is stored. [9.7.14.5.16]
__device__ __forceinline__ void stmatrix_x4_trans(unsigned row_address, unsigned d0, unsigned d1, unsigned d2, unsigned d3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(row_address), "r"(d0), "r"(d1), "r"(d2), "r"(d3) : "memory");
}
// SPDX-License-Identifier: Apache-2.0
