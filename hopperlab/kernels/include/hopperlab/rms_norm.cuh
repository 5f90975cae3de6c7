// RMS norm of one row by 128 threads: out[i] = x[i] * gain[i] / sqrt(mean(x^2) + epsilon), bf16 in and out, sums in fp32.
#pragma once
#include <cuda_bf16.h>
#include <hopperlab/fence.cuh>

// Eight bf16 as fp32. `bits`: 16 bytes of a row.
__device__ __forceinline__ void unpack_bf16x8(float (&values)[8], uint4 bits) {
    const __nv_bfloat162* pairs = reinterpret_cast<const __nv_bfloat162*>(&bits);
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 pair = __bfloat1622float2(pairs[i]);
        values[2 * i] = pair.x, values[2 * i + 1] = pair.y;
    }
}

// The 16 bytes that thread t keeps of a row of n elements (a multiple of 8, at most COUNT * 1024): vectors t, t + 128, ...
template <int COUNT>
__device__ __forceinline__ void load_row(uint4 (&kept)[COUNT], const __nv_bfloat16* row, int n) {
    #pragma unroll
    for (int v = 0; v < COUNT; v++) {
        int vector = threadIdx.x + 128 * v;
        kept[v] = vector < n / 8 ? reinterpret_cast<const uint4*>(row)[vector] : make_uint4(0, 0, 0, 0);
    }
}

// The row `x` and the gains in registers, as load_row left them, to `out`. `partial`: 4 floats of shared memory, one a warp.
// 128 threads call it, numbers 0 to 127; they meet at named barrier `barrier`, twice.
template <int COUNT>
__device__ __forceinline__ void rms_norm_row(__nv_bfloat16* out, const uint4 (&x)[COUNT], const uint4 (&gain)[COUNT], int n,
                                             float epsilon, float* partial, int barrier) {
    float sum = 0, values[8], gains[8];
    #pragma unroll
    for (int v = 0; v < COUNT; v++) {
        unpack_bf16x8(values, x[v]);
        for (int i = 0; i < 8; i++) sum += values[i] * values[i];
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    bar_sync(barrier, 128);
    float scale = 1.0f / sqrtf((partial[0] + partial[1] + partial[2] + partial[3]) / n + epsilon);
    #pragma unroll
    for (int v = 0; v < COUNT; v++) {
        unpack_bf16x8(values, x[v]);
        unpack_bf16x8(gains, gain[v]);
        __nv_bfloat162 pairs[4];
        for (int i = 0; i < 4; i++)
            pairs[i] = __floats2bfloat162_rn(values[2 * i] * scale * gains[2 * i], values[2 * i + 1] * scale * gains[2 * i + 1]);
        int vector = threadIdx.x + 128 * v;
        if (vector < n / 8) reinterpret_cast<uint4*>(out)[vector] = *reinterpret_cast<uint4*>(pairs);
    }
    bar_sync(barrier, 128);   // `partial` may be written again
}
// SPDX-License-Identifier: Apache-2.0
