// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// New against two_consumers_128x256: two CTAs form a cluster and work on two tiles of C one above the other. Both need the
// same 256 rows of B: each loads half of them and multicasts it to both. Why: the L2 serves 32 KB a CTA and k-block
// instead of 48.
// What it costs: a slot now belongs to both CTAs. A producer may write to it when all four consumer warpgroups of the
// cluster have released it, so each consumer arrives on its own CTA's empty barrier and on the other's. full[s] counts
// 49152 bytes as before; the other CTA's half may land before this CTA's expect_tx, which the barrier allows. And no CTA
// leaves while the other may still write to it or arrive on its barriers: a cluster barrier ends the kernel.
//
// Macros: STAGES (2 to 4). Launch: grid (ceil(m/128) rounded up to even, ceil(n/256)), block 384, dynamic shared memory
// STAGES * 49152 + 64. Tensor maps: A box 128 rows x 64 columns, B box 128 x 64, swizzle 128B, fill zero.
// k a multiple of 8. Measured in recordings/ladder.json.
#include <cuda_bf16.h>
#include <hopperlab/epilogue.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/multicast.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/setmaxnreg.cuh>
#include <hopperlab/wgmma_tile.cuh>

#ifndef STAGES
#define STAGES 4
#endif

constexpr int BM = 128, BN = 256, BK = 64, CLUSTER = 2;
constexpr int A_BYTES = BM * BK * 2, B_BYTES = BN * BK * 2, STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int SHARE = BN / CLUSTER, SHARE_BYTES = B_BYTES / CLUSTER;    // the part of B that one CTA loads for all

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(384, 1)
gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, __nv_bfloat16* c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile), then the barriers
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(shared + STAGES * STAGE_BYTES);
    mbarrier_t* empty = full + STAGES;
    require_aligned(shared, 1024);
    int row0 = blockIdx.x * BM, col0 = blockIdx.y * BN, k_tiles = (k + BK - 1) / BK;
    int warpgroup = threadIdx.x / 128, rank = cluster_ctarank();

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            mbarrier_init(&full[s], 1);                         // this CTA's producer, and the bytes of both
            mbarrier_init(&empty[s], 2 * CLUSTER);              // the consumer warpgroups of all CTAs
        }
        fence_mbarrier_init_release_cluster();
    }
    barrier_cluster_arrive();                                   // nobody, in either CTA, touches a barrier before it is one
    barrier_cluster_wait();

    Ring<STAGES> ring;
    if (warpgroup == 0) {
        setmaxnreg_dec<24>();
        if (threadIdx.x == 0) {
            for (int i = 0; i < k_tiles; i++, ring.advance()) {
                unsigned char* stage = shared + ring.slot * STAGE_BYTES;
                mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
                mbarrier_arrive_expect_tx(&full[ring.slot], STAGE_BYTES);
                cp_async_bulk_tensor_2d_load(stage, &a, &full[ring.slot], i * BK, row0);
                cp_async_bulk_tensor_2d_load_multicast(stage + A_BYTES + rank * SHARE_BYTES, &b, &full[ring.slot],
                                                       (1 << CLUSTER) - 1, i * BK, col0 + rank * SHARE);
            }
        }
    } else {
        setmaxnreg_inc<240>();
        float d[BN / 2];
        int my_rows = (warpgroup - 1) * 64, thread = threadIdx.x % 128;
        for (int i = 0; i < k_tiles; i++, ring.advance()) {
            unsigned stage = shared_address(shared) + ring.slot * STAGE_BYTES;
            mbarrier_wait_parity(&full[ring.slot], ring.phase);
            wgmma_fence();
            wgmma_k_block(d, stage + my_rows * BK * 2, stage + A_BYTES, i > 0);
            wgmma_commit_group();
            wgmma_wait_group<0>();
            // This warpgroup has read the slot: thread r tells CTA r.
            if (thread < CLUSTER) mbarrier_arrive_remote_slot(mapa_shared_cluster(&empty[ring.slot], thread));
        }
        store_accumulator(c, d, row0 + my_rows, col0, m, n);
    }
    __syncwarp();                                               // the cluster barrier wants whole warps
    barrier_cluster_arrive();                                   // the other CTA may still arrive on my barriers
    barrier_cluster_wait();
}
// SPDX-License-Identifier: Apache-2.0
