// Scatters, segments, compaction, sums.
// rows of 64 floats added to rows of a table
extern "C" __global__ void __launch_bounds__(256) scatter_add(const float* __restrict__ rows, const int* __restrict__ index, float* __restrict__ table)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
#ifdef FOUR
    const float4 v = reinterpret_cast<const float4*>(rows)[i];
    atomicAdd(reinterpret_cast<float4*>(table) + (size_t)index[i / 16] * 16 + i % 16, v);
#else
    atomicAdd(table + (size_t)index[i / 64] * 64 + i % 64, rows[i]);
#endif
}

// keys in order; a warp adds within 32 neighbours, the last of each run adds to its sum
extern "C" __global__ void __launch_bounds__(128) segment_sum(const int* __restrict__ key, const float* __restrict__ value, float* __restrict__ sum, int n)
{
    const int lane = threadIdx.x % 32, first = blockIdx.x * 1024 + threadIdx.x / 32 * 256 + lane;
#pragma unroll 2
    for (int i = first; i < first + 256; i += 32) {
        const int k = i < n ? key[i] : -1;
        float v = i < n ? value[i] : 0.f;
#pragma unroll
        for (int o = 1; o < 32; o *= 2) {
            const float u = __shfl_up_sync(~0u, v, o);
            const int kk = __shfl_up_sync(~0u, k, o);
            if (lane >= o && kk == k) v += u;
        }
        const int next = __shfl_down_sync(~0u, k, 1);
        if (k >= 0 && (lane == 31 || next != k)) atomicAdd(sum + k, v);
    }
}

// x > limit, to the next free places of a ring
extern "C" __global__ void __launch_bounds__(256) compact(const float* __restrict__ x, float* __restrict__ out, unsigned* __restrict__ count, float limit, unsigned mask, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float v = i < n ? x[i] : limit;
    const bool mine = v > limit;
#ifdef BALLOT
    const unsigned all = __ballot_sync(~0u, mine);
    const int lane = threadIdx.x % 32;
    unsigned base = 0;
    if (lane == 0 && all) base = atomicAdd(count, __popc(all));
    base = __shfl_sync(~0u, base, 0);
    if (mine) out[(base + __popc(all & (1u << lane) - 1)) & mask] = v;
#else
    __shared__ unsigned have, base;
    if (threadIdx.x == 0) have = 0;
    __syncthreads();
    unsigned at = 0;
    if (mine) at = atomicAdd(&have, 1u);
    __syncthreads();
    if (threadIdx.x == 0) base = atomicAdd(count, have);
    __syncthreads();
    if (mine) out[(base + at) & mask] = v;
#endif
}

extern "C" __global__ void __launch_bounds__(256) ddot(const double2* __restrict__ x, const double2* __restrict__ y, double* __restrict__ total, int n2)
{
    __shared__ double part[256];
    double s = 0.;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n2; i += gridDim.x * 256) { const double2 a = x[i], b = y[i]; s = fma(a.x, b.x, s); s = fma(a.y, b.y, s); }
    part[threadIdx.x] = s;
    __syncthreads();
    for (int o = 128; o; o /= 2) {
        if (threadIdx.x < o) part[threadIdx.x] += part[threadIdx.x + o];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(total, part[0]);
}

// SPDX-License-Identifier: Apache-2.0
