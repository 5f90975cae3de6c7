// Streaming kernels: one output element from one or two inputs.
#include <cuda_fp16.h>
#ifndef VEC
#define VEC 4
#endif
#ifndef UNROLL
#define UNROLL 4
#endif

#if VEC == 4
using pack = float4;
#elif VEC == 2
using pack = float2;
#else
using pack = float;
#endif
union lanes { pack p; float f[VEC]; };

// z = a x + b y, one pack a thread
extern "C" __global__ void __launch_bounds__(256)
axpby(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ z, float a, float b, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i * VEC >= n) return;
    lanes u, v, w;
    u.p = reinterpret_cast<const pack*>(x)[i];
    v.p = reinterpret_cast<const pack*>(y)[i];
#pragma unroll
    for (int k = 0; k < VEC; ++k) w.f[k] = fmaf(a, u.f[k], b * v.f[k]);
    reinterpret_cast<pack*>(z)[i] = w.p;
}

// SwiGLU on half2, grid stride, UNROLL loads in flight
extern "C" __global__ void __launch_bounds__(256)
swiglu(const __half2* __restrict__ gate, const __half2* __restrict__ up, __half2* __restrict__ out, int pairs)
{
    const int step = gridDim.x * blockDim.x;
    for (int base = blockIdx.x * blockDim.x + threadIdx.x; base < pairs; base += step * UNROLL) {
        __half2 g[UNROLL], u[UNROLL];
#pragma unroll
        for (int k = 0; k < UNROLL; ++k)
            if (base + k * step < pairs) { g[k] = gate[base + k * step]; u[k] = up[base + k * step]; }
#pragma unroll
        for (int k = 0; k < UNROLL; ++k)
            if (base + k * step < pairs) {
                float2 a = __half22float2(g[k]), b = __half22float2(u[k]);
                a.x = a.x / (1.f + __expf(-a.x)) * b.x;
                a.y = a.y / (1.f + __expf(-a.y)) * b.y;
                out[base + k * step] = __floats2half2_rn(a.x, a.y);
            }
    }
}

// a byte a thread and step
extern "C" __global__ void __launch_bounds__(512)
copy_bytes(const unsigned char* __restrict__ from, unsigned char* __restrict__ to, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) to[i] = from[i];
}

// rotary embedding: rows of `dim` pairs
extern "C" __global__ void __launch_bounds__(256)
rope(const float2* __restrict__ x, float2* __restrict__ y, int heads, int dim, float theta)
{
    const int position = blockIdx.x;
    for (int i = threadIdx.x; i < heads * dim; i += blockDim.x) {
        const int d = i % dim;
        float s, c;
        __sincosf(position * exp2f(-theta * d), &s, &c);
        const float2 v = x[(size_t)position * heads * dim + i];
        y[(size_t)position * heads * dim + i] = make_float2(v.x * c - v.y * s, v.x * s + v.y * c);
    }
}

// GELU with erff
__device__ __forceinline__ float gelu(float v) { return 0.5f * v * (1.f + erff(v * 0.70710678f)); }
extern "C" __global__ void __launch_bounds__(256) gelu_erf(const float4* __restrict__ x, float4* __restrict__ y, int n4)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n4) {
        float4 v = x[i];
        v.x = gelu(v.x); v.y = gelu(v.y); v.z = gelu(v.z); v.w = gelu(v.w);
        y[i] = v;
    }
}

// a mixture of 32 Gaussians at each point: one exponential each
extern "C" __global__ void __launch_bounds__(256)
mixture(const float* __restrict__ x, const float2* __restrict__ centre, float* __restrict__ y, int n)
{
    __shared__ float2 c[32];
    if (threadIdx.x < 32) c[threadIdx.x] = centre[threadIdx.x];
    __syncthreads();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float v = x[i];
    float sum = 0.f;
#pragma unroll 8
    for (int k = 0; k < 32; ++k) {
        const float d = v - c[k].x;
        sum += c[k].y * __expf(-d * d);
    }
    y[i] = sum;
}

// Philox 4x32-10 counters xor'ed into a stream: integer multiplies
extern "C" __global__ void __launch_bounds__(256)
philox_xor(const uint4* __restrict__ in, uint4* __restrict__ out, unsigned seed, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint4 c = make_uint4(i, 0, 0, 0);
    uint2 k = make_uint2(seed, seed ^ 0xCAFEu);
#pragma unroll
    for (int r = 0; r < 10; ++r) {
        const unsigned h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x;
        const unsigned h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
        c = make_uint4(h1 ^ c.y ^ k.x, l1, h0 ^ c.w ^ k.y, l0);
        k.x += 0x9E3779B9u; k.y += 0xBB67AE85u;
    }
    const uint4 v = in[i];
    out[i] = make_uint4(v.x ^ c.x, v.y ^ c.y, v.z ^ c.z, v.w ^ c.w);
}

// SPDX-License-Identifier: Apache-2.0
