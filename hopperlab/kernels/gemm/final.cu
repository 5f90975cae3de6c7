// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// The last step: everything that helped, with what depends on the shape left to macros (hopperlab.measure.launches.gemm_choice picks
// them). New here:
// - a tile of any width: with 3072 x 3072 to multiply, 288 tiles of 128x256 are 2.2 waves of 132 SMs, 384 of 128x192 are 2.9;
// - SWAPPED, for few rows of A: the weights B go to wgmma's side of 64 rows, and A's rows are its columns, as few as 16 of
//   them. tile_store.cuh turns the tile back on its way out;
// - SPLIT, for few tiles and a deep k: as many CTAs of a cluster multiply a part of k each (split_k.cu), each loading what it shares with
//   the CTAs of its own part;
// - STREAM, where the last wave of tiles would be a small one: the tiles of the last two waves are dealt out by k-blocks, evenly
//   (stream_k.cu), whole tiles after them. Here nobody adds in memory: of a tile's parts, all but the one that begins at k = 0 go to a
//   mailbox, and who has that one, which comes last in its stretch, adds them to its own;
// - a large product is limited by power, so what moves fewer bytes runs at a higher clock. IN_STEP: CTAs that drift apart
//   read the same rows at different times, and the L2 fetches them again from memory; at each tile the producers wait for
//   one another (for speed only: nobody waits for ever), and every other tile goes through k backwards, since the end of k
//   is still in the L2;
// - a small product is limited by its start and end. GROUP 0 launches one CTA per tile: nothing to loop over, no divisions.
//   One thread makes the barriers, at constant addresses, and goes on to the loads without waiting for the others.
// - CONSUMERS 1 with a 64x128 tile: one warpgroup reads B from shared memory once, where two of 64 x 64 read it twice;
// - IN_FLIGHT leaves that many k-blocks' wgmma running while the next is issued; the slot released is then an earlier one.
//   STAGGER lets the second consumer begin that many k-blocks later, so that one's epilogue runs under the other's wgmma;
// - DEPENDENT, for products one after the other: the next launch may begin as SMs become free, make its barriers and fetch its maps, and its
//   producer waits for the end of this one before it loads (launched with `dependent`; what consumers write comes after what they were sent);
// - at the end the producer waits until all its slots have come back. Then nobody will arrive on this CTA's barriers or
//   write into its shared memory any more, and it may leave: no cluster barrier holds up the end.
//
// Macros: BM, BN (a consumer's rows BM / CONSUMERS multiples of 64, BN of 16; at most 192 accumulators a thread), CONSUMERS (1 to 3),
// STAGES, CLUSTER_M x CLUSTER_N x SPLIT (CTAs one above the other share B, side by side share A), GROUP (rows of cluster tiles that
// the order walks down before it moves right), C_SLOTS (slots of C that a warpgroup keeps), WIDTH (columns of the tile in a slot: 64, 32 or 16;
// SWAPPED any multiple of 16 that divides a tile's), IN_FLIGHT, STAGGER (2 consumers), IN_STEP, STREAM, SWAPPED, DEPENDENT, B_MN (B is k x n, BN or SWAPPED BM a
// multiple of 64), TMA_STORE (0: each warp stores its rows, for n not a multiple of 8).
// Launch: grid (CTAS * clusters), at most the SMs; with GROUP 0 (CTAS * rows of cluster tiles, columns of them). Block
// 128 * (CONSUMERS + 1), dynamic shared memory STAGES * (BM + BN) * 128 + CONSUMERS * C_SLOTS * TileStore::SLOT_BYTES + 16 * STAGES.
// Tensor maps: left box BM / CLUSTER_N rows x 64 columns, right box BN / CLUSTER_M x 64, swizzle 128B, fill zero: of A and B, SWAPPED of B
// and A; of a B_MN B (k x n) 64 / CLUSTER_M (SWAPPED: CLUSTER_N) rows x 64 columns. C box 64 rows x WIDTH columns in the swizzle of its width,
// SWAPPED WIDTH rows x 64 columns (ignored without TMA_STORE). counts: zero
// before the first launch: an int for IN_STEP, with STREAM CONSUMERS a CTA; mail: with STREAM BM * BN floats a CTA, else nothing. rows, columns: of the left and of the right operand, so m and n, or SWAPPED n and m. k a multiple of 8.
// Measured in recordings/ladder.json.
#include <cuda_bf16.h>
#include <hopperlab/fence.cuh>
#include <hopperlab/griddepcontrol.cuh>
#include <hopperlab/mailbox.cuh>
#include <hopperlab/multicast.cuh>
#include <hopperlab/operand_tile.cuh>
#include <hopperlab/raster.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/ring_barriers.cuh>
#include <hopperlab/schedule.cuh>
#include <hopperlab/setmaxnreg.cuh>
#include <hopperlab/split_exchange.cuh>
#include <hopperlab/tile_store.cuh>
#include <hopperlab/wgmma_majors.cuh>

