// int8 products by mma.sync with plain loads; c[m,n] = a[m,k] b[n,k]^T, 64 x 64 a block, four warps of 32 x 32, 64 of k at a time
extern "C" __global__ void __launch_bounds__(128) gemm_s8(const signed char* __restrict__ a, const signed char* __restrict__ b, int* __restrict__ c, int n, int k)
{
    __shared__ __align__(16) unsigned char as[64][80], bs[64][80];
    const int tid = threadIdx.x, lane = tid % 32, wm = tid / 64 * 32, wn = tid / 32 % 2 * 32, g = lane / 4, q = lane % 4 * 4;
    const signed char* pa = a + (size_t)(blockIdx.y * 64 + tid / 4) * k + tid % 4 * 16;
    const signed char* pb = b + (size_t)(blockIdx.x * 64 + tid / 4) * k + tid % 4 * 16;
    int acc[2][4][4] = {};
    uint4 va[2], vb[2];
    auto load = [&](int t) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            va[r] = *reinterpret_cast<const uint4*>(pa + (size_t)r * 32 * k + t);
            vb[r] = *reinterpret_cast<const uint4*>(pb + (size_t)r * 32 * k + t);
        }
    };
#ifdef AHEAD
    load(0);
#endif
    for (int t = 0; t < k; t += 64) {
#ifndef AHEAD
        load(t);
#endif
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            *reinterpret_cast<uint4*>(&as[tid / 4 + r * 32][tid % 4 * 16]) = va[r];
            *reinterpret_cast<uint4*>(&bs[tid / 4 + r * 32][tid % 4 * 16]) = vb[r];
        }
        __syncthreads();
#ifdef AHEAD
        if (t + 64 < k) load(t + 64);
#endif
#pragma unroll
        for (int kk = 0; kk < 64; kk += 32) {
            unsigned fa[2][4], fb[4][2];
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int h = 0; h < 4; ++h) fa[i][h] = *reinterpret_cast<const unsigned*>(&as[wm + i * 16 + h % 2 * 8 + g][kk + h / 2 * 16 + q]);
#pragma unroll
            for (int j = 0; j < 4; ++j)
#pragma unroll
                for (int h = 0; h < 2; ++h) fb[j][h] = *reinterpret_cast<const unsigned*>(&bs[wn + j * 8 + g][kk + h * 16 + q]);
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                        : "+r"(acc[i][j][0]), "+r"(acc[i][j][1]), "+r"(acc[i][j][2]), "+r"(acc[i][j][3])
                        : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[j][0]), "r"(fb[j][1]));
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
            for (int h = 0; h < 2; ++h)
                *reinterpret_cast<int2*>(c + (size_t)(blockIdx.y * 64 + wm + i * 16 + h * 8 + g) * n + blockIdx.x * 64 + wn + j * 8 + lane % 4 * 2) = make_int2(acc[i][j][2 * h], acc[i][j][2 * h + 1]);
}

// rows of 8 KiB gathered by bulk copies: one CTA an SM, a warp has one place, one mbarrier and one row at a time
__device__ __forceinline__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
constexpr int ROW = 8192, WARPS = 16;
extern "C" __global__ void __launch_bounds__(WARPS * 32) bulk_rows(const char* __restrict__ in, const int* __restrict__ index, char* __restrict__ out, int rows)
{
    extern __shared__ __align__(128) char place[];
    __shared__ __align__(8) unsigned long long bar[WARPS];
    const int warp = threadIdx.x / 32;
    const unsigned b = at(&bar[warp]), here = at(place + warp * ROW);
    if (threadIdx.x % 32) return;
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(b) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    unsigned parity = 0;
    for (int r = blockIdx.x * WARPS + warp; r < rows; r += gridDim.x * WARPS) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(b), "n"(ROW) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
            :: "r"(here), "l"(in + (size_t)index[r] * ROW), "n"(ROW), "r"(b) : "memory");
        unsigned done;
        do asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(b), "r"(parity) : "memory");
        while (!done);
        parity ^= 1;
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" :: "l"(out + (size_t)r * ROW), "r"(here), "n"(ROW) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// SPDX-License-Identifier: Apache-2.0
