// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// New in this step: warps have roles. Warpgroup 0 only copies (one thread of it issues TMA), warpgroups 1 and 2 only
// multiply (wgmma, 64 rows of the 128x128 tile each). They meet at two mbarriers a stage:
//   full[s]   the tiles of stage s have landed   (1 arrival by the producer, and the bytes that TMA counts)
//   empty[s]  stage s has been read              (1 arrival by each consumer warpgroup)
// Why: nobody's instruction stream holds both the address work and the multiplication, loads run as far ahead as there
// are stages, and setmaxnreg moves the registers from the copying warps to the multiplying ones.
//
// Launch: grid (ceil(n/128), ceil(m/128)), block 384, dynamic shared memory STAGES * 32768 + 64 bytes.
// Tensor maps of A and B: box 128 rows x 64 columns, swizzle 128B, out-of-bounds fill zero. k a multiple of 8.
// Measured in recordings/gemm.json.
#include <cuda_bf16.h>
#include <hopperlab/bugs_by_lesson.cuh>
#include <hopperlab/mbarrier.cuh>
#include <hopperlab/setmaxnreg.cuh>
#include <hopperlab/tma.cuh>
#include <hopperlab/trace.cuh>
#include <hopperlab/wgmma.cuh>

#ifndef STAGES
#define STAGES 4
#endif

constexpr int BM = 128, BN = 128, BK = 64;
constexpr int A_BYTES = BM * BK * 2, B_BYTES = BN * BK * 2, STAGE_BYTES = A_BYTES + B_BYTES;

// One accumulator fragment (64 rows x 128 columns over 128 threads) to C, guarded at the edges.
__device__ __forceinline__ void store_fragment(__nv_bfloat16* c, const float (&d)[64], int row0, int col0, int m, int n) {
    int thread = threadIdx.x % 128, lane = thread % 32;
    int row = row0 + 16 * (thread / 32) + lane / 4, col = col0 + 2 * (lane % 4);
    #pragma unroll
    for (int i = 0; i < 64; i += 2) {                       // d[i], d[i+1] are neighbours in a row
        int y = row + 8 * (i / 2 % 2), x = col + 8 * (i / 4);
        __nv_bfloat16* out = c + (size_t)y * n + x;
        if (y < m && x + 1 < n && n % 2 == 0) {
            *reinterpret_cast<__nv_bfloat162*>(out) = __floats2bfloat162_rn(d[i], d[i + 1]);
        } else if (y < m) {                                 // odd n: pairs are not 4-byte aligned
            if (x < n) out[0] = __float2bfloat16(d[i]);
            if (x + 1 < n) out[1] = __float2bfloat16(d[i + 1]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(384, 1)
gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, __nv_bfloat16* c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile), then the barriers
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(shared + STAGES * STAGE_BYTES);
    mbarrier_t* empty = full + STAGES;
    require_aligned(shared, 1024);                              // the 128-byte swizzle repeats every 1024 bytes
    Trace trace;                                                // marks for hl.timeline; nothing, unless it compiles them in

    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    int k_tiles = (k + BK - 1) / BK;
    int warpgroup = threadIdx.x / 128;

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 2);
        }
    }
    __syncthreads();                                            // nobody touches a barrier before it is one

    if (warpgroup == 0) {
        setmaxnreg_dec<40>();
        if (threadIdx.x == 0) {
            for (int i = 0; i < (BUG_PRODUCER_LEAVES ? STAGES : k_tiles); i++) {
                int s = i % STAGES, phase = i / STAGES % 2;
                unsigned char* stage = shared + s * STAGE_BYTES;
                // The first pass finds every stage empty: a fresh barrier passes parity 1.
                trace.begin(TRACE_WAIT, i);
                mbarrier_wait_parity(&empty[s], BUG_PRODUCER_PARITY ? phase : phase ^ 1);
                trace.end(TRACE_WAIT, i);
                if (!BUG_FORGOTTEN_EXPECT_TX)
                    mbarrier_arrive_expect_tx(&full[s], BUG_WRONG_BYTES ? STAGE_BYTES + 16 : STAGE_BYTES);
                cp_async_bulk_tensor_2d_load(stage, &a, &full[s], i * BK, row0);
                cp_async_bulk_tensor_2d_load(stage + A_BYTES, &b, &full[s], i * BK, col0);
                trace.mark(TRACE_ISSUE, i);
            }
        }
    } else {
        setmaxnreg_inc<232>();
        float d[64] = {};
        int my_rows = (warpgroup - 1) * 64;
        for (int i = 0; i < k_tiles; i++) {
            int s = i % STAGES, phase = i / STAGES % 2;
            unsigned a_tile = shared_address(shared + s * STAGE_BYTES) + my_rows * BK * 2;
            unsigned b_tile = shared_address(shared + s * STAGE_BYTES + A_BYTES);
            // TMA writes and wgmma reads through the same (async) proxy: the barrier alone orders them.
            trace.begin(TRACE_WAIT, i);
            if (!BUG_NO_FULL_WAIT) mbarrier_wait_parity(&full[s], BUG_WRONG_PARITY ? phase ^ 1 : phase);
            trace.end(TRACE_WAIT, i);
            trace.begin(TRACE_MMA, i);
            wgmma_fence();
            #pragma unroll
            for (int step = 0; step < BK; step += 16)           // 16 elements are 32 bytes inside a swizzled row
                wgmma_m64n128k16_bf16(d, wgmma_descriptor_128B(a_tile + step * 2),
                                      wgmma_descriptor_128B(b_tile + step * 2), 1);
            wgmma_commit_group();
            // While this warpgroup waits, the other one keeps the tensor core busy. After the wait all four warps' reads of
            // the stage are done, so one thread may hand it back for the warpgroup.
            if (BUG_EARLY_RELEASE && threadIdx.x % 128 == 0) mbarrier_arrive(&empty[s]);
            wgmma_wait_group<0>();
            trace.end(TRACE_MMA, i);
            if (!BUG_EARLY_RELEASE && (BUG_ARRIVE_PER_THREAD || threadIdx.x % 128 == 0)) mbarrier_arrive(&empty[s]);
        }
        trace.begin(TRACE_STORE);
        store_fragment(c, d, row0 + my_rows, col0, m, n);
        trace.end(TRACE_STORE);
    }
}
// SPDX-License-Identifier: Apache-2.0
