// Arithmetic.
#include <cuda_bf16.h>
#ifndef U
#define U 1
#endif
extern "C" __global__ void __launch_bounds__(64) mat4(const float4* __restrict__ a, const float4* __restrict__ b, float4* __restrict__ c)
{
    const size_t i = (size_t)(blockIdx.x * 64 + threadIdx.x) * 4;
    float4 q[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) q[k] = b[i + k];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        const float4 p = a[i + r];
        float4 s;
        s.x = p.x * q[0].x + p.y * q[1].x + p.z * q[2].x + p.w * q[3].x;
        s.y = p.x * q[0].y + p.y * q[1].y + p.z * q[2].y + p.w * q[3].y;
        s.z = p.x * q[0].z + p.y * q[1].z + p.z * q[2].z + p.w * q[3].z;
        s.w = p.x * q[0].w + p.y * q[1].w + p.z * q[2].w + p.w * q[3].w;
        c[i + r] = s;
    }
}

// many steps on a 64 x 64 tile whose rim stays
extern "C" __global__ void __launch_bounds__(512) jacobi_tile(const float* __restrict__ in, float* __restrict__ out, int w, int steps)
{
    __shared__ float t[2][66][66];
    const int x = threadIdx.x, y = threadIdx.y, pitch = w + 2;     // 64 x 8 threads
    const float* corner = in + (size_t)blockIdx.y * 64 * pitch + blockIdx.x * 64;
    for (int i = y * 64 + x; i < 66 * 66; i += 512) t[0][i / 66][i % 66] = t[1][i / 66][i % 66] = corner[(size_t)(i / 66) * pitch + i % 66];
    __syncthreads();
    for (int s = 0; s < steps; ++s) {
        const float (*from)[66] = t[s & 1];
        float (*to)[66] = t[~s & 1];
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int r = y + 8 * j + 1, c = x + 1;
            to[r][c] = 0.25f * (from[r - 1][c] + from[r + 1][c] + from[r][c - 1] + from[r][c + 1]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) out[(size_t)(blockIdx.y * 64 + y + 8 * j) * w + blockIdx.x * 64 + x] = t[steps & 1][y + 8 * j + 1][x + 1];
}

extern "C" __global__ void __launch_bounds__(256) monte_carlo(unsigned* __restrict__ hits, unsigned* __restrict__ total, int draws)
{
    const unsigned id = blockIdx.x * 256 + threadIdx.x;
    unsigned s = (id + 1) * 2654435761u | 1u, n = 0;
    auto next = [&] { s ^= s << 13; s ^= s >> 17; s ^= s << 5; return (float)(s >> 21); };
    for (int i = 0; i < draws; ++i) {
        const float x = next(), y = next();
        n += x * x + y * y < 4194304.f;
    }
    hits[id] = n;
    n = __reduce_add_sync(~0u, n);
    if (threadIdx.x % 32 == 0) atomicAdd(total, n);
}

extern "C" __global__ void __launch_bounds__(128) mandelbrot(unsigned short* __restrict__ count, int w, float x0, float y0, float step, int limit)
{
    const int px = blockIdx.x * 32 + threadIdx.x, py = blockIdx.y * 4 + threadIdx.y;
    const float cx = x0 + px * step, cy = y0 + py * step;
    float x = 0.f, y = 0.f;
    int i = 0;
    while (i < limit && x * x + y * y < 4.f) {
        const float t = x * x - y * y + cx;
        y = 2.f * x * y + cy;
        x = t;
        ++i;
    }
    count[(size_t)py * w + px] = (unsigned short)i;
}

// degree 191, four values a thread, coefficients in shared memory
extern "C" __global__ void __launch_bounds__(128) horner(const float4* __restrict__ x, const float* __restrict__ coefficient, float4* __restrict__ y)
{
    __shared__ __align__(16) float c[192];
    for (int i = threadIdx.x; i < 192; i += 128) c[i] = coefficient[i];
    __syncthreads();
    const int i = blockIdx.x * 128 + threadIdx.x;
    const float4 v = x[i];
    float4 s = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll U
    for (int k = 0; k < 192; ++k) {
        s.x = fmaf(s.x, v.x, c[k]);
        s.y = fmaf(s.y, v.y, c[k]);
        s.z = fmaf(s.z, v.z, c[k]);
        s.w = fmaf(s.w, v.w, c[k]);
    }
    y[i] = s;
}

extern "C" __global__ void __launch_bounds__(256) fourier(const float* __restrict__ x, const float2* __restrict__ term, float* __restrict__ y, int terms)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float v = x[i];
    float s = 0.f;
    for (int k = 0; k < terms; ++k) {
        float a, b;
        sincosf((k + 1) * v, &a, &b);
        s += term[k].x * a + term[k].y * b;
    }
    y[i] = s;
}

// as many steps as the datum says
extern "C" __global__ void __launch_bounds__(128) uneven_steps(const int* __restrict__ steps, const float* __restrict__ x, float* __restrict__ y)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    const float c = x[i];
    float v = c;
    for (int k = steps[i]; k > 0; --k) v = fmaf(v, -0.75f, c);
    y[i] = v;
}

// scores of one query a head: a warp takes four keys of 128 bf16 at a time
extern "C" __global__ void __launch_bounds__(256) decode_scores(const float4* __restrict__ q, const uint2* __restrict__ keys, float* __restrict__ score, int length, int chunk, float scale)
{
    const int head = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float4 v = q[head * 32 + lane];
    const int begin = blockIdx.y * chunk, end = begin + chunk;
    for (int t = begin + warp * 4; t < end; t += 32) {
        uint2 k[4];
        float s[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) k[j] = keys[((size_t)head * length + t + j) * 32 + lane];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float2 a = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&k[j].x)), b = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&k[j].y));
            s[j] = v.x * a.x + v.y * a.y + v.z * b.x + v.w * b.y;
#pragma unroll
            for (int o = 16; o; o /= 2) s[j] += __shfl_xor_sync(~0u, s[j], o);
        }
        if (lane < 4) score[(size_t)head * length + t + lane] = scale * (lane == 0 ? s[0] : lane == 1 ? s[1] : lane == 2 ? s[2] : s[3]);
    }
}

// y += a x: blockIdx.y takes 512 of k, a warp eight rows
extern "C" __global__ void __launch_bounds__(256) matvec_split(const float4* __restrict__ a, const float4* __restrict__ x, float* __restrict__ y, int k4)
{
    const int lane = threadIdx.x % 32, row0 = blockIdx.x * 64 + threadIdx.x / 32 * 8;
    float4 v[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) v[j] = x[blockIdx.y * 128 + j * 32 + lane];
    for (int r = row0; r < row0 + 8; ++r) {
        float s = 0.f;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float4 p = a[(size_t)r * k4 + blockIdx.y * 128 + j * 32 + lane];
            s += p.x * v[j].x + p.y * v[j].y + p.z * v[j].z + p.w * v[j].w;
        }
#pragma unroll
        for (int o = 16; o; o /= 2) s += __shfl_xor_sync(~0u, s, o);
        if (lane == 0) atomicAdd(y + r, s);
    }
}

// SPDX-License-Identifier: Apache-2.0
