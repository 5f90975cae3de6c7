// c[m,n] = a[m,k] b[n,k]^T in fp16, sums in fp32. Rows of 64 halves in shared memory, their pieces of 16 bytes exchanged by the row's low bits (no padding); three buffers.
#include <cuda_fp16.h>
#ifndef TILE
#define TILE 128
#endif
constexpr int BK = 64, BUFFERS = 3, WT = TILE / 2;                // four warps, each WT x WT
constexpr int OPERAND = TILE * BK * 2;                            // bytes
__device__ __forceinline__ unsigned place(int row, int piece) { return row * 128 + ((piece ^ row & 7) << 4); }
__device__ __forceinline__ void ldmatrix(unsigned (&r)[4], unsigned from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}
extern "C" __global__ void __launch_bounds__(128) gemm_mma(const __half* __restrict__ a, const __half* __restrict__ b, __half* __restrict__ c, int n, int k)
{
    extern __shared__ __align__(128) unsigned char buffers[];
    const unsigned base = (unsigned)__cvta_generic_to_shared(buffers);
    const int tid = threadIdx.x, lane = tid & 31, wm = (tid >> 6) * WT, wn = (tid >> 5 & 1) * WT;
    const __half* ga = a + ((size_t)blockIdx.x * TILE + tid / 8) * k + tid % 8 * 8;
    const __half* gb = b + ((size_t)blockIdx.y * TILE + tid / 8) * k + tid % 8 * 8;
    const unsigned to = base + place(tid / 8, tid % 8);           // sixteen rows further the pieces are exchanged alike
    const int steps = k / BK;
    auto fetch = [&](int step) {
        if (step < steps) {
            const unsigned t = to + step % BUFFERS * (2 * OPERAND);
#pragma unroll
            for (int r = 0; r < TILE; r += 16) {
                asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" :: "r"(t + r * 128), "l"(ga + (size_t)r * k + step * BK) : "memory");
                asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" :: "r"(t + OPERAND + r * 128), "l"(gb + (size_t)r * k + step * BK) : "memory");
            }
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    float acc[WT / 16][WT / 8][4] = {};
    fetch(0);
    fetch(1);
    for (int step = 0; step < steps; ++step) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        fetch(step + 2);
        const unsigned sa = base + step % BUFFERS * (2 * OPERAND), sb = sa + OPERAND;
#pragma unroll
        for (int kk = 0; kk < BK / 16; ++kk) {
            unsigned fa[WT / 16][4], fb[WT / 16][4];
#pragma unroll
            for (int i = 0; i < WT / 16; ++i) ldmatrix(fa[i], sa + place(wm + i * 16 + (lane & 15), kk * 2 + (lane >> 4)));
#pragma unroll
            for (int j = 0; j < WT / 16; ++j) ldmatrix(fb[j], sb + place(wn + j * 16 + (lane >> 4) * 8 + (lane & 7), kk * 2 + (lane >> 3 & 1)));
#pragma unroll
            for (int i = 0; i < WT / 16; ++i)
#pragma unroll
                for (int j = 0; j < WT / 8; ++j)
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                        : "+f"(acc[i][j][0]), "+f"(acc[i][j][1]), "+f"(acc[i][j][2]), "+f"(acc[i][j][3])
                        : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[j / 2][j % 2 * 2]), "r"(fb[j / 2][j % 2 * 2 + 1]));
        }
    }
#pragma unroll
    for (int i = 0; i < WT / 16; ++i)
#pragma unroll
        for (int j = 0; j < WT / 8; ++j)
#pragma unroll
            for (int h = 0; h < 2; ++h)
                *reinterpret_cast<__half2*>(c + ((size_t)blockIdx.x * TILE + wm + i * 16 + h * 8 + lane / 4) * n + blockIdx.y * TILE + wn + j * 8 + lane % 4 * 2)
                    = __floats2half2_rn(acc[i][j][2 * h], acc[i][j][2 * h + 1]);
}

// SPDX-License-Identifier: Apache-2.0
