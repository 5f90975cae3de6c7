// Sums through shared memory: by cp.async, each thread its own slots; and by bulk copies, one warp that loads and eight that add.
#ifndef STAGES
#define STAGES 6
#endif
__device__ __forceinline__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
template <int WARPS> __device__ void add_to(float* total, float s, int thread)
{
    __shared__ float part[WARPS];
    for (int o = 16; o; o /= 2) s += __shfl_xor_sync(~0u, s, o);
    if (thread % 32 == 0) part[thread / 32] = s;
    asm volatile("bar.sync 1, %0;" :: "n"(WARPS * 32) : "memory");
    if (thread == 0) {
        for (int w = 1; w < WARPS; ++w) s += part[w];
        atomicAdd(total, s);
    }
}

extern "C" __global__ void __launch_bounds__(512) async_sum(const float4* __restrict__ x, float* __restrict__ total, int n4)
{
    __shared__ __align__(16) float4 slot[4][512];
    const int step = gridDim.x * 512;
    int ask = blockIdx.x * 512 + threadIdx.x;
    auto load = [&](int s) {
        if (ask < n4) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at(&slot[s][threadIdx.x])), "l"(x + ask) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
        ask += step;
    };
    load(0); load(1); load(2);
    float sum = 0.f;
    int s = 0;
    for (int i = blockIdx.x * 512 + threadIdx.x; i < n4; i += step) {
        load((s + 3) & 3);
        asm volatile("cp.async.wait_group 3;" ::: "memory");
        const float4 v = slot[s][threadIdx.x];
        sum += (v.x + v.y) + (v.z + v.w);
        s = (s + 1) & 3;
    }
    add_to<16>(total, sum, threadIdx.x);
}

__device__ __forceinline__ void await(unsigned long long* bar, unsigned parity)
{
    unsigned done;
    do asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(at(bar)), "r"(parity) : "memory");
    while (!done);
}
constexpr int PIECE = 12288;                                      // bytes
extern "C" __global__ void __launch_bounds__(288) bulk_sum(const float4* __restrict__ x, float* __restrict__ total, int pieces)
{
    extern __shared__ __align__(128) float4 ring[];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at(&full[s])) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 8;" :: "r"(at(&empty[s])) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    int s = 0;
    unsigned parity = 0;
    if (threadIdx.x >= 256) {
        if (threadIdx.x == 256)
            for (int p = blockIdx.x; p < pieces; p += gridDim.x) {
                await(&empty[s], parity ^ 1);
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at(&full[s])), "n"(PIECE) : "memory");
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                    :: "r"(at(ring + s * (PIECE / 16))), "l"(x + (size_t)p * (PIECE / 16)), "n"(PIECE), "r"(at(&full[s])) : "memory");
                if (++s == STAGES) { s = 0; parity ^= 1; }
            }
        return;
    }
    float sum = 0.f;
    for (int p = blockIdx.x; p < pieces; p += gridDim.x) {
        await(&full[s], parity);
#pragma unroll
        for (int j = 0; j < PIECE / 4096; ++j) {
            const float4 v = ring[s * (PIECE / 16) + j * 256 + threadIdx.x];
            sum += (v.x + v.y) + (v.z + v.w);
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");   // the next copy into this place is the async proxy's
        __syncwarp();
        if (threadIdx.x % 32 == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(&empty[s])) : "memory");
        if (++s == STAGES) { s = 0; parity ^= 1; }
    }
    add_to<8>(total, sum, threadIdx.x);
}

// SPDX-License-Identifier: Apache-2.0
