// Row-wise kernels.
#include <cuda_bf16.h>
#ifndef THREADS
#define THREADS 256
#endif
__device__ __forceinline__ float warp_sum(float v) { for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o); return v; }
__device__ __forceinline__ float warp_max(float v) { for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o)); return v; }

// block a row of 4096 floats, kept in registers
extern "C" __global__ void __launch_bounds__(256) softmax_block(const float4* __restrict__ x, float4* __restrict__ y)
{
    __shared__ float part[2][8];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const float4* row = x + (size_t)blockIdx.x * 1024;
    float4 v[4];
    float top = -1e30f, sum = 0.f;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        v[k] = row[k * 256 + threadIdx.x];
        top = fmaxf(top, fmaxf(fmaxf(v[k].x, v[k].y), fmaxf(v[k].z, v[k].w)));
    }
    top = warp_max(top);
    if (lane == 0) part[0][warp] = top;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < 8; ++w) top = fmaxf(top, part[0][w]);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        v[k].x = __expf(v[k].x - top); v[k].y = __expf(v[k].y - top); v[k].z = __expf(v[k].z - top); v[k].w = __expf(v[k].w - top);
        sum += v[k].x + v[k].y + v[k].z + v[k].w;
    }
    sum = warp_sum(sum);
    if (lane == 0) part[1][warp] = sum;
    __syncthreads();
    sum = 0.f;
#pragma unroll
    for (int w = 0; w < 8; ++w) sum += part[1][w];
    const float inv = 1.f / sum;
    float4* to = y + (size_t)blockIdx.x * 1024;
#pragma unroll
    for (int k = 0; k < 4; ++k) to[k * 256 + threadIdx.x] = make_float4(v[k].x * inv, v[k].y * inv, v[k].z * inv, v[k].w * inv);
}

// warp a row of 512, online over strips of 32: three scalar passes over the row
extern "C" __global__ void __launch_bounds__(128) softmax_warp(const float* __restrict__ x, float* __restrict__ y, int rows, int width)
{
    const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x & 31;
    if (row >= rows) return;
    const float* p = x + (size_t)row * width;
    float m = -1e30f, s = 0.f;
    for (int i = lane; i < width; i += 32) {
        const float v = p[i], n = fmaxf(m, v);
        s = s * __expf(m - n) + __expf(v - n);
        m = n;
    }
    const float top = warp_max(m);
    s = warp_sum(s * __expf(m - top));
    const float inv = __fdividef(1.f, s);
    for (int i = lane; i < width; i += 32) y[(size_t)row * width + i] = __expf(p[i] - top) * inv;
}

// bf16 layer norm, warp a row of 1024, two passes over registers
extern "C" __global__ void __launch_bounds__(256)
layernorm_warp(const uint4* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ bias, uint4* __restrict__ y, int rows)
{
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x & 31;
    if (row >= rows) return;
    float f[32];
    float sum = 0.f, var = 0.f;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const uint4 q = x[(size_t)row * 128 + k * 32 + lane];
        const __nv_bfloat162* h = reinterpret_cast<const __nv_bfloat162*>(&q);
#pragma unroll
        for (int j = 0; j < 4; ++j) { const float2 t = __bfloat1622float2(h[j]); f[8 * k + 2 * j] = t.x; f[8 * k + 2 * j + 1] = t.y; }
    }
#pragma unroll
    for (int k = 0; k < 32; ++k) sum += f[k];
    const float mean = warp_sum(sum) * (1.f / 1024.f);
#pragma unroll
    for (int k = 0; k < 32; ++k) { f[k] -= mean; var += f[k] * f[k]; }
    const float inv = rsqrtf(warp_sum(var) * (1.f / 1024.f) + 1e-5f);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int at = (k * 32 + lane) * 8;
        uint4 q;
        __nv_bfloat162* h = reinterpret_cast<__nv_bfloat162*>(&q);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float2 g = *reinterpret_cast<const float2*>(gain + at + 2 * j), b = *reinterpret_cast<const float2*>(bias + at + 2 * j);
            h[j] = __floats2bfloat162_rn(f[8 * k + 2 * j] * inv * g.x + b.x, f[8 * k + 2 * j + 1] * inv * g.y + b.y);
        }
        y[(size_t)row * 128 + k * 32 + lane] = q;
    }
}

// RMS norm, block a row; the row is read twice
extern "C" __global__ void __launch_bounds__(THREADS)
rmsnorm_block(const float4* __restrict__ x, const float4* __restrict__ gain, float4* __restrict__ y, int width4)
{
    __shared__ float part[THREADS / 32];
    const float4* row = x + (size_t)blockIdx.x * width4;
    float sum = 0.f;
    for (int i = threadIdx.x; i < width4; i += THREADS) { const float4 v = row[i]; sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w; }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = threadIdx.x % 32 < THREADS / 32 ? part[threadIdx.x % 32] : 0.f;
    const float r = rsqrtf(warp_sum(sum) / (4 * width4) + 1e-6f);
    for (int i = threadIdx.x; i < width4; i += THREADS) {
        const float4 v = row[i], g = gain[i];
        y[(size_t)blockIdx.x * width4 + i] = make_float4(v.x * r * g.x, v.y * r * g.y, v.z * r * g.z, v.w * r * g.w);
    }
}

// SPDX-License-Identifier: Apache-2.0
