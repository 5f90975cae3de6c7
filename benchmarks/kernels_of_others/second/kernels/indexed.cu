// Sparse rows, tables, hashes, counts.
__device__ __forceinline__ float warp_sum(float v) { for (int o = 16; o; o /= 2) v += __shfl_down_sync(~0u, v, o); return v; }

extern "C" __global__ void __launch_bounds__(256) spmv_csr(const int* __restrict__ start, const int* __restrict__ column, const float* __restrict__ value, const float* __restrict__ x,
                                                           float* __restrict__ y, int rows)
{
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float s = 0.f;
    for (int i = start[row] + lane; i < start[row + 1]; i += 32) s = fmaf(value[i], __ldg(x + column[i]), s);
    s = warp_sum(s);
    if (lane == 0) y[row] = s;
}

// sums of rows of a table, a warp a bag, 128 floats a row
extern "C" __global__ void __launch_bounds__(64) embedding_bag(const float4* __restrict__ table, const int* __restrict__ index, const int* __restrict__ start, float4* __restrict__ out, int bags)
{
    const int bag = blockIdx.x * 2 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (bag >= bags) return;
    float4 s = make_float4(0.f, 0.f, 0.f, 0.f);
    const int end = start[bag + 1];
    for (int i = start[bag]; i < end; ++i) {
        const float4 v = table[(size_t)index[i] * 32 + lane];
        s.x += v.x; s.y += v.y; s.z += v.z; s.w += v.w;
    }
    out[(size_t)bag * 32 + lane] = s;
}

// open addressing, linear probing; 0 is no key
extern "C" __global__ void __launch_bounds__(256) hash_probe(const uint2* __restrict__ slots, const unsigned* __restrict__ query, unsigned* __restrict__ found, int n, int shift)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    const unsigned key = query[i];
    unsigned at = key * 0x9E3779B1u >> shift, got = ~0u;
    for (;;) {
        const uint2 s = slots[at];
        if (s.x == key) { got = s.y; break; }
        if (s.x == 0) break;
        ++at;
    }
    found[i] = got;
}

extern "C" __global__ void __launch_bounds__(256) murmur(const uint4* __restrict__ key, unsigned* __restrict__ hash, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    const uint4 k = key[i];
    const unsigned w[4] = {k.x, k.y, k.z, k.w};
    unsigned all = 0;
#pragma unroll 2
    for (unsigned seed = 0; seed < 8; ++seed) {
        unsigned h = seed * 0x3C6EF372u;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            unsigned t = w[j] * 0xCC9E2D51u;
            t = t << 15 | t >> 17;
            h ^= t * 0x1B873593u + seed;
            h = (h << 13 | h >> 19) * 5u + 0xE6546B64u;
        }
        h ^= 16u;
        h = (h ^ h >> 16) * 0x85EBCA6Bu;
        h = (h ^ h >> 13) * 0xC2B2AE35u;
        all += (h ^ h >> 16) >> seed;
    }
    hash[i] = all;
}

extern "C" __global__ void __launch_bounds__(256) bit_count(const uint4* __restrict__ x, unsigned* __restrict__ total, int n4)
{
    unsigned c = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n4; i += gridDim.x * 256) {
        const uint4 v = x[i];
        c += __popc(v.x) + __popc(v.y) + __popc(v.z) + __popc(v.w);
    }
#ifdef BLOCK_FIRST
    __shared__ unsigned part[8];
    c = __reduce_add_sync(~0u, c);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = c;
    __syncthreads();
    if (threadIdx.x) return;
    for (int w = 1; w < 8; ++w) c += part[w];
#endif
    atomicAdd(total, c);
}

extern "C" __global__ void __launch_bounds__(256) count_global(const unsigned* __restrict__ x, unsigned* __restrict__ bins, unsigned mask, int n)
{
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(bins + (x[i] & mask), 1u);
}

// SPDX-License-Identifier: Apache-2.0