#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 256
#endif
#ifndef CONSUMERS
#define CONSUMERS 2
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef CLUSTER_M
#define CLUSTER_M 2
#endif
#ifndef CLUSTER_N
#define CLUSTER_N 1
#endif
#ifndef SPLIT
#define SPLIT 1
#endif
#ifndef GROUP
#define GROUP 8
#endif
#ifndef C_SLOTS
#define C_SLOTS 2
#endif
#ifndef WIDTH
#define WIDTH 64
#endif
#ifndef IN_FLIGHT
#define IN_FLIGHT 1
#endif
#ifndef STAGGER
#define STAGGER 1
#endif
#ifndef IN_STEP
#define IN_STEP 0
#endif
#ifndef STREAM
#define STREAM 0
#endif
#ifndef SWAPPED
#define SWAPPED 0
#endif
#ifndef B_MN
#define B_MN 0
#endif
#ifndef DEPENDENT
#define DEPENDENT 0
#endif
#ifndef TMA_STORE
#define TMA_STORE 1
#endif

// As many CTAs as can finish whole slots of columns each, of those that share a tile's k.
__device__ constexpr int finishers(int most) { return BN % (most * (SWAPPED ? 16 : WIDTH)) == 0 ? most : finishers(most - 1); }

constexpr int SHARE = CLUSTER_M * CLUSTER_N, CTAS = SHARE * SPLIT, THREADS = 128 * (CONSUMERS + 1);
using Left = OperandTile<BM, B_MN && SWAPPED, CLUSTER_N>;
using Right = OperandTile<BN, B_MN && !SWAPPED, CLUSTER_M>;
constexpr int BK = 64, STAGE_BYTES = Left::BYTES + Right::BYTES;
constexpr int WM = BM / CONSUMERS, BLOCKS = WM / 64;                    // a warpgroup's rows, and how many wgmma high
constexpr bool SHIFT = BLOCKS * BN > 128;                               // accumulators that need the producer's registers
constexpr int FINISHERS = finishers(SPLIT), COLUMNS = BN / FINISHERS;   // columns of the tile that a CTA finishes
using Exchange = SplitExchange<SPLIT, FINISHERS, BLOCKS, BN / 2>;
using Store = TileStore<WIDTH, SWAPPED, TMA_STORE, COLUMNS>;
enum { START = 4, SECOND = 5 };                                         // named barriers; 1 to 3 are the consumers' own
static_assert(WM % 64 == 0 && BN % 16 == 0 && BLOCKS * BN <= 384);
static_assert((!STREAM || (GROUP && !IN_STEP && SPLIT == 1)) && (SPLIT == 1 || (!GROUP && CONSUMERS * Exchange::BYTES <= STAGES * STAGE_BYTES)));
static_assert(CONSUMERS <= 3 && STAGES > IN_FLIGHT && (STAGGER == 0 || (CONSUMERS == 2 && STAGGER < STAGES)));

// Waits until every CTA has come to `round` (or a while; only speed is at stake). A producer counts each tile it begins; the
// last one of all sets the count back to zero, which also ends the waiting.
__device__ __forceinline__ void in_step(int* steps, int round, int clusters, int tiles) {
    int seen = atomicAdd(steps, 1), wanted = min(tiles, (round + 1) * clusters) * CTAS;
    if (seen == tiles * CTAS - 1) atomicExch(steps, 0);
    else if (round > 0)
        for (int now = seen, tries = 0; now >= seen && now < wanted && tries < 1000; tries++) {
            __nanosleep(20);
            now = *reinterpret_cast<volatile int*>(steps);
        }
}

