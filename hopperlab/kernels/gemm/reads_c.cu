// C[m,n] = alpha * A[m,k] * B[n,k]^T + beta * C[m,n], bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// New against overlapped_store: C is read before it is written. A second thread of the producer's warpgroup loads the tile's
// old C by TMA into the slots that the new one will leave by, while the consumers multiply: what the epilogue reads has been
// in shared memory for long. Why: an epilogue that loads C itself waits for memory, and nobody multiplies meanwhile.
// A slot goes round: C arrives (c_full), ldmatrix, sums added, stmatrix to the same place by the same warp, store, and when the
// store has read it (wait_group.read) the loader may fill it again (c_empty). Thread 0 tells so after the next tile's first
// k-block, when the engine has long read it: nobody waits, and the other k-blocks hide the load.
// beta 0 reads C as well (a NaN stays one); who wants BLAS's rule launches overlapped_store.
//
// Macros: STAGES (2 to 3), GROUP. Launch: grid (2 * clusters), at most the SMs; block 384, dynamic shared memory
// STAGES * 49152 + 65536 + 256. Tensor maps: A box 128 rows x 64 columns, B box 128 x 64, C box 64 x 64, swizzle 128B, fill
// zero. k, n multiples of 8. Measured by `hopperlab bench lessons --kernels schedules`.
#include <cuda_bf16.h>
#include <hopperlab/epilogue_adds.cuh>
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

constexpr int BM = 128, BN = 256, BK = 64, CLUSTER = 2;
constexpr int A_BYTES = BM * BK * 2, B_BYTES = BN * BK * 2, STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int SHARE = BN / CLUSTER, SHARE_BYTES = B_BYTES / CLUSTER;    // the part of B that one CTA loads for all
constexpr int C_SLOTS = BN / 64, SLOT_BYTES = 64 * 128;                 // a slot: 64 rows x 64 columns of C

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(384, 1)
gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap c,
     float alpha, float beta, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile), 2 x C_SLOTS slots, barriers
    unsigned char* slots = shared + STAGES * STAGE_BYTES;
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(slots + 2 * C_SLOTS * SLOT_BYTES);
    mbarrier_t* empty = full + STAGES;
    mbarrier_t* c_full = empty + STAGES;                        // a slot holds the old C: one a slot of each consumer
    mbarrier_t* c_empty = c_full + 2 * C_SLOTS;                 // the new C has been read out of it
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
        for (int s = 0; s < 2 * C_SLOTS; s++) {
            mbarrier_init(&c_full[s], 1);
            mbarrier_init(&c_empty[s], 1);
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
        if (threadIdx.x == 32) {                                // another warp: nobody holds up the ring
            unsigned phase = 0;
            for (int index = first; index < rows * cols; index += clusters, phase ^= 1) {
                Tile tile = grouped_tile<GROUP>(index, rows, cols);
                for (int s = 0; s < 2 * C_SLOTS; s++) {         // first the four of consumer 1, then the four of consumer 2
                    mbarrier_wait_parity(&c_empty[s], phase ^ 1);
                    mbarrier_arrive_expect_tx(&c_full[s], SLOT_BYTES);
                    cp_async_bulk_tensor_2d_load(slots + s * SLOT_BYTES, &c, &c_full[s], tile.col * BN + s % C_SLOTS * 64,
                                                 (tile.row * CLUSTER + rank) * BM + s / C_SLOTS * 64);
                }
            }
        }
        __syncwarp();                                           // the cluster barrier wants whole warps
    } else {
        setmaxnreg_inc<232>();
        float d[BN / 2];
        int my_rows = (warpgroup - 1) * 64, thread = threadIdx.x % 128;
        int mine = (warpgroup - 1) * C_SLOTS;                   // my first slot
        unsigned phase = 0;
        for (int index = first; index < rows * cols; index += clusters, phase ^= 1) {
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
                if (i == 0 && index != first && thread == 0) {  // the stores of the tile before have read their slots
                    cp_async_bulk_wait_group_read<0>();
                    for (int s = 0; s < C_SLOTS; s++) mbarrier_arrive(&c_empty[mine + s]);
                }
            }
            int row0 = (tile.row * CLUSTER + rank) * BM + my_rows, col0 = tile.col * BN;
            #pragma unroll
            for (int chunk = 0; chunk < C_SLOTS; chunk++) {
                unsigned char* slot = slots + (mine + chunk) * SLOT_BYTES;
                mbarrier_wait_parity(&c_full[mine + chunk], phase);             // the old C is there
                add_to_chunk(shared_address(slot), d, chunk, alpha, beta);
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
