// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// TMA and wgmma in a ring of STAGES slots, without roles: the 256 threads that multiply also issue the loads.
// New against tma_wgmma: no __syncthreads in the loop. A slot is handed back by one arrival a warpgroup on its empty barrier,
// so the warpgroup that is ahead need not stop for the other; only thread 0, who refills the slot, waits for both.
// One product stays in flight: slot i - 1 is handed back in step i.
// Against warp_specialized on the same tiles it shows what roles buy: here the warp that refills stands still while it waits,
// and its products with it.
//
// Macros: STAGES (2 to 8, as far as 227 KB reach), BK (32, 64 or 128: columns of k a stage; a row is at most 128 bytes, so 128
// are two boxes side by side, and 32 use the 64-byte swizzle), BLOCKS_PER_SM (what the registers are budgeted for).
// Launch: grid (ceil(n/128), ceil(m/128)), block 256, dynamic shared memory STAGES * 512 * BK + 16 * STAGES bytes.
// Tensor maps: box 128 rows x min(BK, 64) columns, swizzle as wide as a row, fill zero. k a multiple of 8.
// Measured in recordings/variants.json.
#include <cuda_bf16.h>
#include <hopperlab/bugs_by_lesson.cuh>
#include <hopperlab/epilogue.cuh>
#include <hopperlab/tma.cuh>
#include <hopperlab/wgmma_operands.cuh>

#ifndef STAGES
#define STAGES 4
#endif
#ifndef BK
#define BK 64
#endif
#ifndef BLOCKS_PER_SM
#define BLOCKS_PER_SM 1
#endif

constexpr int BM = 128, BN = 128, A_BYTES = BM * BK * 2, STAGE_BYTES = A_BYTES + BN * BK * 2;
constexpr int COLUMNS = BK < 64 ? BK : 64, ROW_BYTES = COLUMNS * 2, PANEL_BYTES = 128 * ROW_BYTES;   // a box: 128 rows

extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM)
gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, __nv_bfloat16* c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile), then the barriers
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(shared + STAGES * STAGE_BYTES);
    mbarrier_t* empty = full + STAGES;
    require_aligned(shared, 1024);
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, k_tiles = (k + BK - 1) / BK;
    int my_rows = threadIdx.x / 128 * 64;

    auto load = [&](int i) {                                    // thread 0 only: tile i into its slot
        unsigned char* stage = shared + i % STAGES * STAGE_BYTES;
        mbarrier_arrive_expect_tx(&full[i % STAGES], STAGE_BYTES);
        for (int panel = 0; panel < BK / COLUMNS; panel++) {
            int column = i * BK + panel * COLUMNS;
            cp_async_bulk_tensor_2d_load(stage + panel * PANEL_BYTES, &a, &full[i % STAGES], column, row0);
            cp_async_bulk_tensor_2d_load(stage + A_BYTES + panel * PANEL_BYTES, &b, &full[i % STAGES], column, col0);
        }
    };
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 2);                        // one arrival a warpgroup
        }
        for (int i = 0; i < STAGES && i < k_tiles; i++) load(i);
    }
    __syncthreads();                                            // nobody waits on a barrier before it is one

    float d[64];
    for (int i = 0; i < k_tiles; i++) {
        unsigned stage = shared_address(shared) + i % STAGES * STAGE_BYTES;
        mbarrier_wait_parity(&full[i % STAGES], i / STAGES % 2);
        wgmma_fence();
        #pragma unroll
        for (int step = 0; step < BK / 16; step++) {            // 16 elements are 32 bytes inside a swizzled row
            unsigned at = step * 16 / COLUMNS * PANEL_BYTES + step * 16 % COLUMNS * 2;
            wgmma_m64n128k16_bf16(d, wgmma_descriptor_k_major<ROW_BYTES>(stage + my_rows * ROW_BYTES + at),
                                  wgmma_descriptor_k_major<ROW_BYTES>(stage + A_BYTES + at), i > 0 || step > 0);
        }
        wgmma_commit_group();
        if (!BUG_WAIT_AFTER_LOOP) wgmma_wait_group<1>();        // product i - 1 has read its slot
        int last = BUG_EARLY_RELEASE ? i : i - 1;
        if (threadIdx.x % 128 == 0 && last >= 0) mbarrier_arrive(&empty[last % STAGES]);
        if (threadIdx.x == 0 && last >= 0 && last + STAGES < k_tiles) {
            mbarrier_wait_parity(&empty[last % STAGES], last / STAGES % 2);     // the other warpgroup's too
            load(last + STAGES);
        }
        __syncwarp();                                           // thread 0's warp comes along
    }
    wgmma_wait_group<0>();
    store_accumulator(c, d, row0 + my_rows, col0, m, n);
}
// SPDX-License-Identifier: Apache-2.0
