// The product of gemm/final.cu in its most used configuration, as parts: a persistent kernel of clusters of CLUSTER_M CTAs, one
// above the other, that share the tiles of B; a producer thread, and two consumer warpgroups of which the second begins a
// k-block later. C[m,n] = A[m,k] * B[n,k]^T, bf16, both K-major. What else a kernel of several devices does, it does around these.
//
// Macros: BM, BN, STAGES, CLUSTER_M, GROUP, C_SLOTS. m a multiple of BM * CLUSTER_M, n of 64, k of 8.
#pragma once
#include <cuda_bf16.h>
#include <hopperlab/fence.cuh>
#include <hopperlab/multicast.cuh>
#include <hopperlab/raster.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/ring_barriers.cuh>
#include <hopperlab/setmaxnreg.cuh>
#include <hopperlab/tile_store.cuh>
#include <hopperlab/tma_reduce.cuh>
#include <hopperlab/wgmma_tile.cuh>

#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 256
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef CLUSTER_M
#define CLUSTER_M 2
#endif
#ifndef GROUP
#define GROUP 8
#endif
#ifndef C_SLOTS
#define C_SLOTS 1
#endif

constexpr int CONSUMERS = 2, THREADS = 384, BK = 64, WM = BM / CONSUMERS, BLOCKS = WM / 64, WIDTH = 64;
constexpr int A_BYTES = BM * BK * 2, B_BYTES = BN * BK * 2, STAGE_BYTES = A_BYTES + B_BYTES, B_SHARE = BN / CLUSTER_M;
constexpr bool SHIFT = BLOCKS * BN > 128;                       // accumulators that need the producer's registers
using Store = TileStore<WIDTH, false, true, BN>;
constexpr int RING_BYTES = STAGES * STAGE_BYTES, C_BYTES = CONSUMERS * C_SLOTS * Store::SLOT_BYTES;
enum { START = 4, SECOND = 5 };                                 // named barriers; 1 and 2 are the consumers' own
static_assert(WM % 64 == 0 && BLOCKS * BN <= 256 && B_SHARE % 8 == 0 && BLOCKS * Store::PER_BLOCK % C_SLOTS == 0);

#if CLUSTER_M > 1
#define IN_CLUSTERS __cluster_dims__(CLUSTER_M, 1, 1)
#else
#define IN_CLUSTERS
#endif

// Tile number `index` of rows x cols cluster tiles, in groups of GROUP rows, row `start` first.
__device__ __forceinline__ Tile rotated_tile(int index, int rows, int cols, int start) {
    Tile tile = grouped_tile<GROUP>(index, rows, cols);
    return {(tile.row + start) % rows, tile.col};
}

// The same with the rows of `shards` equal parts taken in turns, that of row `start` first, so that tiles of all parts are under way at any time.
__device__ __forceinline__ Tile alternating_tile(int index, int rows, int cols, int start, int shards) {
    Tile tile = grouped_tile<GROUP>(index, rows, cols);
    return {(tile.row % shards * (rows / shards) + tile.row / shards + start) % rows, tile.col};
}

// A CTA's ring and barriers. Shared memory: STAGES x (tile of A, tile of B), slots of C, then the barriers.
struct WideProduct {
    unsigned char* shared;
    mbarrier_t *full, *empty;
    int up;                                                     // this CTA's place in its cluster

    // By all threads: makes the barriers. Nobody, in any CTA, touches a barrier before it is one.
    __device__ __forceinline__ void begin(unsigned char* memory) {
        shared = memory, full = reinterpret_cast<mbarrier_t*>(memory + RING_BYTES + C_BYTES), empty = full + STAGES, up = CLUSTER_M > 1 ? cluster_ctarank() : 0;
        if (threadIdx.x == 0) {
            ring_barriers_init<STAGES>(full, 1, empty, CONSUMERS * CLUSTER_M);
            if (CLUSTER_M > 1) fence_mbarrier_init_release_cluster();
        }
        __syncwarp();
        if (CLUSTER_M > 1) {
            barrier_cluster_arrive_relaxed();
            barrier_cluster_wait();
        } else if (threadIdx.x < 128) {
            bar_arrive(START, THREADS);
        } else {
            bar_sync(START, THREADS);
        }
    }

