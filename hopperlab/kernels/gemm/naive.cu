// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// The start of the ladder: a thread an element of C, and each walks over its row of A and its row of B.
// Why it is slow: every product of two numbers loads two numbers. The 32 lanes of a warp share a row of A (one address,
// a broadcast), but each reads a row of B of its own, k * 2 bytes apart: 32 sectors an instruction for 64 useful bytes.
//
// Launch: grid (ceil(n/32), ceil(m/8)), block (32, 8), no dynamic shared memory. Any m, n, k.
// Measured in recordings/ladder.json.
#include <cuda_bf16.h>

extern "C" __global__ void __launch_bounds__(256)
gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int m, int n, int k) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row >= m || col >= n) return;
    const __nv_bfloat16* a_row = a + (size_t)row * k;
    const __nv_bfloat16* b_row = b + (size_t)col * k;
    float sum = 0;
    for (int i = 0; i < k; i++) sum += __bfloat162float(a_row[i]) * __bfloat162float(b_row[i]);
    c[(size_t)row * n + col] = __float2bfloat16(sum);
}
// SPDX-License-Identifier: Apache-2.0
