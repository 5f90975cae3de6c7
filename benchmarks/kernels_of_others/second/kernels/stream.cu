// Copies, axpys and changes of layout.
#include <cuda_fp16.h>
#ifndef U
#define U 1
#endif
extern "C" __global__ void __launch_bounds__(512) gs_copy(const float4* __restrict__ a, float4* __restrict__ b, int n4)
{
    for (int i = blockIdx.x * 512 + threadIdx.x; i < n4; i += gridDim.x * 512) b[i] = a[i];
}

// eight floats a thread, U loads of x and of y in flight
extern "C" __global__ void __launch_bounds__(256) saxpy_eight(const float* x, float* y, float a)
{
    const int base = blockIdx.x * 2048 + threadIdx.x;
#pragma unroll 1
    for (int k = 0; k < 8; k += U) {
        float p[U], q[U];
#pragma unroll
        for (int j = 0; j < U; ++j) { p[j] = x[base + (k + j) * 256]; q[j] = y[base + (k + j) * 256]; }
#pragma unroll
        for (int j = 0; j < U; ++j) y[base + (k + j) * 256] = fmaf(a, p[j], q[j]);
    }
}

extern "C" __global__ void __launch_bounds__(256) from_columns(const float* __restrict__ columns, float* __restrict__ rows, int nrows, int ncols)
{
    const int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
    rows[(size_t)r * ncols + c] = columns[(size_t)c * nrows + r];
}

struct Particle { float v[7]; };
extern "C" __global__ void __launch_bounds__(128) aos_to_soa(const Particle* __restrict__ in, float* __restrict__ planes, int n)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= n) return;
#pragma unroll
    for (int k = 0; k < 7; ++k) planes[(size_t)k * n + i] = in[i].v[k];
}

extern "C" __global__ void __launch_bounds__(256) rgb_to_grey(const uchar3* __restrict__ rgb, unsigned char* __restrict__ grey, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        const uchar3 p = rgb[i];
        grey[i] = (unsigned char)((77u * p.x + 150u * p.y + 29u * p.z + 128u) >> 8);
    }
}

extern "C" __global__ void __launch_bounds__(1024) daxpy(const double2* __restrict__ x, double2* __restrict__ y, double a)
{
    const int i = blockIdx.x * 1024 + threadIdx.x;
    const double2 p = x[i];
    double2 q = y[i];
    q.x = fma(a, p.x, q.x);
    q.y = fma(a, p.y, q.y);
    y[i] = q;
}

#ifndef VEC
#define VEC 1
#endif
struct alignas(4 * VEC) Pack { __half2 h[VEC]; };
extern "C" __global__ void __launch_bounds__(256) haxpy(const Pack* __restrict__ x, Pack* __restrict__ y, float a)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    const __half2 aa = __float2half2_rn(a);
    const Pack p = x[i];
    Pack q = y[i];
#pragma unroll
    for (int k = 0; k < VEC; ++k) q.h[k] = __hfma2(aa, p.h[k], q.h[k]);
    y[i] = q;
}

// two planes in, eight planes out; without promises every store makes the compiler load again
#ifdef ALIAS
extern "C" __global__ void __launch_bounds__(128) fan_out(float* x, float* w, float* y, int n)
#else
extern "C" __global__ void __launch_bounds__(128) fan_out(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int n)
#endif
{
    const int i = blockIdx.x * 128 + threadIdx.x;
#pragma unroll
    for (int r = 0; r < 8; ++r) y[r * n + i] = w[r] * x[i] + w[8 + r] * x[n + i];
}

// SPDX-License-Identifier: Apache-2.0
