// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// The last step: everything that helped, with what depends on the shape left to macros (hopperlab.measure.launches.gemm_choice picks
// them). New here:
// - a large product is limited by power, so what moves fewer bytes runs at a higher clock. IN_STEP: CTAs that drift apart
//   read the same rows at different times, and the L2 fetches them again from memory; at each tile the producers wait for
//   one another (for speed only: nobody waits for ever), and every other tile goes through k backwards, since the end of k
//   is still in the L2;
// - a small product is limited by its start and end. GROUP 0 launches one CTA a tile: nothing to loop over, no divisions.
//   One thread makes the barriers, at constant addresses, and goes on to the loads without waiting for the others.
// - CONSUMERS 1 with a 64x128 tile: one warpgroup reads B from shared memory once, where two of 64 x 64 read it twice;
// - IN_FLIGHT leaves that many k-blocks' wgmma running while the next is issued; the slot released is then an earlier one.
//   STAGGER lets the second consumer begin that many k-blocks later, so that one's epilogue runs under the other's wgmma;
// - at the end the producer waits until all its slots have come back. Then nobody will arrive on this CTA's barriers or
//   write into its shared memory any more, and it may leave: no cluster barrier holds up the end.
//
// Macros: BM, BN (a consumer's rows BM / CONSUMERS and BN multiples of 64, at most 128 accumulators a thread), CONSUMERS,
// STAGES, CLUSTER_M x CLUSTER_N (CTAs one above the other share B, side by side share A), GROUP (rows of cluster tiles that
// the order walks down before it moves right), C_SLOTS (64x64 tiles of C that a warpgroup keeps), IN_FLIGHT, STAGGER (2
// consumers), IN_STEP, TMA_STORE (0: each warp stores its rows, for n not a multiple of 8).
// Launch: grid (CTAS * clusters), at most the SMs; with GROUP 0 (CTAS * rows of cluster tiles, columns of them). Block
// 128 * (CONSUMERS + 1), dynamic shared memory STAGES * (BM + BN) * 128 + CONSUMERS * C_SLOTS * 8192 + 128.
// Tensor maps: A box BM / CLUSTER_N rows x 64 columns, B box BN / CLUSTER_M x 64, C box 64 x 64 (ignored without
// TMA_STORE), swizzle 128B, fill zero. steps: an int, zero before the first launch. k a multiple of 8.
// Measured in recordings/ladder.json.
#include <cuda_bf16.h>
#include <hopperlab/epilogue_rows.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/multicast.cuh>
#include <hopperlab/raster.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/ring_barriers.cuh>
#include <hopperlab/setmaxnreg.cuh>
#include <hopperlab/wgmma_tile.cuh>

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
#ifndef GROUP
#define GROUP 8
#endif
#ifndef C_SLOTS
#define C_SLOTS 2
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
#ifndef TMA_STORE
#define TMA_STORE 1
#endif

constexpr int CTAS = CLUSTER_M * CLUSTER_N, THREADS = 128 * (CONSUMERS + 1);
constexpr int BK = 64, A_BYTES = BM * BK * 2, B_BYTES = BN * BK * 2, STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int A_SHARE = BM / CLUSTER_N, B_SHARE = BN / CLUSTER_M;       // rows that one CTA loads for all who need them
constexpr int SLOT_BYTES = 64 * 128;                                    // 64 rows x 64 columns of C
constexpr int WM = BM / CONSUMERS, BLOCKS = WM / 64;                    // a warpgroup's rows, and how many wgmma high
constexpr bool SHIFT = BLOCKS * BN > 128;                               // accumulators that need the producer's registers
enum { START = 3, SECOND = 4 };                                         // named barriers; 1 and 2 are the consumers' own
static_assert(BLOCKS * BN / 64 % C_SLOTS == 0 && WM % 64 == 0 && BN % 64 == 0 && BLOCKS * BN <= 256);
static_assert(CONSUMERS <= 2 && STAGES > IN_FLIGHT && (STAGGER == 0 || (CONSUMERS == 2 && STAGGER < STAGES)));

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
#if CLUSTER_M * CLUSTER_N > 1
__cluster_dims__(CTAS, 1, 1)
#endif
__launch_bounds__(THREADS, 1)
gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap c_map,
     __nv_bfloat16* c, int* steps, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile), slots of C, barriers
    unsigned char* slots = shared + STAGES * STAGE_BYTES;
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(slots + CONSUMERS * C_SLOTS * SLOT_BYTES);
    mbarrier_t* empty = full + STAGES;
    require_aligned(shared, 1024);
    int k_tiles = (k + BK - 1) / BK;
    int warpgroup = threadIdx.x / 128, rank = CTAS > 1 ? cluster_ctarank() : 0;
    int up = rank % CLUSTER_M, across = rank / CLUSTER_M;       // this CTA's place in the cluster
#if GROUP
    int rows = (m + CLUSTER_M * BM - 1) / (CLUSTER_M * BM), cols = (n + CLUSTER_N * BN - 1) / (CLUSTER_N * BN);
    int clusters = gridDim.x / CTAS, first = blockIdx.x / CTAS, tiles = rows * cols;
    auto tile_at = [&](int index) { return grouped_tile<GROUP>(index, rows, cols); };
