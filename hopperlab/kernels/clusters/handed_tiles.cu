// Three ways to bring a tile that two CTAs need to both of them, in a cluster of two. As in shared_tiles.cu nothing is multiplied: sums show what arrived,
// out[cta] = {sum over A's words, sum over B's words}, modulo 2^32. A's tile is a CTA's own; B's is the same for both.
//
//   HOW 0, alone       each CTA loads all of B's tile
//   HOW 1, multicast   each loads half, and the engine delivers it to both (shared_tiles.cu)
//   HOW 2, handed      each loads half into its own slot; its exchange warp waits for it and sends it to the neighbour by a bulk copy through DSMEM
//
//   full[s]     1 arrival by this CTA's producer, and the bytes of A's tile and of what comes of B's, whoever sends it. HOW 2: without the own half
//   landed[s]   HOW 2: 1 arrival by the producer, and the bytes of the own half: the exchange warp and the consumers wait for it
//   empty[s]    1 arrival by the consumers of every CTA that gets what is loaded into this slot. HOW 2: the neighbour's consumers have read what was sent
//               from here, so the send has read its source, and the neighbour's slot is free for the next: the exchange warp waits for nothing else
//
// Macros: HOW, STAGES, BUG_COUNTS_ONE_CTA, BUG_SENDS_EARLY, BUG_LEAVES_EARLY. Launch: grid (columns, 2 * rows) with clusters of (1, 2), block 192, dynamic
// shared memory STAGES * (16384 + 24). Tensor maps of 16-bit elements, no swizzle: A box 64 x 64; B box 64 x 64 (HOW 0) or 32 x 64.
#include <hopperlab/bugs_by_lesson.cuh>
#include <hopperlab/dsmem.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/multicast.cuh>
#include <hopperlab/ring.cuh>

#ifndef HOW
#define HOW 2
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef BUG_SENDS_EARLY                 // the exchange warp does not wait for what it sends: read-before-arrival
#define BUG_SENDS_EARLY 0
#endif

constexpr int TILE_BYTES = 64 * 128, HALF = TILE_BYTES / 2, SLOT_BYTES = 2 * TILE_BYTES;
constexpr int RECEIVERS = BUG_COUNTS_ONE_CTA ? 1 : HOW ? 2 : 1;

__device__ __forceinline__ void bar_sync_consumers() { asm volatile("bar.sync 1, 128;" ::: "memory"); }

__device__ __forceinline__ unsigned sum_of(const unsigned char* tile, unsigned sum) {
    for (int i = threadIdx.x; i < TILE_BYTES / 16; i += 128) {
        uint4 v = reinterpret_cast<const uint4*>(tile)[i];
        sum += v.x + v.y + v.z + v.w;
    }
    return sum;
}

extern "C" __global__ void __cluster_dims__(1, 2, 1) __launch_bounds__(192)
handed_tiles(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, unsigned* out, int k_tiles) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile), then the barriers
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(shared + STAGES * SLOT_BYTES);
    mbarrier_t *empty = full + STAGES, *landed = empty + STAGES;
    int rank = cluster_ctarank(), warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) mbarrier_init(&full[s], 1), mbarrier_init(&empty[s], RECEIVERS), mbarrier_init(&landed[s], 1);
        fence_mbarrier_init_release_cluster();
    }
    barrier_cluster_arrive();                                   // nobody sends to a barrier before it is one
    barrier_cluster_wait();

    Ring<STAGES> ring;
    if (threadIdx.x == 128) {                                   // the producer
        for (int i = 0; i < k_tiles; i++, ring.advance()) {
            unsigned char *slot = shared + ring.slot * SLOT_BYTES, *half = slot + TILE_BYTES + rank * HALF;
            int column = i * 64, row = blockIdx.x * 64;
            mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
            mbarrier_arrive_expect_tx(&full[ring.slot], HOW == 2 ? SLOT_BYTES - HALF : SLOT_BYTES);
            if (HOW == 2) mbarrier_arrive_expect_tx(&landed[ring.slot], HALF);
            cp_async_bulk_tensor_2d_load(slot, &a, &full[ring.slot], column, blockIdx.y * 64);
            if (HOW == 0) cp_async_bulk_tensor_2d_load(slot + TILE_BYTES, &b, &full[ring.slot], column, row);
            if (HOW == 1) cp_async_bulk_tensor_2d_load_multicast(half, &b, &full[ring.slot], 3, column, row + rank * 32);
            if (HOW == 2) cp_async_bulk_tensor_2d_load(half, &b, &landed[ring.slot], column, row + rank * 32);
        }
    } else if (HOW == 2 && threadIdx.x == 160) {                // the exchange warp
        for (int i = 0; i < k_tiles; i++, ring.advance()) {
            const unsigned char* half = shared + ring.slot * SLOT_BYTES + TILE_BYTES + rank * HALF;
            if (!BUG_SENDS_EARLY) mbarrier_wait_parity(&landed[ring.slot], ring.phase);
            cp_async_bulk_to_cta(mapa_shared_cluster(half, rank ^ 1), half, HALF, mapa_shared_cluster(&full[ring.slot], rank ^ 1));
        }
    } else if (warp < 4) {                                      // the consumers add up
        unsigned sum_a = 0, sum_b = 0;
        for (int i = 0; i < k_tiles; i++, ring.advance()) {
            const unsigned char* slot = shared + ring.slot * SLOT_BYTES;
            mbarrier_wait_parity(&full[ring.slot], ring.phase);
            if (HOW == 2) mbarrier_wait_parity(&landed[ring.slot], ring.phase);
            sum_a = sum_of(slot, sum_a), sum_b = sum_of(slot + TILE_BYTES, sum_b);
            fence_proxy_async_shared_cta(), bar_sync_consumers();       // all 128 have read the slot, before anyone's engine writes it again
            if (threadIdx.x < 2 && (RECEIVERS == 2 || threadIdx.x == rank))
                mbarrier_arrive_remote_slot(mapa_shared_cluster(&empty[ring.slot], threadIdx.x));
        }
        unsigned* mine = out + 2 * (blockIdx.y * gridDim.x + blockIdx.x);
        atomicAdd(mine, sum_a);
        atomicAdd(mine + 1, sum_b);
    }
    if (BUG_LEAVES_EARLY && rank == 1) return;
    __syncwarp();
    barrier_cluster_arrive();                                   // the neighbour still arrives on my barriers, and may be sending to me
    barrier_cluster_wait();
}
// SPDX-License-Identifier: Apache-2.0
