// Lesson 12's kernel: the data movement of a product on a cluster of ROWS x COLS CTAs, without the product. CTAs of one row of
// the cluster need the same tile of A, those of one column the same tile of B. Each CTA loads a part of both and multicasts it
// to everyone who needs it: 1/COLS of A's tile to its row, 1/ROWS of B's tile to its column. Then it adds up what arrived, so
// that a missing or a wrong part shows: out[cta] = {sum over A's tiles, sum over B's tiles}, exact integers.
//
//   full[s]    1 arrival by this CTA's producer, and the bytes of all parts, whoever loads them
//   empty[s]   1 arrival by the consumers of every CTA of my row and my column: to all of them I send
//
// masks_a[rank], masks_b[rank]: the CTAs that get this CTA's part (bit r: rank r). Macros: ROWS, COLS (1, 2 or 4), STAGES,
// BUG_LEAVES_EARLY, BUG_COUNTS_ONE_CTA, BUG_NO_FIRST_BARRIER.
// Launch: grid (COLS * columns, ROWS * rows) with clusters of (COLS, ROWS), block 160, dynamic shared memory STAGES * 16384 +
// 16 * STAGES. Tensor maps of 16-bit elements: A box 64 / COLS rows x 64 columns, B box 64 / ROWS x 64, no swizzle.
#include <hopperlab/bugs_by_lesson.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/multicast.cuh>
#include <hopperlab/ring.cuh>

#ifndef ROWS
#define ROWS 2
#endif
#ifndef COLS
#define COLS 2
#endif
#ifndef STAGES
#define STAGES 2
#endif

constexpr int TILE_BYTES = 64 * 128, CTAS = ROWS * COLS, SHARERS = BUG_COUNTS_ONE_CTA ? 1 : ROWS + COLS - 1;
struct Masks { unsigned short of[16]; };

__device__ __forceinline__ void bar_sync_consumers() { asm volatile("bar.sync 1, 128;" ::: "memory"); }

extern "C" __global__ void __cluster_dims__(COLS, ROWS, 1) __launch_bounds__(160)
shared_tiles(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, unsigned* out,
             const __grid_constant__ Masks masks_a, const __grid_constant__ Masks masks_b, int k_tiles) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile), then the barriers
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(shared + STAGES * 2 * TILE_BYTES);
    mbarrier_t* empty = full + STAGES;
    int rank = cluster_ctarank(), row = rank / COLS, col = rank % COLS;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], SHARERS);
        }
        fence_mbarrier_init_release_cluster();
    }
    if (!BUG_NO_FIRST_BARRIER) {
        barrier_cluster_arrive();                               // nobody sends to a barrier before it is one
        barrier_cluster_wait();
    } else {
        __syncthreads();
    }

    Ring<STAGES> ring;
    if (threadIdx.x == 128) {                                   // the producer
        for (int i = 0; i < k_tiles; i++, ring.advance()) {
            unsigned char* stage = shared + ring.slot * 2 * TILE_BYTES;
            mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
            mbarrier_arrive_expect_tx(&full[ring.slot], 2 * TILE_BYTES);
            cp_async_bulk_tensor_2d_load_multicast(stage + col * (TILE_BYTES / COLS), &a, &full[ring.slot], masks_a.of[rank],
                                                   i * 64, blockIdx.y * 64 + col * (64 / COLS));
            cp_async_bulk_tensor_2d_load_multicast(stage + TILE_BYTES + row * (TILE_BYTES / ROWS), &b, &full[ring.slot],
                                                   masks_b.of[rank], i * 64, blockIdx.x * 64 + row * (64 / ROWS));
        }
    } else if (threadIdx.x < 128) {                             // the consumers add up
        unsigned sum_a = 0, sum_b = 0;
        for (int i = 0; i < k_tiles; i++, ring.advance()) {
            const unsigned short* stage = reinterpret_cast<const unsigned short*>(shared + ring.slot * 2 * TILE_BYTES);
            mbarrier_wait_parity(&full[ring.slot], ring.phase);
            for (int e = threadIdx.x; e < TILE_BYTES / 2; e += 128) sum_a += stage[e], sum_b += stage[TILE_BYTES / 2 + e];
            fence_proxy_async_shared_cta(), bar_sync_consumers();       // all 128 have read the slot, before anyone's engine writes it again
            if (threadIdx.x < CTAS && (threadIdx.x / COLS == row || threadIdx.x % COLS == col)
                && (!BUG_COUNTS_ONE_CTA || threadIdx.x == rank))
                mbarrier_arrive_remote_slot(mapa_shared_cluster(&empty[ring.slot], threadIdx.x));
        }
        unsigned* mine = out + 2 * (blockIdx.y * gridDim.x + blockIdx.x);
        atomicAdd(mine, sum_a);
        atomicAdd(mine + 1, sum_b);
    }
    if (BUG_LEAVES_EARLY && rank == CTAS - 1) return;
    __syncwarp();
    barrier_cluster_arrive();                                   // the others still arrive on my barriers, and my parts are on
    barrier_cluster_wait();                                     // their way to them
}
// SPDX-License-Identifier: Apache-2.0