extern "C" __global__ void
#if CLUSTER_M * CLUSTER_N * SPLIT > 1
__cluster_dims__(CTAS, 1, 1)
#endif
__launch_bounds__(THREADS, 1)
gemm(const __grid_constant__ TensorMap left, const __grid_constant__ TensorMap right, const __grid_constant__ TensorMap c_map,
     __nv_bfloat16* c, int* counts, float* mail, int rows, int columns, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (left tile, right tile), slots of C, barriers
    unsigned char* slots = shared + STAGES * STAGE_BYTES;
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(slots + CONSUMERS * C_SLOTS * Store::SLOT_BYTES);
    mbarrier_t* empty = full + STAGES;
    require_aligned(shared, 1024);
    int k_blocks = (k + BK - 1) / BK, k_share = (k_blocks + SPLIT - 1) / SPLIT;     // blocks past the end of k are filled with zeros
    int warpgroup = threadIdx.x / 128, rank = CTAS > 1 ? cluster_ctarank() : 0;
    int up = rank % CLUSTER_M, across = rank / CLUSTER_M % CLUSTER_N, part = rank / SHARE;      // this CTA's place in the cluster
#if GROUP
    int down = (rows + CLUSTER_M * BM - 1) / (CLUSTER_M * BM), right_of = (columns + CLUSTER_N * BN - 1) / (CLUSTER_N * BN);
    int clusters = gridDim.x / CTAS, first = blockIdx.x / CTAS, tiles = down * right_of;
    auto tile_at = [&](int index) { return grouped_tile<GROUP>(index, down, right_of); };
#else
    constexpr int clusters = 1, first = 0, tiles = 1;
    auto tile_at = [&](int) { return Tile{static_cast<int>(blockIdx.x) / CTAS, static_cast<int>(blockIdx.y)}; };
#endif

    Schedule<STREAM> schedule(k_share, clusters, first, tiles);
    Piece piece;

    if (threadIdx.x == 0) {
        // Full: this CTA's producer, and the bytes of all. Empty: the consumers of every CTA that this producer writes to, those in its
        // column and those in its row.
        ring_barriers_init<STAGES>(full, 1, empty, CONSUMERS * (CLUSTER_M + CLUSTER_N - 1));
        if (CTAS > 1) fence_mbarrier_init_release_cluster();
    }
    __syncwarp();
    if (CTAS > 1) {
        barrier_cluster_arrive_relaxed();                       // nobody, in any CTA, touches a barrier before it is one
        barrier_cluster_wait();
    } else if (warpgroup == 0) {
        bar_arrive(START, THREADS);                             // the producer's warp made the barriers and goes on
    } else {
        bar_sync(START, THREADS);
    }

    Ring<STAGES> ring;
    if (warpgroup == 0) {
        if (SHIFT) setmaxnreg_dec<CONSUMERS == 3 ? 32 : 40>();
        if (threadIdx.x == 0) {
            unsigned short column = ((1 << CLUSTER_M) - 1) << (part * SHARE + across * CLUSTER_M), row = 0;     // the CTAs that share B, A
            if (DEPENDENT) griddepcontrol_launch_dependents(), griddepcontrol_wait();
            for (int i = 0; i < CLUSTER_N; i++) row |= 1 << (part * SHARE + i * CLUSTER_M + up);
            for (int round = 0; schedule.next(piece); round++) {
                Tile tile = tile_at(piece.tile);
                int row0 = (tile.row * CLUSTER_M + up) * BM, col0 = (tile.col * CLUSTER_N + across) * BN;
                if (IN_STEP) in_step(counts, round, clusters, tiles);
                for (int i = 0; i < piece.count; i++, ring.advance()) {
                    int x = (IN_STEP && round % 2 ? k_share - 1 - i : part * k_share + piece.first + i) * BK;
                    unsigned char* stage = shared + ring.slot * STAGE_BYTES;
                    mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
                    mbarrier_arrive_expect_tx(&full[ring.slot], STAGE_BYTES);
                    Left::load(stage, &left, &full[ring.slot], row0, x, across, row);
                    Right::load(stage + Left::BYTES, &right, &full[ring.slot], col0, x, up, column);
                }
            }
            for (int s = 0; SHARE > 1 && s < STAGES; s++, ring.advance())                       // all slots have come back
                mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
        }
        if (SPLIT > 1) {                                        // the consumers' cluster barriers want everybody, whole warps
            __syncwarp();
            barrier_cluster_arrive();
            barrier_cluster_wait();
            barrier_cluster_arrive();
            barrier_cluster_wait();
        }
    } else {
        if (SHIFT) setmaxnreg_inc<CONSUMERS == 3 ? 160 : 232>();
        float d[BLOCKS][BN / 2];
        int me = __shfl_sync(0xffffffff, warpgroup - 1, 0), thread = threadIdx.x % 128;         // the same in all lanes: uniform
        unsigned char* my_slots = slots + me * C_SLOTS * Store::SLOT_BYTES;
        // Thread r hands a slot back to CTA r of this part, if that one writes to it.
        bool tells = thread < SHARE && (thread % CLUSTER_M == up || thread / CLUSTER_M == across);
        unsigned theirs = SHARE > 1 ? mapa_shared_cluster(empty, part * SHARE + thread % SHARE) : 0;
        auto release = [&](int slot) {                          // -IN_FLIGHT .. STAGES - 1
            if (slot < 0) slot += STAGES;
            if (SHARE == 1 && thread == 0) mbarrier_arrive(&empty[slot]);
            if (SHARE > 1 && tells) mbarrier_arrive_remote_slot(theirs + slot * 8);
        };
        bool late = STAGGER && me == 0;                         // whether the second consumer still waits for its start
        if (STAGGER && me == 1) bar_sync(SECOND, 256);
        while (schedule.next(piece)) {
            for (int i = 0; i < piece.count; i++, ring.advance()) {
                unsigned stage = shared_address(shared) + ring.slot * STAGE_BYTES;
                mbarrier_wait_parity(&full[ring.slot], ring.phase);
                wgmma_fence();
                #pragma unroll
                for (int block = 0; block < BLOCKS; block++)
                    wgmma_k_block_majors<B_MN && SWAPPED, B_MN && !SWAPPED>(d[block], stage + (me * WM + block * 64) * BK * 2, stage + Left::BYTES, i > 0);
                wgmma_commit_group();
                if (late && i == min(STAGGER, piece.count) - 1) bar_arrive(SECOND, 256), late = false;
                wgmma_wait_group<IN_FLIGHT>();                  // the k-block IN_FLIGHT before this one has been read
                if (i >= IN_FLIGHT) release(ring.slot - IN_FLIGHT);
            }
            if (IN_FLIGHT) wgmma_wait_group<0>();
            #pragma unroll
            for (int last = IN_FLIGHT; last > 0; last--)
                if (piece.count >= last) release(ring.slot - last);
            auto box = [&](int cluster) { return (cluster * CTAS + rank) * CONSUMERS + me; };
            if (STREAM && piece.first > 0) {                    // whoever has this tile's beginning adds these to its own
                mail_send(mail + (size_t)box(first) * WM * BN, &counts[box(first)], d, 1 + me);
                continue;
            }
            for (int done = piece.count, other = first + 1; STREAM && done < k_share; other++) {
                mail_add(mail + (size_t)box(other) * WM * BN, &counts[box(other)], d, 1 + me);
                done = schedule.begin_of(other + 1) - piece.tile * k_share;
            }
            Tile tile = tile_at(piece.tile);
            int row0 = (tile.row * CLUSTER_M + up) * BM + me * WM, col0 = (tile.col * CLUSTER_N + across) * BN;
            int high = SWAPPED ? columns : rows, wide = SWAPPED ? rows : columns;               // of C
            if constexpr (SPLIT == 1) {
                Store::template store<C_SLOTS>(&c_map, c, d, my_slots, 1 + me, row0, col0, high, wide);
            } else {
                float own[BLOCKS][Exchange::OWN];
                const unsigned char* my_mail = shared + me * Exchange::BYTES;
                barrier_cluster_arrive();                       // nobody in the cluster needs its ring any more
                barrier_cluster_wait();
                Exchange::send(d, own, my_mail, part, rank, SHARE);
                barrier_cluster_arrive();                       // the mail has arrived; nobody writes to another CTA after this
                barrier_cluster_wait();
                if (part >= FINISHERS) break;
                Exchange::add(own, my_mail);
                Store::template store<C_SLOTS>(&c_map, c, own, my_slots, 1 + me, row0, col0 + part * COLUMNS, high, wide);
            }
        }
        if (TMA_STORE && thread == 0) cp_async_bulk_wait_group_read<0>();                       // shared memory outlives its readers
    }
}
// SPDX-License-Identifier: Apache-2.0
