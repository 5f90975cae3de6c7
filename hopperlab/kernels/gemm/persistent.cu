// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// New against cluster_multicast: as many CTAs as the GPU has SMs, and each works on one tile after another. Why:
// - the prologue overlaps: while the consumers store a tile, the producer already fills the ring with the next one's
//   k-blocks (the ring and its phases run on from tile to tile), and barriers and tensor maps are set up once;
// - the kernel chooses the order of the tiles, not the hardware: in groups of GROUP cluster tiles (256 x 256) down, then
//   one column on, so that what 132 CTAs read at a time is about as high as wide and stays in the L2.
// The producer needs a few registers more for the order of the tiles: 40, and 232 for the consumers.
//
// Macros: STAGES (2 to 4), GROUP. Launch: grid (2 * clusters), at most the SMs; block 384, dynamic shared memory
// STAGES * 49152 + 64. Tensor maps: A box 128 rows x 64 columns, B box 128 x 64, swizzle 128B, fill zero.
// k a multiple of 8. Measured in recordings/ladder.json.
#include <cuda_bf16.h>
#include <hopperlab/epilogue.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/multicast.cuh>
#include <hopperlab/raster.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/setmaxnreg.cuh>
#include <hopperlab/wgmma_tile.cuh>

#ifndef STAGES
#define STAGES 4
#endif
#ifndef GROUP
#define GROUP 8
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
    int k_tiles = (k + BK - 1) / BK;
    int rows = (m + CLUSTER * BM - 1) / (CLUSTER * BM), cols = (n + BN - 1) / BN;   // in cluster tiles
    int clusters = gridDim.x / CLUSTER, first = blockIdx.x / CLUSTER;
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

    Ring<STAGES> ring;                                          // runs on from tile to tile
    if (warpgroup == 0) {
        setmaxnreg_dec<40>();
        if (threadIdx.x == 0) {
            for (int index = first; index < rows * cols; index += clusters) {
                Tile tile = grouped_tile<GROUP>(index, rows, cols);
                int row0 = (tile.row * CLUSTER + rank) * BM, col0 = tile.col * BN + rank * SHARE;
                for (int i = 0; i < k_tiles; i++, ring.advance()) {
                    unsigned char* stage = shared + ring.slot * STAGE_BYTES;
                    mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
                    mbarrier_arrive_expect_tx(&full[ring.slot], STAGE_BYTES);
                    cp_async_bulk_tensor_2d_load(stage, &a, &full[ring.slot], i * BK, row0);
                    cp_async_bulk_tensor_2d_load_multicast(stage + A_BYTES + rank * SHARE_BYTES, &b, &full[ring.slot],
                                                           (1 << CLUSTER) - 1, i * BK, col0);
                }
            }
        }
    } else {
        setmaxnreg_inc<232>();
        float d[BN / 2];
        int my_rows = (warpgroup - 1) * 64, thread = threadIdx.x % 128;
        for (int index = first; index < rows * cols; index += clusters) {
            Tile tile = grouped_tile<GROUP>(index, rows, cols);
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
            store_accumulator(c, d, (tile.row * CLUSTER + rank) * BM + my_rows, tile.col * BN, m, n);
        }
    }
    __syncwarp();                                               // the cluster barrier wants whole warps
    barrier_cluster_arrive();                                   // the other CTA may still arrive on my barriers
    barrier_cluster_wait();
}
// SPDX-License-Identifier: Apache-2.0
