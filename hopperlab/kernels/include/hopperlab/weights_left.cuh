// What lesson 15x's two products share: y[m,n] = x[m,k] * w[n,k]^T with the weights on wgmma's side of 64 rows, D = w * x^T, so that they
// may come from registers or be sparse (only A may). Rows of x are columns of D: as few as 16.
//
//   BM      rows of x in a tile: 16, 32, 64, 128 or 256
//   ROWS    64-row blocks of w that a consumer warpgroup has: 1 or 2
//   BK      columns of k in a slot: 64 or 128
//   SPLIT   CTAs of a cluster that share a tile, a part of k each: 1, 2, 4 or 8
//   STAGES  slots of the ring
//   CTAS    CTAs of an SM: 1 or 2. With few rows of x a k-block is short and its steps wait for each other; a second CTA has work meanwhile
// With SPLIT 1 CTAs stay and walk over tiles; else a cluster has one tile, and its CTAs exchange their sums (split_exchange.cuh).
#pragma once
#include <cuda_bf16.h>
#include <hopperlab/raster.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/ring_barriers.cuh>
#include <hopperlab/setmaxnreg.cuh>
#include <hopperlab/split_exchange.cuh>
#include <hopperlab/tile_store.cuh>

#ifndef BM
#define BM 64
#endif
#ifndef ROWS
#define ROWS 1
#endif
#ifndef BK
#define BK 64
#endif
#ifndef SPLIT
#define SPLIT 1
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef CTAS
#define CTAS 1
#endif

#define QUOTED(x) #x
#define QUOTE(x) QUOTED(x)
#if BM == 16
#define SUMS 8                                                  // registers of D a thread and block: BM / 2
#elif BM == 32
#define SUMS 16
#elif BM == 64
#define SUMS 32
#elif BM == 128
#define SUMS 64
#else
#define SUMS 128
#endif

constexpr int BN = 128 * ROWS, ROW_BLOCKS = 2 * ROWS, HALVES = BK / 64;     // x's tile: HALVES x (BM rows of 128 bytes, swizzled)
constexpr int X_BYTES = BM * BK * 2;
constexpr int PRODUCER_REGISTERS = CTAS == 2 ? 32 : 40, CONSUMER_REGISTERS = CTAS == 2 ? 104 : 232;     // of a thread, after setmaxnreg
constexpr int FINISHERS = BM / SPLIT >= 16 ? SPLIT : BM / 16;                   // CTAs of a cluster that finish columns of D, at least 16 each
constexpr int OWN = SUMS / FINISHERS;                                           // sums that a thread finishes of a block of 64 rows
using Exchange = SplitExchange<SPLIT, FINISHERS, ROWS, SUMS>;
using Store = TileStore<(2 * OWN > 128 ? 128 : 2 * OWN), true, true, 2 * OWN>;  // at most 128 rows of y in a slot
constexpr int C_BYTES = 2 * Store::SLOT_BYTES;                                  // one slot of y for each consumer
static_assert(ROWS * SUMS <= 128 && HALVES >= 1 && SUMS * 2 == BM);
enum { START = 3 };                                                             // named barrier; 1 and 2 are the consumers' own

// x's tile of one k-block: `bytes` is what the slot's other copies bring.
__device__ __forceinline__ void load_x(unsigned char* slot, const TensorMap* x, mbarrier_t* full, unsigned bytes, int column, int row) {
    mbarrier_arrive_expect_tx(full, X_BYTES + bytes);
    for (int half = 0; half < HALVES; half++)
        cp_async_bulk_tensor_2d_load(slot + half * BM * 128, x, full, column + half * 64, row);
}

// The producer's warp takes part in the two cluster barriers of the exchange.
__device__ __forceinline__ void producer_ends() {
    if (SPLIT > 1) {
        __syncwarp();
        barrier_cluster_arrive();
        barrier_cluster_wait();
        barrier_cluster_arrive();
        barrier_cluster_wait();
    }
}

// A consumer's sums to y, its corner of D at row0 (a column of y), col0 (a row of y); mail: the ring's memory, which is idle where SPLIT > 1.
__device__ __forceinline__ void finish(const float (&d)[ROWS][SUMS], const TensorMap* y, unsigned char* mail, unsigned char* slot,
                                       int me, int rank, int row0, int col0, int m, int n) {
    if constexpr (SPLIT > 1) {
        float own[ROWS][OWN];
        barrier_cluster_arrive();                               // nobody in the cluster needs its ring any more
        barrier_cluster_wait();
        Exchange::send(d, own, mail + me * Exchange::BYTES, rank, rank, 1);
        barrier_cluster_arrive();                               // the mail has arrived; nobody writes to another CTA after this
        barrier_cluster_wait();
        if (rank >= FINISHERS) return;
        Exchange::add(own, mail + me * Exchange::BYTES);
        Store::template store<1>(y, nullptr, own, slot, 1 + me, row0, col0 + rank * 2 * OWN, m, n);
    } else {
        Store::template store<1>(y, nullptr, d, slot, 1 + me, row0, col0, m, n);
    }
}
// SPDX-License-Identifier: Apache-2.0
