// The tensor core as Ampere drives it: ldmatrix brings 8x8 matrices of 16-bit elements from shared memory into the
// fragments of a warp, mma.sync multiplies fragments. [PTX ISA 9.7.14]
// In a fragment, lane l has g = l / 4 and q = l % 4.
#pragma once
#include <hopperlab/shared.cuh>

// Four 8x8 matrices. Lanes 8j..8j+7 give the addresses of the rows of matrix j (16 bytes, 16-byte aligned); lane l gets
// row g, columns 2q and 2q+1 of matrix j in d[j]. [9.7.14.5.15]
__device__ __forceinline__ void ldmatrix_x4(unsigned (&d)[4], unsigned row_address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(row_address) : "memory");
}

// The same, each matrix transposed: lane l gets rows 2q and 2q+1 of column g. [9.7.14.5.15]
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&d)[4], unsigned row_address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(row_address) : "memory");
}

// d[16x8] += a[16x16] * b[16x8], bf16 in, fp32 accumulate. A lane holds
//   a: rows g and g+8, columns 2q, 2q+1 (a[0], a[1]) and 2q+8, 2q+9 (a[2], a[3])
//   b: column g, rows 2q, 2q+1 (b0) and 2q+8, 2q+9 (b1)
//   d: row g (d[0], d[1]) and g+8 (d[2], d[3]), columns 2q and 2q+1.   [9.7.14.5.8]
__device__ __forceinline__ void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// SPDX-License-Identifier: Apache-2.0
