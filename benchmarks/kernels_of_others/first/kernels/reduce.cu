// Reductions, histogram, scan.
#ifndef COPIES
#define COPIES 8
#endif
__device__ __forceinline__ float warp_sum(float v) { for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o); return v; }

extern "C" __global__ void __launch_bounds__(512) sum_squares(const float4* __restrict__ x, float* __restrict__ total, int n4)
{
    __shared__ float part[16];
    float s = 0.f;
    for (int i = blockIdx.x * 512 + threadIdx.x; i < n4; i += gridDim.x * 512) { const float4 v = x[i]; s += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w; }
    s = warp_sum(s);
    if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = s;
    __syncthreads();
    if (threadIdx.x < 32) {
        s = warp_sum(threadIdx.x < 16 ? part[threadIdx.x] : 0.f);
        if (threadIdx.x == 0) atomicAdd(total, s);
    }
}

// sums of columns: a thread a column, blockIdx.y a strip of rows, one atomic a column and strip
extern "C" __global__ void __launch_bounds__(128) column_sums(const float* __restrict__ x, float* __restrict__ sums, int cols, int strip)
{
    const int c = blockIdx.x * 128 + threadIdx.x;
    const float* p = x + (size_t)blockIdx.y * strip * cols + c;
    float s = 0.f;
#pragma unroll 4
    for (int r = 0; r < strip; ++r) s += p[(size_t)r * cols];
    atomicAdd(sums + c, s);
}

// the end of a split-K product: sum of partial tiles, bias, ReLU
extern "C" __global__ void __launch_bounds__(256)
splitk_reduce(const float4* __restrict__ part, const float4* __restrict__ bias, float4* __restrict__ out, int splits, int n4, int width4)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n4) return;
    float4 s = bias[i % width4];
    for (int k = 0; k < splits; ++k) {
        const float4 v = part[(size_t)k * n4 + i];
        s.x += v.x; s.y += v.y; s.z += v.z; s.w += v.w;
    }
    out[i] = make_float4(fmaxf(s.x, 0.f), fmaxf(s.y, 0.f), fmaxf(s.z, 0.f), fmaxf(s.w, 0.f));
}

// 256 bins in shared memory, COPIES of them a block (8 warps)
extern "C" __global__ void __launch_bounds__(256) histogram(const unsigned* __restrict__ data, unsigned* __restrict__ bins, int words)
{
    __shared__ unsigned h[COPIES][256];
    for (int i = threadIdx.x; i < COPIES * 256; i += 256) (&h[0][0])[i] = 0;
    __syncthreads();
    unsigned* mine = h[(threadIdx.x >> 5) % COPIES];
    for (int i = blockIdx.x * 256 + threadIdx.x; i < words; i += gridDim.x * 256) {
        const unsigned w = data[i];
        atomicAdd(mine + (w & 255), 1u); atomicAdd(mine + (w >> 8 & 255), 1u); atomicAdd(mine + (w >> 16 & 255), 1u); atomicAdd(mine + (w >> 24), 1u);
    }
    __syncthreads();
    unsigned s = 0;
    for (int c = 0; c < COPIES; ++c) s += h[c][threadIdx.x];
    atomicAdd(bins + threadIdx.x, s);
}

// inclusive prefix sums of 1024 ints a block, and the block's total
extern "C" __global__ void __launch_bounds__(256) scan_blocks(const int4* __restrict__ in, int4* __restrict__ out, int* __restrict__ totals)
{
    __shared__ int part[8];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, at = blockIdx.x * 256 + threadIdx.x;
    int4 v = in[at];
    v.y += v.x; v.z += v.y; v.w += v.z;
    int s = v.w;
#pragma unroll
    for (int o = 1; o < 32; o <<= 1) { const int t = __shfl_up_sync(~0u, s, o); if (lane >= o) s += t; }
    if (lane == 31) part[warp] = s;
    __syncthreads();
    int before = s - v.w;
    for (int w = 0; w < warp; ++w) before += part[w];
    out[at] = make_int4(v.x + before, v.y + before, v.z + before, v.w + before);
    if (threadIdx.x == 255) totals[blockIdx.x] = v.w + before;
}

// bitonic sort of 1024 keys a block in shared memory
extern "C" __global__ void __launch_bounds__(512) sort_blocks(const unsigned* __restrict__ in, unsigned* __restrict__ out)
{
    __shared__ unsigned key[1024];
    key[threadIdx.x] = in[blockIdx.x * 1024 + threadIdx.x];
    key[threadIdx.x + 512] = in[blockIdx.x * 1024 + threadIdx.x + 512];
    for (int size = 2; size <= 1024; size <<= 1)
        for (int gap = size >> 1; gap; gap >>= 1) {
            __syncthreads();
            const int a = 2 * threadIdx.x - (threadIdx.x & (gap - 1)), b = a + gap;
            const unsigned p = key[a], q = key[b];
            if ((p > q) == ((a & size) == 0)) { key[a] = q; key[b] = p; }
        }
    __syncthreads();
    out[blockIdx.x * 1024 + threadIdx.x] = key[threadIdx.x];
    out[blockIdx.x * 1024 + threadIdx.x + 512] = key[threadIdx.x + 512];
}

// SPDX-License-Identifier: Apache-2.0
