// C[m,n] = sum over k-blocks of (A scale * B scale) * (A block * B block^T), e4m3 in, bf16 out, as fp8/promoted.cu computes it.
//
// The last steps of the fp8 ladder, each a macro so that each can be measured alone:
// - the scales of A ride in the TMA stage: they arrive with the tile they belong to, and no consumer waits for global memory;
// - CLUSTER_N CTAs side by side share the tile of A by multicast;
// - PARTS 2: two partial accumulators, so that a warpgroup promotes one k-block while its own next one is multiplied. With PARTS 1
//   a warpgroup's tensor core work stops while it promotes, and only the other warpgroup fills the gap;
// - ROWS 2: a tile twice as tall, of which a warpgroup multiplies its two blocks of 64 rows one after the other, with the same tile
//   of B: fewer bytes for each product;
// - UNROLL k-blocks one after the other in the code: for a deep k. A short one has to wait for so much code first;
// - CONSUMERS 3: a tile of 192 x 128, where tiles twice as tall would leave most SMs idle in their last wave;
// - STREAM_B, where m is one tile high, so that every byte of B is read once: its lines leave the L2 first;
// - GROUP 0 launches one CTA per tile, for small products;
// - SPLIT, for few tiles and a deep k: as many CTAs of a cluster multiply a share of k each, and add up through distributed shared memory
//   (split_exchange.cuh). One SM takes 0.2 us per k-block, and the others have nothing to do.
//
// What a warpgroup does between two products is time that its tensor cores spend on the other one's, or on nothing. So with PARTS 1 a stage's
// descriptors are those of the first stage moved on, one addition each; the scales are read behind the wgmmas, which would wait for them;
// and whether the next tile is there is asked before the promotion, which takes longer than the answer. Code that is unrolled is faster
// without the question (recordings/README.md).
//
// Macros: BN (64 or 128), CONSUMERS (1 to 3; 3 with PARTS 1), ROWS (blocks of 64 rows of the tile for each of them; 2 with PARTS 1), STAGES, CLUSTER_N,
// PARTS, UNROLL (PARTS 1), STREAM_B, GROUP (columns of cluster tiles), SPLIT (at most the k-blocks; more than 1 with CLUSTER_N 1 and GROUP 0),
// C_SLOTS. Launch: grid (CLUSTER_N * clusters), at most the SMs, or (CLUSTER_N * SPLIT * columns of cluster tiles, rows) with GROUP 0;
// block 128 * (CONSUMERS + 1); dynamic shared memory
// STAGES * ((BM + BN) * 128 + BM * 4) + CONSUMERS * C_SLOTS * 8192 + 128.
// Tensor maps: A box BM / CLUSTER_N x 128, B box BN x 128 (uint8, swizzle 128B, fill zero), C box 64 x 64 bf16 swizzle 128B, a_scales
// (k-blocks x m floats, rows a multiple of 16 bytes apart) box 1 x BM. b_scales: ceil(n / 128) x k-blocks floats.
// k a multiple of 16, n of 8. Measured in recordings/fp8.json.
#include <cuda_bf16.h>
#include <hopperlab/cache_hint.cuh>
#include <hopperlab/epilogue.cuh>
#include <hopperlab/fp8.cuh>
#include <hopperlab/multicast.cuh>
#include <hopperlab/raster.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/ring_barriers.cuh>
#include <hopperlab/setmaxnreg.cuh>
#include <hopperlab/split_exchange.cuh>

#ifndef BN
#define BN 128
#endif
#ifndef CONSUMERS
#define CONSUMERS 2
#endif
#ifndef ROWS
#define ROWS 1
#endif
#ifndef STAGES
#define STAGES 5
#endif
#ifndef CLUSTER_N
#define CLUSTER_N 2
#endif
#ifndef PARTS
#define PARTS 2
#endif
#ifndef UNROLL
#define UNROLL 1
#endif
#ifndef STREAM_B
#define STREAM_B 0
#endif
#ifndef GROUP
#define GROUP 8
#endif
#ifndef SPLIT
#define SPLIT 1
#endif
#ifndef C_SLOTS
#define C_SLOTS 1
#endif

