// c[m,n] = a[m,k] b[k,n] in bf16, fp32 out: 64 x 64 tiles, 4 warps of 32 x 32, three buffers with padded rows, ldmatrix.trans for b.
#include "bits.cuh"
using bf16 = __nv_bfloat16;
extern "C" __global__ void __launch_bounds__(128) mma_nn(const bf16* __restrict__ a, const bf16* __restrict__ b, float* __restrict__ c, int n, int k)
{
    __shared__ __align__(16) bf16 as[3][64][40];
    __shared__ __align__(16) bf16 bs[3][32][72];
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, wm = warp / 2 * 32, wn = warp % 2 * 32;
    const int row0 = blockIdx.y * 64, col0 = blockIdx.x * 64;
    auto fetch = [&](int buffer, int k0) {
#pragma unroll
        for (int i = tid; i < 256; i += 128) {
            pt::copy16(pt::sm(&as[buffer][i / 4][i % 4 * 8]), a + (size_t)(row0 + i / 4) * k + k0 + i % 4 * 8);
            pt::copy16(pt::sm(&bs[buffer][i / 8][i % 8 * 8]), b + (size_t)(k0 + i / 8) * n + col0 + i % 8 * 8);
        }
        pt::commit();
    };
    float acc[2][4][4] = {};
    fetch(0, 0);
    fetch(1, 32);
    int now = 0;
    for (int k0 = 0; k0 < k; k0 += 32) {
        if (k0 + 32 < k) pt::wait<1>(); else pt::wait<0>();
        __syncthreads();
        if (k0 + 64 < k) fetch(now == 0 ? 2 : now - 1, k0 + 64);
#pragma unroll
        for (int kk = 0; kk < 32; kk += 16) {
            unsigned fa[2][4], fb[2][4];
#pragma unroll
            for (int i = 0; i < 2; ++i) pt::ldsm4(fa[i], pt::sm(&as[now][wm + i * 16 + lane % 16][kk + lane / 16 * 8]));
#pragma unroll
            for (int j = 0; j < 2; ++j) pt::ldsm4t(fb[j], pt::sm(&bs[now][kk + lane % 16][wn + j * 16 + lane / 16 * 8]));
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) pt::mma16816(acc[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]);
        }
        now = now == 2 ? 0 : now + 1;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
            for (int h = 0; h < 2; ++h)
                *reinterpret_cast<float2*>(c + (size_t)(row0 + wm + i * 16 + h * 8 + lane / 4) * n + col0 + wn + j * 8 + lane % 4 * 2)
                    = make_float2(acc[i][j][2 * h], acc[i][j][2 * h + 1]);
}

// SPDX-License-Identifier: Apache-2.0
