// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// New against persistent: C goes out through shared memory and TMA. stmatrix puts the tile, rounded to bf16, into shared
// memory (swizzled, no bank conflicts); one thread hands it to TMA and the warpgroup goes on with the next tile at once.
// The copy engine writes C under the next tile's k-blocks. Why: plain stores cost a warpgroup 64 instructions of 4 bytes
// a thread, half a sector each, before its next wgmma; now it is 16 stmatrix, and whole lines go to memory.
// What it costs: 64 KB of shared memory, so three stages instead of four; and m x n must be something TMA can store
// (n a multiple of 8).
// Order: stmatrix (generic proxy), fence.proxy.async by every thread that wrote, named barrier of the warpgroup, store by
// thread 0. A slot is written again only after thread 0 saw, by wait_group.read, that its store has read it, and a barrier.
//
// Macros: STAGES (2 to 4), GROUP, C_SLOTS (64x64 tiles of C a warpgroup keeps: 1 to 4).
// Launch: grid (2 * clusters), at most the SMs; block 384, dynamic shared memory STAGES * 49152 + C_SLOTS * 16384 + 64.
// Tensor maps: A box 128 rows x 64 columns, B box 128 x 64, C box 64 x 64, swizzle 128B, fill zero. k, n multiples of 8.
// Measured in recordings/ladder.json.
#include <cuda_bf16.h>
#include <hopperlab/epilogue.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/multicast.cuh>
#include <hopperlab/raster.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/setmaxnreg.cuh>
#include <hopperlab/wgmma_tile.cuh>

#ifndef STAGES
#define STAGES 3
#endif
#ifndef GROUP
#define GROUP 8
#endif
#ifndef C_SLOTS
#define C_SLOTS 4
#endif

constexpr int BM = 128, BN = 256, BK = 64, CLUSTER = 2;
constexpr int A_BYTES = BM * BK * 2, B_BYTES = BN * BK * 2, STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int SHARE = BN / CLUSTER, SHARE_BYTES = B_BYTES / CLUSTER;    // the part of B that one CTA loads for all
constexpr int SLOT_BYTES = 64 * 128;                                    // 64 rows x 64 columns of C

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(384, 1)
gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap c,
     int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile), 2 x C_SLOTS slots, barriers
    unsigned char* slots = shared + STAGES * STAGE_BYTES;
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(slots + 2 * C_SLOTS * SLOT_BYTES);
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

    Ring<STAGES> ring;
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
        __syncwarp();                                           // the cluster barrier wants whole warps
    } else {
        setmaxnreg_inc<232>();
        float d[BN / 2];
        int my_rows = (warpgroup - 1) * 64, thread = threadIdx.x % 128;
        unsigned char* my_slots = slots + (warpgroup - 1) * C_SLOTS * SLOT_BYTES;
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
            int row0 = (tile.row * CLUSTER + rank) * BM + my_rows, col0 = tile.col * BN;
            #pragma unroll
            for (int chunk = 0; chunk < BN / 64; chunk++) {
                unsigned char* slot = my_slots + chunk % C_SLOTS * SLOT_BYTES;
                if (thread == 0) cp_async_bulk_wait_group_read<C_SLOTS - 1>();  // the slot's store before has read it,
                bar_sync(warpgroup, 128);                                       // and all four warps know
                stage_chunk(shared_address(slot), d, chunk);
                fence_proxy_async_shared_cta();
                bar_sync(warpgroup, 128);                                       // the slot is complete
                if (thread == 0) {
                    if (row0 < m && col0 + chunk * 64 < n)
                        cp_async_bulk_tensor_2d_store(&c, slot, col0 + chunk * 64, row0);
                    cp_async_bulk_commit_group();                               // one group a chunk, even an empty one
                }
            }
        }
        if (thread == 0) cp_async_bulk_wait_group_read<0>();    // shared memory outlives the reads of it
        __syncwarp();
    }
    barrier_cluster_arrive();                                   // the other CTA may still arrive on my barriers
    barrier_cluster_wait();
}
// SPDX-License-Identifier: Apache-2.0