constexpr int BM = 64 * ROWS * CONSUMERS, THREADS = 128 * (CONSUMERS + 1);
constexpr int A_BYTES = BM * FP8_BK, TILE_BYTES = (BM + BN) * FP8_BK, SCALE_BYTES = BM * 4, SLOT_BYTES = 8192;
constexpr int A_SHARE = BM / CLUSTER_N;                         // rows of A that one CTA loads for all of its cluster
constexpr int CTAS = CLUSTER_N * SPLIT;                         // of a cluster
constexpr int FINISHERS = SPLIT < BN / 64 ? SPLIT : BN / 64;    // of a tile's CTAs: each stores whole chunks of 64 columns
using Exchange = SplitExchange<SPLIT, FINISHERS, ROWS, BN / 2>;
enum { START = 4 };                                             // named barrier; 1 to 3 are the consumers' own
static_assert((BN == 64 || BN == 128) && (ROWS == 1 || ROWS == 2 && PARTS == 1) && (ROWS * BN / FINISHERS / 64) % C_SLOTS == 0);
static_assert((CONSUMERS <= 2 || CONSUMERS == 3 && PARTS == 1 && ROWS == 1) && 2 * STAGES * sizeof(mbarrier_t) <= 128);
static_assert(SPLIT == 1 || (CLUSTER_N == 1 && !GROUP && CONSUMERS * Exchange::BYTES <= STAGES * TILE_BYTES));

extern "C" __global__ void
#if CLUSTER_N * SPLIT > 1
__cluster_dims__(CTAS, 1, 1)
#endif
__launch_bounds__(THREADS, 1)
gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap c_map,
     const __grid_constant__ TensorMap a_scales, const float* __restrict__ b_scales, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile), slots of C, STAGES x scales, barriers
    unsigned char* slots = shared + STAGES * TILE_BYTES;
    unsigned char* scales = slots + CONSUMERS * C_SLOTS * SLOT_BYTES;
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(scales + STAGES * SCALE_BYTES);
    mbarrier_t* empty = full + STAGES;
    require_aligned(shared, 1024);
    int warpgroup = threadIdx.x / 128, rank = CTAS > 1 ? cluster_ctarank() : 0, across = rank % CLUSTER_N, share = rank / CLUSTER_N;
    int k_blocks = (k + FP8_BK - 1) / FP8_BK, first_k = share * k_blocks / SPLIT, k_tiles = (share + 1) * k_blocks / SPLIT - first_k; // of this share
#if GROUP
    int rows = (m + BM - 1) / BM, cols = (n + CLUSTER_N * BN - 1) / (CLUSTER_N * BN);
    int clusters = gridDim.x / CLUSTER_N, first = blockIdx.x / CLUSTER_N, tiles = rows * cols;
    auto tile_at = [&](int index) {                             // GROUP columns of cluster tiles, then the next row of them
        Tile turned = grouped_tile<GROUP>(index, cols, rows);
        return Tile{turned.col, turned.row};
    };
#else
    constexpr int clusters = 1, first = 0, tiles = 1;
    auto tile_at = [&](int) { return Tile{static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x) / CTAS}; };
