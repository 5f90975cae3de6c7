// c[m,n] = a[m,k] b[n,k]^T in bf16 by wgmma on boxes that TMA brings: three ways.
#include "bits.cuh"
#include "wgmma_bits.cuh"
#ifndef STAGES
#define STAGES 3
#endif
#ifndef BN
#define BN 256
#endif
using bf16 = __nv_bfloat16;
constexpr int BK = 64;

template <int N>
__device__ __forceinline__ void put(bf16* __restrict__ c, const float (&d)[N / 2], int row, int col, int n)
{
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
    bf16* to = c + (size_t)(row + warp * 16 + lane / 4) * n + col + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < N / 8; ++j) {
        *reinterpret_cast<__nv_bfloat162*>(to + j * 8) = __floats2bfloat162_rn(d[4 * j], d[4 * j + 1]);
        *reinterpret_cast<__nv_bfloat162*>(to + (size_t)8 * n + j * 8) = __floats2bfloat162_rn(d[4 * j + 2], d[4 * j + 3]);
    }
}
__device__ __forceinline__ unsigned aligned(const void* p) { return (pt::sm(p) + 1023) & ~1023u; }

// One warpgroup, 128 x 128, one buffer: load, wait, multiply, wait.
extern "C" __global__ void __launch_bounds__(128)
wg_single(const __grid_constant__ pt::Map ma, const __grid_constant__ pt::Map mb, bf16* __restrict__ c, int n, int k)
{
    extern __shared__ unsigned char space[];
    __shared__ __align__(8) unsigned long long bar;
    const unsigned a = aligned(space), b = a + 128 * 128, full = pt::sm(&bar);
    if (threadIdx.x == 0) { pt::bar_init(full, 1); pt::bar_fence(); }
    __syncthreads();
    float top[64], low[64];
    for (int i = 0; i < k / BK; ++i) {
        if (threadIdx.x == 0) {
            pt::bar_expect(full, 2 * 128 * 128);
            pt::box_in(a, &ma, i * BK, blockIdx.y * 128, full);
            pt::box_in(b, &mb, i * BK, blockIdx.x * 128, full);
        }
        pt::bar_wait(full, i & 1);
        pt::wg_fence();
#pragma unroll
        for (int s = 0; s < 4; ++s) {
            pt::wgmma<128>(top, pt::desc(a + 32 * s), pt::desc(b + 32 * s), i + s);
            pt::wgmma<128>(low, pt::desc(a + 64 * 128 + 32 * s), pt::desc(b + 32 * s), i + s);
        }
        pt::wg_commit();
        pt::wg_wait<0>();
        __syncthreads();
    }
    put<128>(c, top, blockIdx.y * 128, blockIdx.x * 128, n);
    put<128>(c, low, blockIdx.y * 128 + 64, blockIdx.x * 128, n);
}

// Two warpgroups that load for themselves, 128 x BN, STAGES buffers, one product in flight.
extern "C" __global__ void __launch_bounds__(256)
wg_ring(const __grid_constant__ pt::Map ma, const __grid_constant__ pt::Map mb, bf16* __restrict__ c, int n, int k)
{
    extern __shared__ unsigned char space[];
    __shared__ __align__(8) unsigned long long bar[STAGES];
    constexpr unsigned A = 128 * 128, B = BN * 128;
    const unsigned base = aligned(space);
    const int group = threadIdx.x / 128, steps = k / BK;
    auto load = [&](int i) {
        const unsigned at = base + i % STAGES * (A + B), full = pt::sm(&bar[i % STAGES]);
        pt::bar_expect(full, A + B);
        pt::box_in(at, &ma, i * BK, blockIdx.y * 128, full);
        pt::box_in(at + A, &mb, i * BK, blockIdx.x * BN, full);
    };
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) pt::bar_init(pt::sm(&bar[s]), 1);
        pt::bar_fence();
        for (int i = 0; i < STAGES && i < steps; ++i) load(i);
    }
    __syncthreads();
    float d[BN / 2];
    for (int i = 0; i < steps; ++i) {
        const unsigned at = base + i % STAGES * (A + B);
        pt::bar_wait(pt::sm(&bar[i % STAGES]), i / STAGES & 1);
        pt::wg_fence();
#pragma unroll
        for (int s = 0; s < 4; ++s) pt::wgmma<BN>(d, pt::desc(at + group * 64 * 128 + 32 * s), pt::desc(at + A + 32 * s), i + s);
        pt::wg_commit();
        pt::wg_wait<1>();                              // product i - 1 has read its buffer
        __syncthreads();
        if (threadIdx.x == 0 && i > 0 && i - 1 + STAGES < steps) load(i - 1 + STAGES);
    }
    pt::wg_wait<0>();
    put<BN>(c, d, blockIdx.y * 128 + group * 64, blockIdx.x * BN, n);
}

// One producer warpgroup, two that multiply 64 x BN each; full and empty barriers.
extern "C" __global__ void __launch_bounds__(384)
wg_roles(const __grid_constant__ pt::Map ma, const __grid_constant__ pt::Map mb, bf16* __restrict__ c, int n, int k)
{
    extern __shared__ unsigned char space[];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES];
    constexpr unsigned A = 128 * 128, B = BN * 128;
    const unsigned base = aligned(space);
    const int role = threadIdx.x / 128, steps = k / BK;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) { pt::bar_init(pt::sm(&full[s]), 1); pt::bar_init(pt::sm(&empty[s]), 2); }
        pt::bar_fence();
    }
    __syncthreads();
    if (role == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            for (int i = 0, s = 0, turn = 1; i < steps; ++i) {
                pt::bar_wait(pt::sm(&empty[s]), turn);
                const unsigned at = base + s * (A + B), bar = pt::sm(&full[s]);
                pt::bar_expect(bar, A + B);
                pt::box_in(at, &ma, i * BK, blockIdx.y * 128, bar);
                pt::box_in(at + A, &mb, i * BK, blockIdx.x * BN, bar);
                if (++s == STAGES) { s = 0; turn ^= 1; }
            }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        float d[BN / 2];
        const int group = role - 1;
        for (int i = 0, s = 0, turn = 0; i < steps; ++i) {
            const unsigned at = base + s * (A + B);
            pt::bar_wait(pt::sm(&full[s]), turn);
            pt::wg_fence();
#pragma unroll
            for (int q = 0; q < 4; ++q) pt::wgmma<BN>(d, pt::desc(at + group * 64 * 128 + 32 * q), pt::desc(at + A + 32 * q), i + q);
            pt::wg_commit();
            pt::wg_wait<1>();
            if (threadIdx.x % 128 == 0 && i > 0) pt::bar_arrive(pt::sm(&empty[(s + STAGES - 1) % STAGES]));
            if (++s == STAGES) { s = 0; turn ^= 1; }
        }
        pt::wg_wait<0>();
        put<BN>(c, d, blockIdx.y * 128 + group * 64, blockIdx.x * BN, n);
    }
}

// SPDX-License-Identifier: Apache-2.0
