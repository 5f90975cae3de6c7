// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// New against mma_multistage: TMA instead of cp.async (one thread names a box, nobody computes addresses), wgmma instead
// of ldmatrix and mma.sync (the tensor core reads shared memory itself). Still one stream of instructions: the threads
// that multiply also issue the loads, STAGES - 1 tiles ahead.
//
// Launch: grid (ceil(n/128), ceil(m/128)), block 256 (two warpgroups, 64 rows each), dynamic shared memory
// STAGES * 32768 + 64 bytes. Tensor maps: box 128 rows x 64 columns, swizzle 128B, fill zero. k a multiple of 8.
// Measured in recordings/gemm.json.
#include <cuda_bf16.h>
#include <hopperlab/bugs.cuh>
#include <hopperlab/tma.cuh>
#include <hopperlab/wgmma.cuh>

#ifndef STAGES
#define STAGES 4
#endif

constexpr int BM = 128, BN = 128, BK = 64;
constexpr int A_BYTES = BM * BK * 2, B_BYTES = BN * BK * 2, STAGE_BYTES = A_BYTES + B_BYTES;

extern "C" __global__ void __launch_bounds__(256, 1)
gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, __nv_bfloat16* c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile), then the barriers
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(shared + STAGES * STAGE_BYTES);
    require_aligned(shared, 1024);
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    int k_tiles = (k + BK - 1) / BK;
    int my_rows = threadIdx.x / 128 * 64;

    auto load = [&](int i) {                                    // thread 0 only: tile i into its stage
        unsigned char* stage = shared + i % STAGES * STAGE_BYTES;
        mbarrier_arrive_expect_tx(&full[i % STAGES], STAGE_BYTES);
        cp_async_bulk_tensor_2d_load(stage, &a, &full[i % STAGES], i * BK, row0);
        cp_async_bulk_tensor_2d_load(stage + A_BYTES, &b, &full[i % STAGES], i * BK, col0);
    };
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) mbarrier_init(&full[s], 1);
        for (int i = 0; i < STAGES - 1 && i < k_tiles; i++) load(i);
    }
    __syncthreads();                                            // nobody waits on a barrier before it is one

    float d[64] = {};
    for (int i = 0; i < k_tiles; i++) {
        int s = i % STAGES;
        unsigned a_tile = shared_address(shared + s * STAGE_BYTES) + my_rows * BK * 2;
        unsigned b_tile = shared_address(shared + s * STAGE_BYTES + A_BYTES);
        mbarrier_wait_parity(&full[s], i / STAGES % 2);
        wgmma_fence();
        #pragma unroll
        for (int step = 0; step < BK; step += 16)               // 16 elements are 32 bytes inside a swizzled row
            wgmma_m64n128k16_bf16(d, wgmma_descriptor_128B(a_tile + step * 2),
                                  wgmma_descriptor_128B(b_tile + step * 2), 1);
        wgmma_commit_group();
        wgmma_wait_group<1>();                                  // tile i-1 has been read by my warpgroup ...
        __syncthreads();                                        // ... and by the other: its stage may be refilled
        if (threadIdx.x == 0 && i + STAGES - 1 < k_tiles) load(i + STAGES - 1);
    }
    wgmma_wait_group<0>();

    int thread = threadIdx.x % 128, lane = thread % 32;
    int row = row0 + my_rows + 16 * (thread / 32) + lane / 4, col = col0 + 2 * (lane % 4);
    #pragma unroll
    for (int i = 0; i < 64; i += 2) {                           // d[i], d[i+1] are neighbours in a row
        int y = row + 8 * (i / 2 % 2), x = col + 8 * (i / 4);
        __nv_bfloat16* out = c + (size_t)y * n + x;
        if (y < m && x + 1 < n && n % 2 == 0) {
            *reinterpret_cast<__nv_bfloat162*>(out) = __floats2bfloat162_rn(d[i], d[i + 1]);
        } else if (y < m) {                                     // odd n: pairs are not 4-byte aligned
            if (x < n) out[0] = __float2bfloat16(d[i]);
            if (x + 1 < n) out[1] = __float2bfloat16(d[i + 1]);
        }
    }
}
// SPDX-License-Identifier: Apache-2.0
