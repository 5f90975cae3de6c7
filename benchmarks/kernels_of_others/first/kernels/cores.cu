// Arithmetic on the CUDA cores.
#ifndef BM
#define BM 128
#define BN 128
#define TM 8
#define TN 8
#endif
#define BK 16
#define NT ((BM / TM) * (BN / TN))

// c[m,n] = a[m,k] b[k,n], row major, register tiles of TM x TN
extern "C" __global__ void __launch_bounds__(NT) sgemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k)
{
    __shared__ float as[BK][BM + 4];
    __shared__ float bs[BK][BN];
    const int tid = threadIdx.x, tx = tid % (BN / TN), ty = tid / (BN / TN);
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < k; k0 += BK) {
#pragma unroll
        for (int i = tid; i < BM * BK / 4; i += NT) {
            const int r = i / (BK / 4), q = i % (BK / 4) * 4;
            const float4 v = *reinterpret_cast<const float4*>(a + (size_t)(row0 + r) * k + k0 + q);
            as[q][r] = v.x; as[q + 1][r] = v.y; as[q + 2][r] = v.z; as[q + 3][r] = v.w;
        }
#pragma unroll
        for (int i = tid; i < BK * BN / 4; i += NT) {
            const int r = i / (BN / 4), q = i % (BN / 4) * 4;
            *reinterpret_cast<float4*>(&bs[r][q]) = *reinterpret_cast<const float4*>(b + (size_t)(k0 + r) * n + col0 + q);
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < BK; ++kk) {
            float x[TM], y[TN];
#pragma unroll
            for (int i = 0; i < TM; i += 4) *reinterpret_cast<float4*>(x + i) = *reinterpret_cast<const float4*>(&as[kk][ty * 4 + i * (BM / TM)]);
#pragma unroll
            for (int j = 0; j < TN; j += 4) *reinterpret_cast<float4*>(y + j) = *reinterpret_cast<const float4*>(&bs[kk][tx * 4 + j * (BN / TN)]);
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) acc[i][j] = fmaf(x[i], y[j], acc[i][j]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; j += 4)
            *reinterpret_cast<float4*>(c + (size_t)(row0 + ty * 4 + i / 4 * 4 * (BM / TM) + i % 4) * n + col0 + tx * 4 + j * (BN / TN))
                = make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]);
}

// int8 product by dp4a: c[m,n] = sum a[m,k] b[n,k]; tiles 64 x 64, 32 bytes of k, 4 x 4 a thread
extern "C" __global__ void __launch_bounds__(256) dp4a_gemm(const int* __restrict__ a, const int* __restrict__ b, int* __restrict__ c, int n, int words)
{
    __shared__ int as[8][65], bs[8][65];
    const int tid = threadIdx.x, tx = tid % 16, ty = tid / 16;
    int acc[4][4] = {};
    for (int k0 = 0; k0 < words; k0 += 8) {
#pragma unroll
        for (int i = tid; i < 512; i += 256) {
            as[i % 8][i / 8] = a[(size_t)(blockIdx.y * 64 + i / 8) * words + k0 + i % 8];
            bs[i % 8][i / 8] = b[(size_t)(blockIdx.x * 64 + i / 8) * words + k0 + i % 8];
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < 8; ++kk) {
            int x[4], y[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) { x[i] = as[kk][ty + 16 * i]; y[i] = bs[kk][tx + 16 * i]; }
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) acc[i][j] = __dp4a(x[i], y[j], acc[i][j]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) c[(size_t)(blockIdx.y * 64 + ty + 16 * i) * n + blockIdx.x * 64 + tx + 16 * j] = acc[i][j];
}

// gravity on n bodies, tiles of 256 in shared memory; INNER is how far the loop is unrolled
#ifndef INNER
#define INNER 8
#endif
#define PRAGMA(x) _Pragma(#x)
#define UNROLLED(n) PRAGMA(unroll n)
extern "C" __global__ void __launch_bounds__(256) nbody(const float4* __restrict__ body, float4* __restrict__ force, int n)
{
    __shared__ float4 t[256];
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float4 me = body[i];
    float fx = 0.f, fy = 0.f, fz = 0.f;
    for (int j0 = 0; j0 < n; j0 += 256) {
        t[threadIdx.x] = body[j0 + threadIdx.x];
        __syncthreads();
        UNROLLED(INNER)
        for (int j = 0; j < 256; ++j) {
            const float4 o = t[j];
            const float dx = o.x - me.x, dy = o.y - me.y, dz = o.z - me.z;
            const float d = fmaf(dx, dx, fmaf(dy, dy, fmaf(dz, dz, 1e-2f)));
            const float r = rsqrtf(d), w = o.w * r * r * r;
            fx = fmaf(w, dx, fx); fy = fmaf(w, dy, fy); fz = fmaf(w, dz, fz);
        }
        __syncthreads();
    }
    force[i] = make_float4(fx, fy, fz, 0.f);
}

// SPDX-License-Identifier: Apache-2.0
