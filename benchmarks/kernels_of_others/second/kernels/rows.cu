// One result, or one normalisation, a row.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
template <class T, class Op> __device__ __forceinline__ T over_warp(T v, Op op)
{
#pragma unroll
    for (int o = 16; o; o /= 2) v = op(v, __shfl_xor_sync(~0u, v, o));
    return v;
}
struct Add { __device__ float operator()(float a, float b) const { return a + b; } };
struct Max { __device__ float operator()(float a, float b) const { return fmaxf(a, b); } };

extern "C" __global__ void __launch_bounds__(256) argmax_row(const float4* __restrict__ x, int* __restrict__ best, int width4)
{
    __shared__ unsigned long long part[8];
    const float4* row = x + (size_t)blockIdx.x * width4;
    float top = -INFINITY;
    int at = 0;
    for (int i = threadIdx.x; i < width4; i += 256) {
        const float4 v = row[i];
        if (v.x > top) { top = v.x; at = 4 * i; }
        if (v.y > top) { top = v.y; at = 4 * i + 1; }
        if (v.z > top) { top = v.z; at = 4 * i + 2; }
        if (v.w > top) { top = v.w; at = 4 * i + 3; }
    }
    unsigned key = __float_as_uint(top);
    key = key & 0x80000000u ? ~key : key | 0x80000000u;            // ordered as the floats are
    unsigned long long both = (unsigned long long)key << 32 | (unsigned)~at;
    auto larger = [](unsigned long long a, unsigned long long b) { return a > b ? a : b; };
    both = over_warp(both, larger);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = both;
    __syncthreads();
    if (threadIdx.x < 32) {
        both = over_warp(part[threadIdx.x % 8], larger);
        if (threadIdx.x == 0) best[blockIdx.x] = (int)~(unsigned)both;
    }
}

// online maximum and sum, one pass
extern "C" __global__ void __launch_bounds__(1024) cross_entropy(const float2* __restrict__ logits, const int* __restrict__ label, float* __restrict__ loss, int width2)
{
    __shared__ float2 part[32];
    const float2* row = logits + (size_t)blockIdx.x * width2;
    float m = -1e30f, s = 0.f;
    for (int i = threadIdx.x; i < width2; i += 1024) {
        const float2 v = row[i];
        const float n = fmaxf(m, fmaxf(v.x, v.y));
        s = s * __expf(m - n) + __expf(v.x - n) + __expf(v.y - n);
        m = n;
    }
    for (int turn = 0; turn < 2; ++turn) {
        const float n = over_warp(m, Max());
        s = over_warp(s * __expf(m - n), Add());
        m = n;
        if (turn) break;
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = make_float2(m, s);
        __syncthreads();
        if (threadIdx.x >= 32) return;
        m = part[threadIdx.x].x;
        s = part[threadIdx.x].y;
    }
    if (threadIdx.x == 0) loss[blockIdx.x] = logf(s) + m - reinterpret_cast<const float*>(row)[label[blockIdx.x]];
}

template <int WARPS> __device__ float2 over_block(float a, float b)
{
    __shared__ float2 part[WARPS];
    a = over_warp(a, Add());
    b = over_warp(b, Add());
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = make_float2(a, b);
    __syncthreads();
    a = b = 0.f;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) { a += part[w].x; b += part[w].y; }
    return make_float2(a, b);
}

// NCHW, a block a channel
extern "C" __global__ void __launch_bounds__(1024) batch_stats(const float4* __restrict__ x, float* __restrict__ mean, float* __restrict__ inv, int images, int hw4)
{
    float a = 0.f, b = 0.f;
    for (int n = 0; n < images; ++n) {
        const float4* plane = x + ((size_t)n * gridDim.x + blockIdx.x) * hw4;
        for (int i = threadIdx.x; i < hw4; i += 1024) {
            const float4 v = plane[i];
            a += v.x + v.y + v.z + v.w;
            b += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
        }
    }
    const float2 t = over_block<32>(a, b);
    if (threadIdx.x == 0) {
        const float count = 4.f * images * hw4, m = t.x / count;
        mean[blockIdx.x] = m;
        inv[blockIdx.x] = rsqrtf(t.y / count - m * m + 1e-5f);
    }
}