    // The producer: all k-blocks of the tile whose first row of A is row0, and whose first row of B, for the cluster, is col0.
    __device__ __forceinline__ void load(Ring<STAGES>& ring, const TensorMap& left, const TensorMap& right, int row0, int col0, int k_blocks) {
        for (int i = 0; i < k_blocks; i++, ring.advance()) {
            unsigned char* stage = shared + ring.slot * STAGE_BYTES;
            mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
            mbarrier_arrive_expect_tx(&full[ring.slot], STAGE_BYTES);
            cp_async_bulk_tensor_2d_load(stage, &left, &full[ring.slot], i * BK, row0);
            unsigned char* b = stage + A_BYTES + up * B_SHARE * BK * 2;
            if (CLUSTER_M == 1) cp_async_bulk_tensor_2d_load(b, &right, &full[ring.slot], i * BK, col0);
            else cp_async_bulk_tensor_2d_load_multicast(b, &right, &full[ring.slot], (1 << CLUSTER_M) - 1, i * BK, col0 + up * B_SHARE);
        }
    }

    // The producer, at its end: all slots have come back, nobody will write into this CTA's shared memory any more.
    __device__ __forceinline__ void drain(Ring<STAGES>& ring) {
        for (int s = 0; CLUSTER_M > 1 && s < STAGES; s++, ring.advance()) mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
    }

    // Consumer `me`: the products of a tile's k-blocks. late: the first consumer still has to let the second begin.
    __device__ __forceinline__ void multiply(Ring<STAGES>& ring, float (&d)[BLOCKS][BN / 2], int me, bool& late, int k_blocks) {
        int thread = threadIdx.x % 128, before = 0;
        unsigned theirs = CLUSTER_M > 1 ? mapa_shared_cluster(empty, thread % CLUSTER_M) : 0;
        auto release = [&](int slot) {                          // thread r hands it back to CTA r
            if (CLUSTER_M == 1 && thread == 0) mbarrier_arrive(&empty[slot]);
            if (CLUSTER_M > 1 && thread < CLUSTER_M) mbarrier_arrive_remote_slot(theirs + slot * 8);
        };
        for (int i = 0; i < k_blocks; i++, ring.advance()) {
            unsigned stage = shared_address(shared) + ring.slot * STAGE_BYTES;
            mbarrier_wait_parity(&full[ring.slot], ring.phase);
            wgmma_fence();
            #pragma unroll
            for (int block = 0; block < BLOCKS; block++)
                wgmma_k_block(d[block], stage + (me * WM + block * 64) * BK * 2, stage + A_BYTES, i > 0);
            wgmma_commit_group();
            if (late) bar_arrive(SECOND, 256), late = false;
            wgmma_wait_group<1>();                              // the k-block before this one has been read
            if (i > 0) release(before);
            before = ring.slot;
        }
        wgmma_wait_group<0>();
        release(before);
    }
};

// The sums of a warpgroup added to C by TMA, as TileStore::store stores them. map: of C, or of a part of it on another device.
__device__ __forceinline__ void add_tile(const TensorMap* map, const float (&d)[BLOCKS][BN / 2], unsigned char* slots, int barrier,
                                         int row0, int col0, int n) {
    int thread = threadIdx.x % 128;
    #pragma unroll
    for (int first = 0; first < BLOCKS * Store::PER_BLOCK; first += C_SLOTS) {
        if (thread == 0) cp_async_bulk_wait_group_read<0>();
        bar_sync(barrier, 128);                                 // the slots are free
        #pragma unroll
        for (int i = first; i < first + C_SLOTS; i++)
            Store::stage(shared_address(slots + (i - first) * Store::SLOT_BYTES), d[i / Store::PER_BLOCK], i % Store::PER_BLOCK);
        fence_proxy_async_shared_cta();
        bar_sync(barrier, 128);                                 // the slots are complete
        #pragma unroll
        for (int i = first; i < first + C_SLOTS; i++) {
            int row = row0 + i / Store::PER_BLOCK * 64, col = col0 + i % Store::PER_BLOCK * WIDTH;
            if (thread == 0 && col < n) cp_reduce_async_bulk_tensor_2d_add(map, slots + (i - first) * Store::SLOT_BYTES, col, row);
        }
        if (thread == 0) cp_async_bulk_commit_group();
    }
}
// SPDX-License-Identifier: Apache-2.0
