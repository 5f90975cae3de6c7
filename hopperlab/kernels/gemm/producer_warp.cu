// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// warp_specialized with a producer of another size. There a whole warpgroup copies, because setmaxnreg moves registers between
// warpgroups; here PRODUCER_WARPS = 1 gives the role to one warp: 96 threads fewer that do nothing, and no setmaxnreg, since a
// block of 288 threads may have 224 registers each from the start. PRODUCER_WARPS = 4 is the control: the same code, a
// warpgroup that gives registers back. The consumers are warps 0 to 7, so that their warpgroups start at a multiple of four.
//
// WAIT_FOR_OWN_LOAD 1 shows what it costs when the producer waits until its own load has landed before it goes on: then one load
// is in flight, however many stages there are. (The consumers wait for the bytes themselves; nobody needs the producer to.)
//
// Macros: PRODUCER_WARPS (1 or 4), WAIT_FOR_OWN_LOAD, STAGES (2 to 7). Launch: grid (ceil(n/128), ceil(m/128)), block 256 +
// 32 * PRODUCER_WARPS, dynamic shared memory STAGES * 32768 + 16 * STAGES bytes. Tensor maps: box 128 rows x 64 columns,
// swizzle 128B, fill zero. k a multiple of 8. Measured in recordings/variants.json.
#include <cuda_bf16.h>
#include <hopperlab/epilogue.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/setmaxnreg.cuh>
#include <hopperlab/tma.cuh>
#include <hopperlab/wgmma_tile.cuh>

#ifndef PRODUCER_WARPS
#define PRODUCER_WARPS 1
#endif
#ifndef WAIT_FOR_OWN_LOAD
#define WAIT_FOR_OWN_LOAD 0
#endif
#ifndef STAGES
#define STAGES 4
#endif

constexpr int BM = 128, BN = 128, BK = 64, A_BYTES = BM * BK * 2, STAGE_BYTES = A_BYTES + BN * BK * 2;
static_assert(PRODUCER_WARPS == 1 || PRODUCER_WARPS == 4, "setmaxnreg wants a whole warpgroup");

extern "C" __global__ void __launch_bounds__(256 + 32 * PRODUCER_WARPS, 1)
gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, __nv_bfloat16* c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile), then the barriers
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(shared + STAGES * STAGE_BYTES);
    mbarrier_t* empty = full + STAGES;
    require_aligned(shared, 1024);
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, k_tiles = (k + BK - 1) / BK;

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            mbarrier_init(&full[s], 1);                         // the producer, and the bytes
            mbarrier_init(&empty[s], 2);                        // one arrival a consumer warpgroup
        }
    }
    __syncthreads();                                            // nobody touches a barrier before it is one

    Ring<STAGES> ring;
    if (threadIdx.x >= 256) {
#if PRODUCER_WARPS == 4
        setmaxnreg_dec<40>();
#endif
        if (threadIdx.x == 256) {
            for (int i = 0; i < k_tiles; i++, ring.advance()) {
                unsigned char* stage = shared + ring.slot * STAGE_BYTES;
                mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
                mbarrier_arrive_expect_tx(&full[ring.slot], STAGE_BYTES);
                cp_async_bulk_tensor_2d_load(stage, &a, &full[ring.slot], i * BK, row0);
                cp_async_bulk_tensor_2d_load(stage + A_BYTES, &b, &full[ring.slot], i * BK, col0);
                if (WAIT_FOR_OWN_LOAD) mbarrier_wait_parity(&full[ring.slot], ring.phase);
            }
        }
    } else {
#if PRODUCER_WARPS == 4
        setmaxnreg_inc<232>();
#endif
        float d[64];
        int my_rows = threadIdx.x / 128 * 64;
        for (int i = 0; i < k_tiles; i++, ring.advance()) {
            unsigned stage = shared_address(shared) + ring.slot * STAGE_BYTES;
            mbarrier_wait_parity(&full[ring.slot], ring.phase);
            wgmma_fence();
            wgmma_k_block(d, stage + my_rows * BK * 2, stage + A_BYTES, i > 0);
            wgmma_commit_group();
            wgmma_wait_group<0>();                              // all four warps' reads are done: one thread hands it back
            if (threadIdx.x % 128 == 0) mbarrier_arrive(&empty[ring.slot]);
        }
        store_accumulator(c, d, row0 + my_rows, col0, m, n);
    }
}
// SPDX-License-Identifier: Apache-2.0