// a block an image and group; the second pass reads again
extern "C" __global__ void __launch_bounds__(256) group_norm(const float2* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta, float2* __restrict__ y,
                                                             int groups, int channels, int hw2)
{
    const size_t base = (size_t)blockIdx.x * channels * hw2;
    float a = 0.f, b = 0.f;
    for (int i = threadIdx.x; i < channels * hw2; i += 256) {
        const float2 v = x[base + i];
        a += v.x + v.y;
        b += v.x * v.x + v.y * v.y;
    }
    const float2 t = over_block<8>(a, b);
    const float count = 2.f * channels * hw2, m = t.x / count, r = rsqrtf(t.y / count - m * m + 1e-5f);
    for (int c = 0; c < channels; ++c) {
        const int channel = blockIdx.x % groups * channels + c;
        const float g = gamma[channel] * r, s = beta[channel] - m * g;
        for (int i = threadIdx.x; i < hw2; i += 256) {
            const float2 v = x[base + c * hw2 + i];
            y[base + c * hw2 + i] = make_float2(fmaf(v.x, g, s), fmaf(v.y, g, s));
        }
    }
}

// running sums of a row by one warp, 32 at a time
extern "C" __global__ void cumsum_warp(const float* __restrict__ x, float* __restrict__ y, int width)
{
    const int lane = threadIdx.x % 32;
    const size_t base = (size_t)(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * width;
    float carry = 0.f;
    for (int i = lane; i < width; i += 32) {
        float v = x[base + i];
#pragma unroll
        for (int o = 1; o < 32; o *= 2) {
            const float left = __shfl_up_sync(~0u, v, o);
            if (lane >= o) v += left;
        }
        v += carry;
        y[base + i] = v;
        carry = __shfl_sync(~0u, v, 31);
    }
}

extern "C" __global__ void __launch_bounds__(128) quantise_row(const uint2* __restrict__ x, char4* __restrict__ q, float* __restrict__ scale, int width4)
{
    __shared__ float part[4];
    const uint2* row = x + (size_t)blockIdx.x * width4;
    __half2 top = __float2half2_rn(0.f);
    for (int i = threadIdx.x; i < width4; i += 128) {
        const uint2 v = row[i];
        top = __hmax2(top, __hmax2(__habs2(*reinterpret_cast<const __half2*>(&v.x)), __habs2(*reinterpret_cast<const __half2*>(&v.y))));
    }
    float most = over_warp(fmaxf(__low2float(top), __high2float(top)), Max());
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = most;
    __syncthreads();
    most = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
    const float by = 127.f / fmaxf(most, 1e-8f);
    if (threadIdx.x == 0) scale[blockIdx.x] = most / 127.f;
    for (int i = threadIdx.x; i < width4; i += 128) {
        const uint2 v = row[i];
        const float2 a = __half22float2(*reinterpret_cast<const __half2*>(&v.x)), b = __half22float2(*reinterpret_cast<const __half2*>(&v.y));
        q[(size_t)blockIdx.x * width4 + i] = make_char4(__float2int_rn(a.x * by), __float2int_rn(a.y * by), __float2int_rn(b.x * by), __float2int_rn(b.y * by));
    }
}

// eight weights of 4 bits a word, a scale for 64
extern "C" __global__ void __launch_bounds__(192) unpack_int4(const unsigned* __restrict__ packed, const __half* __restrict__ scale, uint4* __restrict__ y, int words)
{
    const int i = blockIdx.x * 192 + threadIdx.x;
    if (i >= words) return;
    const unsigned w = packed[i];
    const float s = __half2float(scale[i / 8]);
    uint4 r;
    unsigned* o = &r.x;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const __nv_bfloat162 two = __floats2bfloat162_rn(s * ((int)(w >> 8 * k & 15) - 8), s * ((int)(w >> (8 * k + 4) & 15) - 8));
        o[k] = *reinterpret_cast<const unsigned*>(&two);
    }
    y[i] = r;
}

// the 32 largest of a row, in order: one warp, bitonic in registers
__device__ __forceinline__ float exchange(float v, int o, bool keep_larger)
{
    const float w = __shfl_xor_sync(~0u, v, o);
    return keep_larger ? fmaxf(v, w) : fminf(v, w);
}
extern "C" __global__ void __launch_bounds__(128) top32(const float* __restrict__ x, float* __restrict__ top, int rows, int width)
{
    const int lane = threadIdx.x % 32, row = blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= rows) return;
    float best = -INFINITY;                                         // descending over lanes
    for (int i = lane; i < width; i += 32) {
        float v = x[(size_t)row * width + i];
#pragma unroll
        for (int k = 2; k <= 32; k *= 2)
#pragma unroll
            for (int o = k / 2; o; o /= 2) v = exchange(v, o, ((lane & o) == 0) == ((lane & k) != 0));   // ascending
        best = fmaxf(best, v);                                      // a bitonic row of the 32 largest of 64
#pragma unroll
        for (int o = 16; o; o /= 2) best = exchange(best, o, (lane & o) == 0);
    }
    top[row * 32 + lane] = best;
}

// SPDX-License-Identifier: Apache-2.0
