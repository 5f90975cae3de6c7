// Elementwise fusions, normalisation, rotary embedding, a cache, options.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#ifndef VEC
#define VEC 1
#endif
struct alignas(4 * VEC) Pack { float v[VEC]; };
__device__ __forceinline__ unsigned mix(unsigned h)
{
    h ^= h >> 16; h *= 0x7feb352du; h ^= h >> 15; h *= 0x846ca68bu;
    return h ^ h >> 16;
}
// width counts Packs
extern "C" __global__ void __launch_bounds__(256) bias_dropout(const Pack* __restrict__ x, const Pack* __restrict__ bias, const Pack* __restrict__ residual, Pack* __restrict__ y,
                                                               int n, int width, unsigned seed, unsigned keep, float scale)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    const Pack a = x[i], b = bias[i % width], r = residual[i];
    Pack out;
#pragma unroll
    for (int k = 0; k < VEC; ++k) out.v[k] = (mix((unsigned)(i * VEC + k) ^ seed) < keep ? (a.v[k] + b.v[k]) * scale : 0.f) + r.v[k];
    y[i] = out;
}

// rows of 4096 halves, two pieces of eight a thread, kept in registers
extern "C" __global__ void __launch_bounds__(256) rmsnorm_half8(const uint4* __restrict__ x, const uint4* __restrict__ gain, uint4* __restrict__ y)
{
    __shared__ float part[8];
    const size_t row = (size_t)blockIdx.x * 512;
    uint4 v[2] = {x[row + threadIdx.x], x[row + 256 + threadIdx.x]};
    float s = 0.f;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        const __half2* h = reinterpret_cast<const __half2*>(&v[j]);
#pragma unroll
        for (int k = 0; k < 4; ++k) { const float2 f = __half22float2(h[k]); s += f.x * f.x + f.y * f.y; }
    }
#pragma unroll
    for (int o = 16; o; o /= 2) s += __shfl_xor_sync(~0u, s, o);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
    __syncthreads();
    s = 0.f;
#pragma unroll
    for (int w = 0; w < 8; ++w) s += part[w];
    const float r = rsqrtf(s / 4096.f + 1e-6f);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        const uint4 g = gain[j * 256 + threadIdx.x];
        __half2* h = reinterpret_cast<__half2*>(&v[j]);
        const __half2* gh = reinterpret_cast<const __half2*>(&g);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const float2 f = __half22float2(h[k]), w = __half22float2(gh[k]);
            h[k] = __floats2half2_rn(f.x * r * w.x, f.y * r * w.y);
        }
        y[row + j * 256 + threadIdx.x] = v[j];
    }
}

// interleaved pairs; a block a token, 64 pairs a head, table[position][64] of (cos, sin)
extern "C" __global__ void __launch_bounds__(256) rope_pairs(const __nv_bfloat162* __restrict__ q, const float2* __restrict__ table, const int* __restrict__ position,
                                                             __nv_bfloat162* __restrict__ out, int heads)
{
    const int token = blockIdx.x, d = threadIdx.x % 64;
    const float2 t = table[position[token] * 64 + d];
    for (int h = threadIdx.x / 64; h < heads; h += 4) {
        const size_t i = ((size_t)token * heads + h) * 64 + d;
        const float2 v = __bfloat1622float2(q[i]);
        out[i] = __floats2bfloat162_rn(v.x * t.x - v.y * t.y, v.x * t.y + v.y * t.x);
    }
}

extern "C" __global__ void __launch_bounds__(512) adam(float* __restrict__ p, float* __restrict__ m, float* __restrict__ v, const float* __restrict__ g, int n,
                                                       float rate, float b1, float b2, float c1, float c2, float eps, float decay)
{
    for (int i = blockIdx.x * 512 + threadIdx.x; i < n; i += gridDim.x * 512) {
        const float gi = g[i];
        const float mi = b1 * m[i] + (1.f - b1) * gi;
        const float vi = b2 * v[i] + (1.f - b2) * gi * gi;
        m[i] = mi;
        v[i] = vi;
        const float w = p[i];
        p[i] = w - rate * (mi / c1 / (sqrtf(vi / c2) + eps) + decay * w);
    }
}

// new keys and values of 8 x 128 bf16 a token to slots of a cache
extern "C" __global__ void __launch_bounds__(128) kv_append(const uint4* __restrict__ k, const uint4* __restrict__ v, const int* __restrict__ slot, uint4* __restrict__ kc, uint4* __restrict__ vc)
{
    const int s = slot[blockIdx.x];
    if (s < 0) return;
    kc[(size_t)s * 128 + threadIdx.x] = k[(size_t)blockIdx.x * 128 + threadIdx.x];
    vc[(size_t)s * 128 + threadIdx.x] = v[(size_t)blockIdx.x * 128 + threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(128) black_scholes(const float* __restrict__ spot, const float* __restrict__ strike, const float* __restrict__ years,
                                                                float* __restrict__ call, float* __restrict__ put, float rate, float sigma, int n)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= n) return;
    const float s = spot[i], k = strike[i], t = years[i], root = sigma * sqrtf(t);
    const float d1 = (logf(s / k) + (rate + 0.5f * sigma * sigma) * t) / root, d2 = d1 - root;
    const float n1 = 0.5f * erfcf(-0.70710678f * d1), n2 = 0.5f * erfcf(-0.70710678f * d2), x = k * expf(-rate * t);
    call[i] = s * n1 - x * n2;
    put[i] = x * (1.f - n2) - s * (1.f - n1);
}

// SPDX-License-Identifier: Apache-2.0
