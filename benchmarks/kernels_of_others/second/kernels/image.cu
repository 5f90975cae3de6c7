// Pictures: everything through L1, no shared memory.
#include "weights.cuh"
extern "C" __global__ void __launch_bounds__(256) box7(const float* __restrict__ in, float* __restrict__ out, int w, int h)
{
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x >= w || y >= h) return;
    float s = 0.f;
#pragma unroll
    for (int dy = -3; dy <= 3; ++dy) {
        const float* line = in + (size_t)min(max(y + dy, 0), h - 1) * w;
#pragma unroll
        for (int dx = -3; dx <= 3; ++dx) s += line[min(max(x + dx, 0), w - 1)];
    }
    out[(size_t)y * w + x] = s * (1.f / 49.f);
}

// four planes in (with a border of one), four out
extern "C" __global__ void __launch_bounds__(256) conv3x3(const float* __restrict__ in, float* __restrict__ out, int w, int h)
{
    const int x = blockIdx.x * 64 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y, pitch = w + 2;
    float s[4] = {};
#pragma unroll
    for (int c = 0; c < 4; ++c)
#pragma unroll
        for (int t = 0; t < 9; ++t) {
            const float v = in[(size_t)(c * (h + 2) + y + t / 3) * pitch + x + t % 3];
#pragma unroll
            for (int o = 0; o < 4; ++o) s[o] = fmaf(WEIGHTS[o][c][t], v, s[o]);
        }
#pragma unroll
    for (int o = 0; o < 4; ++o) out[((size_t)o * h + y) * w + x] = s[o];
}

extern "C" __global__ void __launch_bounds__(256) resize(const uchar4* __restrict__ in, uchar4* __restrict__ out, int w, int h, int ow, int oh, float step)
{
    const int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x >= ow || y >= oh) return;
    const float fx = fmaxf((x + 0.5f) * step - 0.5f, 0.f), fy = fmaxf((y + 0.5f) * step - 0.5f, 0.f);
    const int x0 = min((int)fx, w - 1), y0 = min((int)fy, h - 1), x1 = min(x0 + 1, w - 1), y1 = min(y0 + 1, h - 1);
    const float u = fx - x0, v = fy - y0;
    const uchar4 a = in[y0 * w + x0], b = in[y0 * w + x1], c = in[y1 * w + x0], d = in[y1 * w + x1];
    auto mix = [&](float a, float b, float c, float d) {
        const float t = a + u * (b - a), m = c + u * (d - c);
        return (unsigned char)(t + v * (m - t) + 0.5f);
    };
    out[y * ow + x] = make_uchar4(mix(a.x, b.x, c.x, d.x), mix(a.y, b.y, c.y, d.y), mix(a.z, b.z, c.z, d.z), mix(a.w, b.w, c.w, d.w));
}

// a summed-area table of each 64 x 64 tile, by 64 threads: rows, then columns
#ifndef PAD
#define PAD 0
#endif
extern "C" __global__ void __launch_bounds__(64) tile_sat(const float* __restrict__ in, float* __restrict__ out, int w)
{
    __shared__ float t[64][64 + PAD];
    const size_t base = (size_t)blockIdx.y * 64 * w + blockIdx.x * 64 + threadIdx.x;
#pragma unroll 8
    for (int r = 0; r < 64; ++r) t[r][threadIdx.x] = in[base + (size_t)r * w];
    __syncthreads();
    float s = 0.f;
#pragma unroll 8
    for (int c = 0; c < 64; ++c) { s += t[threadIdx.x][c]; t[threadIdx.x][c] = s; }
    __syncthreads();
    s = 0.f;
#pragma unroll 8
    for (int r = 0; r < 64; ++r) { s += t[r][threadIdx.x]; out[base + (size_t)r * w] = s; }
}

// SPDX-License-Identifier: Apache-2.0