#endif
    auto column_of = [&](Tile tile) { return (tile.col * CLUSTER_N + across) * BN; };
    if (threadIdx.x == 32) {                                    // another warp fetches the maps
        prefetch_tensormap(&a);
        prefetch_tensormap(&b);
        prefetch_tensormap(&a_scales);
        prefetch_tensormap(&c_map);
    }
    if (threadIdx.x == 0) {
        // This CTA's producer, and the bytes of all; a lane of each consumer warp of each CTA.
        ring_barriers_init<STAGES>(full, 1, empty, 4 * CONSUMERS * CLUSTER_N);
        if (CTAS > 1) fence_mbarrier_init_release_cluster();
    }
    __syncwarp();
    if (CTAS > 1) {
        barrier_cluster_arrive_relaxed();                       // nobody, in any CTA, touches a barrier before it is one
        barrier_cluster_wait();
    } else if (warpgroup == 0) {
        bar_arrive(START, THREADS);
    } else {
        bar_sync(START, THREADS);
    }

    Ring<STAGES> ring;
    if (warpgroup == 0) {
        setmaxnreg_dec<24>();
        if (threadIdx.x == 0) {
            unsigned long long once = createpolicy_evict_first();
            for (int index = first; index < tiles; index += clusters) {
                Tile tile = tile_at(index);
                int row0 = tile.row * BM, col0 = column_of(tile);
                for (int i = first_k; i < first_k + k_tiles; i++, ring.advance()) {
                    unsigned char* stage = shared + ring.slot * TILE_BYTES;
                    unsigned char* a_share = stage + across * A_SHARE * FP8_BK;
                    mbarrier_t* arrived = &full[ring.slot];
                    mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1), fence_proxy_async_shared_cta();      // scales were read by ordinary loads
                    mbarrier_arrive_expect_tx(arrived, TILE_BYTES + SCALE_BYTES);
                    if (CLUSTER_N == 1) cp_async_bulk_tensor_2d_load(a_share, &a, arrived, i * FP8_BK, row0);
                    else cp_async_bulk_tensor_2d_load_multicast(a_share, &a, arrived, (1 << CLUSTER_N) - 1, i * FP8_BK, row0 + across * A_SHARE);
                    cp_async_bulk_tensor_2d_load(scales + ring.slot * SCALE_BYTES, &a_scales, arrived, row0, i);
                    if (STREAM_B) cp_async_bulk_tensor_2d_load_hint(stage + A_BYTES, &b, arrived, i * FP8_BK, col0, once);
                    else cp_async_bulk_tensor_2d_load(stage + A_BYTES, &b, arrived, i * FP8_BK, col0);
                }
            }
            for (int s = 0; CLUSTER_N > 1 && s < STAGES; s++, ring.advance())       // all slots have come back: nobody writes here
                mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
        }
        if (SPLIT > 1) {                                        // the consumers' cluster barriers want everybody, whole warps
            __syncwarp();
            barrier_cluster_arrive();
            barrier_cluster_wait();
            barrier_cluster_arrive();
            barrier_cluster_wait();
        }
        return;
    }
    setmaxnreg_inc<CONSUMERS == 3 ? 160 : 240>();
    int me = __shfl_sync(0xffffffff, warpgroup - 1, 0), thread = threadIdx.x % 128, lane = thread % 32;
    int row = me * 64 * ROWS + thread / 32 * 16 + lane / 4;     // this thread's upper row in its first block; the lower one is 8 below
    unsigned theirs = CLUSTER_N > 1 ? mapa_shared_cluster(empty, lane % CLUSTER_N) : 0;
    auto release = [&](int slot) {                              // every warp read scales: one of its lanes tells each CTA
        __syncwarp();
        if (CLUSTER_N == 1 && lane == 0) mbarrier_arrive(&empty[slot]);
        if (CLUSTER_N > 1 && lane < CLUSTER_N) mbarrier_arrive_remote_slot(theirs + slot * 8);
    };
    auto read_scales = [&](float (&upper)[ROWS], float (&lower)[ROWS]) {            // of A: read behind the wgmmas, which would else wait for them
        __syncwarp();                                           // over which the compiler moves no load
        const float* a_scale = reinterpret_cast<const float*>(scales + ring.slot * SCALE_BYTES);
        #pragma unroll
        for (int x = 0; x < ROWS; x++) upper[x] = a_scale[row + 64 * x], lower[x] = a_scale[row + 64 * x + 8];
    };
    // A stage's descriptors are those of the first stage, moved on.
    unsigned long long first_a = wgmma_descriptor_k_major<128>(shared_address(shared) + me * 64 * ROWS * FP8_BK);
    unsigned long long first_b = wgmma_descriptor_k_major<128>(shared_address(shared) + A_BYTES);
    auto a_tile = [&] { return wgmma_descriptor_at(first_a, ring.slot * TILE_BYTES); };
    auto b_tile = [&] { return wgmma_descriptor_at(first_b, ring.slot * TILE_BYTES); };
    bool here = false;                                          // the next tile was seen to be there
    float sum[ROWS][BN / 2];
    for (int index = first; index < tiles; index += clusters) {
        Tile tile = tile_at(index);
        #pragma unroll
        for (int x = 0; x < ROWS; x++)
            #pragma unroll
            for (int i = 0; i < BN / 2; i++) sum[x][i] = 0;
        // The scales of B: one for all columns of a tile. Past the edge any will do.
        const float* of_b_at = b_scales + static_cast<size_t>(min(column_of(tile), n - 1) / 128) * k_blocks + first_k;
#if PARTS == 1
        float part[BN / 2];
        #pragma unroll UNROLL
        for (int i = 0; i < k_tiles; i++) {
            float of_b, upper[ROWS], lower[ROWS];
            unsigned long long a_now = a_tile(), b_now = b_tile();
            int slot = ring.slot;
            if (!here) mbarrier_wait_parity(&full[slot], ring.phase);
            #pragma unroll
            for (int x = 0; x < ROWS; x++) {
                wgmma_fence();
                wgmma_k_block_e4m3(part, wgmma_descriptor_at(a_now, x * 64 * FP8_BK), b_now, 0);
                wgmma_commit_group();
                if (x == 0) {
                    read_scales(upper, lower);
                    of_b = *of_b_at++;
                }
                wgmma_wait_group<0>();
                if (x == ROWS - 1) {                            // before the last promotion
                    release(slot);
                    ring.advance();
                    if (UNROLL == 1) here = mbarrier_test_wait_parity(&full[ring.slot], ring.phase);
                }
                promote(sum[x], 0, part, upper[x] * of_b, lower[x] * of_b);
            }
        }
#else
        float even[BN / 2], odd[BN / 2], upper[2], lower[2];
        // Starts the next k-block into `part` and reads its scales; the one before it is still being multiplied.
        auto start = [&](float (&part)[BN / 2], float& high, float& low) {
            float of_high[1], of_low[1];
            mbarrier_wait_parity(&full[ring.slot], ring.phase);
            wgmma_fence();
            wgmma_k_block_e4m3(part, a_tile(), b_tile(), 0);
            wgmma_commit_group();
            read_scales(of_high, of_low);
            float of_b = *of_b_at++;
            high = of_high[0] * of_b, low = of_low[0] * of_b;
        };
        // The k-block after this one into `part`; then the one before it, `done`, is promoted while `part` is multiplied.
        auto step = [&](float (&part)[BN / 2], float (&done)[BN / 2], int next) {
            int before = ring.slot;
            ring.advance();
            start(part, upper[next], lower[next]);
            wgmma_wait_group<1>();
            release(before);
            promote(sum[0], 0, done, upper[1 - next], lower[1 - next]);
        };
        auto finish = [&](float (&done)[BN / 2], int which) {
            wgmma_wait_group<0>();
            release(ring.slot);
            promote(sum[0], 0, done, upper[which], lower[which]);
        };
        start(even, upper[0], lower[0]);
        int i = 1;
        for (; i + 1 < k_tiles; i += 2) {
            step(odd, even, 1);
            step(even, odd, 0);
        }
        if (i < k_tiles) {
            step(odd, even, 1);
            finish(odd, 1);
        } else {
            finish(even, 0);
        }
        ring.advance();
#endif
        int row0 = tile.row * BM + me * 64 * ROWS;
        unsigned char* my_slots = slots + me * C_SLOTS * SLOT_BYTES;
        if constexpr (SPLIT == 1) {
            store_accumulators_tma<C_SLOTS>(&c_map, sum, my_slots, 1 + me, row0, column_of(tile), m, n);
        } else {
            float own[ROWS][Exchange::OWN];
            const unsigned char* my_mail = shared + me * Exchange::BYTES;
            barrier_cluster_arrive();                           // nobody in the cluster needs its ring any more
            barrier_cluster_wait();
            Exchange::send(sum, own, my_mail, share, rank, 1);
            barrier_cluster_arrive();                           // the mail has arrived; nobody writes to another CTA after this
            barrier_cluster_wait();
            if (share >= FINISHERS) break;
            Exchange::add(own, my_mail);
            store_accumulators_tma<C_SLOTS>(&c_map, own, my_slots, 1 + me, row0, column_of(tile) + share * (BN / FINISHERS), m, n);
        }
    }
    if (thread == 0) cp_async_bulk_wait_group_read<0>();        // shared memory outlives its readers
}
// SPDX-License-Identifier: Apache-2.0
