// A persistent pipeline of bulk copies: strips of 8 KiB come in on mbarriers, are changed in place, and go out in bulk groups.
#include "bits.cuh"
#ifndef STAGES
#define STAGES 4
#endif
constexpr int STRIP = 2048;                                       // floats
extern "C" __global__ void __launch_bounds__(256) bulk_affine(const float* __restrict__ x, float* __restrict__ y, float a, float b, int strips)
{
    extern __shared__ __align__(128) float buffer[];
    __shared__ __align__(8) unsigned long long full[STAGES];
    const int mine = (strips - blockIdx.x + gridDim.x - 1) / gridDim.x;
    auto load = [&](int i) {
        const unsigned bar = pt::sm(&full[i % STAGES]);
        pt::bar_expect(bar, STRIP * 4);
        pt::bulk_in(pt::sm(buffer + i % STAGES * STRIP), x + (size_t)(blockIdx.x + i * gridDim.x) * STRIP, STRIP * 4, bar);
    };
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) pt::bar_init(pt::sm(&full[s]), 1);
        pt::bar_fence();
        for (int i = 0; i < STAGES - 1 && i < mine; ++i) load(i);
    }
    __syncthreads();
    for (int i = 0; i < mine; ++i) {
        pt::bar_wait(pt::sm(&full[i % STAGES]), i / STAGES & 1);
        float4* t = reinterpret_cast<float4*>(buffer + i % STAGES * STRIP);
#pragma unroll
        for (int j = 0; j < STRIP / 4; j += 256) {
            float4 v = t[j + threadIdx.x];
            v.x = fmaf(a, v.x, b); v.y = fmaf(a, v.y, b); v.z = fmaf(a, v.z, b); v.w = fmaf(a, v.w, b);
            t[j + threadIdx.x] = v;
        }
        pt::async_fence();
        __syncthreads();
        if (threadIdx.x == 0) {
            pt::bulk_out(y + (size_t)(blockIdx.x + i * gridDim.x) * STRIP, pt::sm(t), STRIP * 4);
            pt::bulk_commit();
            if (i + STAGES - 1 < mine) {                           // into the buffer that strip i - 1 leaves
                pt::bulk_wait_read<1>();
                load(i + STAGES - 1);
            }
        }
    }
    if (threadIdx.x == 0) pt::bulk_wait<0>();
}

// One strip a block, no ring: row sums of squares of 4096 floats that one bulk copy brings
extern "C" __global__ void __launch_bounds__(128) bulk_row_norm(const float* __restrict__ x, float* __restrict__ norm)
{
    __shared__ __align__(128) float row[4096];
    __shared__ __align__(8) unsigned long long bar;
    __shared__ float part[4];
    if (threadIdx.x == 0) {
        pt::bar_init(pt::sm(&bar), 1);
        pt::bar_fence();
        pt::bar_expect(pt::sm(&bar), sizeof row);
        pt::bulk_in(pt::sm(row), x + (size_t)blockIdx.x * 4096, sizeof row, pt::sm(&bar));
    }
    __syncthreads();
    pt::bar_wait(pt::sm(&bar), 0);
    float s = 0.f;
#pragma unroll
    for (int j = 0; j < 8; ++j) { const float4 v = reinterpret_cast<float4*>(row)[j * 128 + threadIdx.x]; s += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w; }
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) norm[blockIdx.x] = sqrtf(part[0] + part[1] + part[2] + part[3]);
}

// SPDX-License-Identifier: Apache-2.0
