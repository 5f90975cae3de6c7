// c[m,n] = a[m,k] b[n,k]^T in bf16: cp.async ring, xor-swizzled tiles of 32 columns, ldmatrix, mma.sync. 8 warps, 128 x 128.
#include "bits.cuh"
#ifndef STAGES
#define STAGES 3
#endif
using bf16 = __nv_bfloat16;
constexpr int BM = 128, BN = 128, BK = 32, STAGE = (BM + BN) * BK * 2;

__device__ __forceinline__ unsigned spot(int row, int chunk) { return row * 64 + ((chunk ^ (row >> 1 & 3)) << 4); }

extern "C" __global__ void __launch_bounds__(256) mma_tn(const bf16* __restrict__ a, const bf16* __restrict__ b, bf16* __restrict__ c, int m, int n, int k)
{
    extern __shared__ __align__(128) unsigned char ring[];
    const unsigned base = pt::sm(ring);
    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, wm = (warp & 1) * 64, wn = (warp >> 1) * 32;
    const bf16* ga = a + (size_t)blockIdx.y * BM * k;
    const bf16* gb = b + (size_t)blockIdx.x * BN * k;
    const int steps = k / BK;

    auto fetch = [&](int step) {
        if (step < steps) {
            const unsigned at = base + step % STAGES * STAGE;
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int piece = tid + 256 * i, row = piece >> 2, chunk = piece & 3;
                pt::copy16(at + spot(row, chunk), ga + (size_t)row * k + step * BK + chunk * 8);
                pt::copy16(at + BM * BK * 2 + spot(row, chunk), gb + (size_t)row * k + step * BK + chunk * 8);
            }
        }
        pt::commit();
    };

    float acc[4][4][4] = {};
    for (int s = 0; s < STAGES - 1; ++s) fetch(s);
    for (int step = 0; step < steps; ++step) {
        pt::wait<STAGES - 2>();
        __syncthreads();
        fetch(step + STAGES - 1);
        const unsigned at = base + step % STAGES * STAGE, bt = at + BM * BK * 2;
#pragma unroll
        for (int kk = 0; kk < 2; ++kk) {
            unsigned fa[4][4], fb[2][4];
#pragma unroll
            for (int i = 0; i < 4; ++i) pt::ldsm4(fa[i], at + spot(wm + i * 16 + (lane & 15), kk * 2 + (lane >> 4)));
#pragma unroll
            for (int j = 0; j < 2; ++j) pt::ldsm4(fb[j], bt + spot(wn + j * 16 + (lane & 7) + (lane >> 4) * 8, kk * 2 + (lane >> 3 & 1)));
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) pt::mma16816(acc[i][j], fa[i], fb[j >> 1][(j & 1) * 2], fb[j >> 1][(j & 1) * 2 + 1]);
        }
    }
    bf16* to = c + (size_t)(blockIdx.y * BM + wm + (lane >> 2)) * n + blockIdx.x * BN + wn + (lane & 3) * 2;
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            *reinterpret_cast<__nv_bfloat162*>(to + (size_t)(i * 16) * n + j * 8) = __floats2bfloat162_rn(acc[i][j][0], acc[i][j][1]);
            *reinterpret_cast<__nv_bfloat162*>(to + (size_t)(i * 16 + 8) * n + j * 8) = __floats2bfloat162_rn(acc[i][j][2], acc[i][j][3]);
        }
}

// SPDX-License-Identifier: Apache-2.0
