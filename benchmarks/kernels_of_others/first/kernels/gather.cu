// Indexed reads.
extern "C" __global__ void __launch_bounds__(256) gather_words(const float* __restrict__ table, const int* __restrict__ index, float* __restrict__ out, int n)
{
    extern __shared__ float unused[];               // its size limits the blocks of an SM
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) out[i] = table[index[i]];
}

// embedding rows of 256 floats, a warp a row
extern "C" __global__ void __launch_bounds__(128) gather_rows(const float4* __restrict__ table, const int* __restrict__ index, float4* __restrict__ out, int n)
{
    const int i = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (i >= n) return;
    const float4* from = table + (size_t)index[i] * 64;
    const float4 a = from[lane], b = from[lane + 32];
    out[(size_t)i * 64 + lane] = a;
    out[(size_t)i * 64 + lane + 32] = b;
}

// batched y = A x with bf16 A of 1024 columns: a warp four rows
#include <cuda_bf16.h>
extern "C" __global__ void __launch_bounds__(256) batched_matvec(const uint4* __restrict__ a, const float* __restrict__ x, float* __restrict__ y, int rows)
{
    __shared__ float v[1024];
    const int batch = blockIdx.y, lane = threadIdx.x % 32, first = (blockIdx.x * 8 + threadIdx.x / 32) * 4;
    reinterpret_cast<float4*>(v)[threadIdx.x] = reinterpret_cast<const float4*>(x + batch * 1024)[threadIdx.x];
    __syncthreads();
    float acc[4] = {};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        float w[8];
#pragma unroll
        for (int j = 0; j < 8; ++j) w[j] = v[(k * 32 + lane) * 8 + j];
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const uint4 q = a[((size_t)batch * rows + first + r) * 128 + k * 32 + lane];
            const __nv_bfloat162* h = reinterpret_cast<const __nv_bfloat162*>(&q);
#pragma unroll
            for (int j = 0; j < 4; ++j) { const float2 f = __bfloat1622float2(h[j]); acc[r] += f.x * w[2 * j] + f.y * w[2 * j + 1]; }
        }
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        for (int o = 16; o; o >>= 1) acc[r] += __shfl_xor_sync(~0u, acc[r], o);
        if (lane == r) y[batch * rows + first + r] = acc[r];
    }
}

// SPDX-License-Identifier: Apache-2.0