#else
    constexpr int clusters = 1, first = 0, tiles = 1;
    auto tile_at = [&](int) { return Tile{static_cast<int>(blockIdx.x) / CTAS, static_cast<int>(blockIdx.y)}; };
#endif

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
        if (SHIFT) setmaxnreg_dec<40>();
        if (threadIdx.x == 0) {
            unsigned short column = ((1 << CLUSTER_M) - 1) << (across * CLUSTER_M), row = 0;    // the CTAs that share B, A
            for (int i = 0; i < CLUSTER_N; i++) row |= 1 << (i * CLUSTER_M + up);
            for (int index = first, round = 0; index < tiles; index += clusters, round++) {
                Tile tile = tile_at(index);
                int row0 = (tile.row * CLUSTER_M + up) * BM + across * A_SHARE;
                int col0 = (tile.col * CLUSTER_N + across) * BN + up * B_SHARE;
                if (IN_STEP) in_step(steps, round, clusters, tiles);
                for (int i = 0; i < k_tiles; i++, ring.advance()) {
                    int x = (IN_STEP && round % 2 ? k_tiles - 1 - i : i) * BK;
                    unsigned char* a_share = shared + ring.slot * STAGE_BYTES + across * A_SHARE * BK * 2;
                    unsigned char* b_share = shared + ring.slot * STAGE_BYTES + A_BYTES + up * B_SHARE * BK * 2;
                    mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
                    mbarrier_arrive_expect_tx(&full[ring.slot], STAGE_BYTES);
                    if (CLUSTER_N == 1) cp_async_bulk_tensor_2d_load(a_share, &a, &full[ring.slot], x, row0);
                    else cp_async_bulk_tensor_2d_load_multicast(a_share, &a, &full[ring.slot], row, x, row0);
                    if (CLUSTER_M == 1) cp_async_bulk_tensor_2d_load(b_share, &b, &full[ring.slot], x, col0);
                    else cp_async_bulk_tensor_2d_load_multicast(b_share, &b, &full[ring.slot], column, x, col0);
                }
            }
            for (int s = 0; CTAS > 1 && s < STAGES; s++, ring.advance())                        // all slots have come back
                mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
        }
    } else {
        if (SHIFT) setmaxnreg_inc<232>();
        float d[BLOCKS][BN / 2];
        int me = __shfl_sync(0xffffffff, warpgroup - 1, 0), thread = threadIdx.x % 128;         // the same in all lanes: uniform
        unsigned char* my_slots = slots + me * C_SLOTS * SLOT_BYTES;
        // Thread r hands a slot back to CTA r, if that one writes to it.
        bool tells = thread < CTAS && (thread % CLUSTER_M == up || thread / CLUSTER_M == across);
        unsigned theirs = CTAS > 1 ? mapa_shared_cluster(empty, thread % CTAS) : 0;
        auto release = [&](int slot) {                          // -IN_FLIGHT .. STAGES - 1
            if (slot < 0) slot += STAGES;
            if (CTAS == 1 && thread == 0) mbarrier_arrive(&empty[slot]);
            if (CTAS > 1 && tells) mbarrier_arrive_remote_slot(theirs + slot * 8);
        };
        if (STAGGER && me == 1) bar_sync(SECOND, 256);
        for (int index = first; index < tiles; index += clusters) {
            for (int i = 0; i < k_tiles; i++, ring.advance()) {
                unsigned stage = shared_address(shared) + ring.slot * STAGE_BYTES;
                mbarrier_wait_parity(&full[ring.slot], ring.phase);
                wgmma_fence();
                #pragma unroll
                for (int block = 0; block < BLOCKS; block++)
                    wgmma_k_block(d[block], stage + (me * WM + block * 64) * BK * 2, stage + A_BYTES, i > 0);
                wgmma_commit_group();
                if (STAGGER && me == 0 && index == first && i == min(STAGGER, k_tiles) - 1) bar_arrive(SECOND, 256);
                wgmma_wait_group<IN_FLIGHT>();                  // the k-block IN_FLIGHT before this one has been read
                if (i >= IN_FLIGHT) release(ring.slot - IN_FLIGHT);
            }
            Tile tile = tile_at(index);
            if (IN_FLIGHT) wgmma_wait_group<0>();
            #pragma unroll
            for (int left = IN_FLIGHT; left > 0; left--)
                if (k_tiles >= left) release(ring.slot - left);
            int row0 = (tile.row * CLUSTER_M + up) * BM + me * WM, col0 = (tile.col * CLUSTER_N + across) * BN;
            if (TMA_STORE) store_accumulators_tma<C_SLOTS>(&c_map, d, my_slots, 1 + me, row0, col0, m, n);
            else store_accumulators_rows<C_SLOTS>(c, d, my_slots, row0, col0, m, n);
        }
        if (TMA_STORE && thread == 0) cp_async_bulk_wait_group_read<0>();                       // shared memory outlives its readers
    }
}
// SPDX-License-Identifier: Apache-2.0
