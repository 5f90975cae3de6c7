// C[m,n] = sum over k-blocks of (A scale * B scale) * (A block * B block^T), e4m3 in, bf16 out, as fp8/promoted.cu computes it.
//
// The last steps of the fp8 ladder, each a macro so that each can be measured alone:
// - the scales of A ride in the TMA stage: they arrive with the tile they belong to, and no consumer waits for global memory;
// - CLUSTER_M CTAs one above the other share the tile of B by multicast;
// - PARTS 2: two partial accumulators, so that a warpgroup promotes one k-block while its own next one is multiplied. With PARTS 1
//   a warpgroup's tensor core work stops while it promotes, and only the other warpgroup fills the gap;
// - BN 256 multiplies a k-block in two halves of 128 columns, which share the tile of A: fewer bytes for each product;
// - BN 192 with WIDE 192 multiplies it at once, so a warpgroup reads its rows of A once a k-block; two scales of B meet in a tile;
// - A_REGISTERS: a warpgroup loads its rows of A by ldmatrix, once a k-block. The tensor core then reads only B from shared memory,
//   however many pieces (WIDE columns each) a k-block is multiplied in, and a wide tile has room for two partial accumulators;
// - TURNS: with PARTS 1 the warpgroups take turns at the tensor core by named barriers, so that one promotes while the other multiplies,
//   and never both at once. 1: the turn goes over when the product is issued; 2: when the first three of its four k-steps are done;
// - GROUP 0 launches one CTA a tile, for small products.
//
// What a warpgroup does between two products is time that its tensor cores spend on the other one's, or on nothing. So with PARTS 1 a stage's
// descriptors are those of the first stage moved on, one addition each; the scales are read behind the wgmmas, which would wait for them;
// and whether the next tile is there is asked before the promotion, which takes longer than the answer. And a __syncwarp() stands in front of
// the promotion, for which there is no other reason: where a promotion begins at the moment at which the other warpgroup's wgmmas could, they
// were seen to begin only after it, again and again (recordings/README.md).
//
// Macros: BN (64, 128 or 256; with A_REGISTERS or WIDE 192 also 192), CONSUMERS (64 rows of the tile each), STAGES, CLUSTER_M, PARTS (2 with A in
// shared memory: BN up to 128), A_REGISTERS, WIDE (64, 128 or 192), TURNS (PARTS 1, A in shared memory), GROUP, C_SLOTS. Launch: grid (CLUSTER_M * clusters), at most the SMs, or (CLUSTER_M * rows of cluster tiles, columns) with GROUP 0;
// block 128 * (CONSUMERS + 1); dynamic shared memory STAGES * ((BM + BN) * 128 + BM * 4) + CONSUMERS * C_SLOTS * 8192 + 128.
// Tensor maps: A box BM x 128, B box BN / CLUSTER_M x 128 (uint8, swizzle 128B, fill zero), C box 64 x 64 bf16 swizzle 128B, a_scales
// (k-blocks x m floats, rows a multiple of 16 bytes apart) box 1 x BM. b_scales: ceil(n / 128) x k-blocks floats.
// k a multiple of 16, n of 8. Measured in recordings/fp8.json.
#include <cuda_bf16.h>
#include <hopperlab/epilogue.cuh>
#include <hopperlab/fp8.cuh>
#include <hopperlab/multicast.cuh>
#include <hopperlab/raster.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/ring_barriers.cuh>
#include <hopperlab/setmaxnreg.cuh>

#ifndef BN
#define BN 128
#endif
#ifndef CONSUMERS
#define CONSUMERS 2
#endif
#ifndef STAGES
#define STAGES 5
#endif
#ifndef CLUSTER_M
#define CLUSTER_M 2
#endif
#ifndef PARTS
#define PARTS 2
#endif
#ifndef A_REGISTERS
#define A_REGISTERS 0
#endif
#ifndef WIDE
#define WIDE (BN < 128 ? BN : 128)
#endif
#ifndef TURNS
#define TURNS 0
#endif
#ifndef GROUP
#define GROUP 8
#endif
#ifndef C_SLOTS
#define C_SLOTS 1
#endif

constexpr int BM = 64 * CONSUMERS, THREADS = 128 * (CONSUMERS + 1), PIECES = BN / WIDE;
constexpr int A_BYTES = BM * FP8_BK, TILE_BYTES = (BM + BN) * FP8_BK, SCALE_BYTES = BM * 4, SLOT_BYTES = 8192;
constexpr int B_SHARE = BN / CLUSTER_M;                         // rows of B that one CTA loads for all of its cluster
enum { START = 3, TURN = 4 };                                   // named barriers, a turn each; 1 and 2 are the consumers' own
constexpr int GRAIN = BN % 128 ? 64 : 128;                      // columns of a tile that surely share a scale of B
constexpr int SPAN = WIDE < GRAIN ? WIDE : GRAIN;               // columns of a piece that do
static_assert(BN % WIDE == 0 && (WIDE == 64 || WIDE == 128 || WIDE == 192 && PARTS == 1 && !A_REGISTERS) && (PARTS == 1 || A_REGISTERS || PIECES == 1) && (A_REGISTERS || BN != 192 || WIDE == 192) && CONSUMERS <= 2 && BN / 64 % C_SLOTS == 0 && (!TURNS || PARTS == 1 && !A_REGISTERS));

extern "C" __global__ void
#if CLUSTER_M > 1
__cluster_dims__(CLUSTER_M, 1, 1)
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
    int k_tiles = (k + FP8_BK - 1) / FP8_BK, warpgroup = threadIdx.x / 128, up = CLUSTER_M > 1 ? cluster_ctarank() : 0;
#if GROUP
    int rows = (m + CLUSTER_M * BM - 1) / (CLUSTER_M * BM), cols = (n + BN - 1) / BN;
    int clusters = gridDim.x / CLUSTER_M, first = blockIdx.x / CLUSTER_M, tiles = rows * cols;
    auto tile_at = [&](int index) { return grouped_tile<GROUP>(index, rows, cols); };
#else
    constexpr int clusters = 1, first = 0, tiles = 1;
    auto tile_at = [&](int) { return Tile{static_cast<int>(blockIdx.x) / CLUSTER_M, static_cast<int>(blockIdx.y)}; };
#endif
    if (threadIdx.x == 32) {                                    // another warp fetches the maps
        prefetch_tensormap(&a);
        prefetch_tensormap(&b);
        prefetch_tensormap(&a_scales);
        prefetch_tensormap(&c_map);
    }
    if (threadIdx.x == 0) {
        // This CTA's producer, and the bytes of all; a lane of each consumer warp of each CTA.
        ring_barriers_init<STAGES>(full, 1, empty, 4 * CONSUMERS * CLUSTER_M);
        if (CLUSTER_M > 1) fence_mbarrier_init_release_cluster();
    }
    __syncwarp();
    if (CLUSTER_M > 1) {
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
            for (int index = first; index < tiles; index += clusters) {
                Tile tile = tile_at(index);
                int row0 = (tile.row * CLUSTER_M + up) * BM, col0 = tile.col * BN + up * B_SHARE;
                for (int i = 0; i < k_tiles; i++, ring.advance()) {
                    unsigned char* stage = shared + ring.slot * TILE_BYTES;
                    unsigned char* b_share = stage + A_BYTES + up * B_SHARE * FP8_BK;
                    mbarrier_t* arrived = &full[ring.slot];
                    mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
                    mbarrier_arrive_expect_tx(arrived, TILE_BYTES + SCALE_BYTES);
                    cp_async_bulk_tensor_2d_load(stage, &a, arrived, i * FP8_BK, row0);
                    cp_async_bulk_tensor_2d_load(scales + ring.slot * SCALE_BYTES, &a_scales, arrived, row0, i);
                    if (CLUSTER_M == 1) cp_async_bulk_tensor_2d_load(b_share, &b, arrived, i * FP8_BK, col0);
                    else cp_async_bulk_tensor_2d_load_multicast(b_share, &b, arrived, (1 << CLUSTER_M) - 1, i * FP8_BK, col0);
                }
            }
            for (int s = 0; CLUSTER_M > 1 && s < STAGES; s++, ring.advance())       // all slots have come back: nobody writes here
                mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
        }
        return;
    }
    setmaxnreg_inc<240>();
    int me = __shfl_sync(0xffffffff, warpgroup - 1, 0), thread = threadIdx.x % 128, lane = thread % 32;
    int row = me * 64 + thread / 32 * 16 + lane / 4;            // this thread's upper row in the tile; the lower one is 8 below
    unsigned theirs = CLUSTER_M > 1 ? mapa_shared_cluster(empty, lane % CLUSTER_M) : 0;
    auto release = [&](int slot) {                              // every warp read scales: one of its lanes tells each CTA
        __syncwarp();
        if (CLUSTER_M == 1 && lane == 0) mbarrier_arrive(&empty[slot]);
        if (CLUSTER_M > 1 && lane < CLUSTER_M) mbarrier_arrive_remote_slot(theirs + slot * 8);
    };
    auto my_turn = [&] { if (TURNS && CONSUMERS > 1) bar_sync(TURN + me, 256); };
    auto next_turn = [&] { if (TURNS && CONSUMERS > 1) bar_arrive(TURN + (me + 1) % CONSUMERS, 256); };
    if (me == CONSUMERS - 1) next_turn();                       // the first one begins
    auto read_scales = [&](float& upper, float& lower) {        // of A: read behind the wgmmas, which would else wait for them
        __syncwarp();                                           // over which the compiler moves no load
        const float* a_scale = reinterpret_cast<const float*>(scales + ring.slot * SCALE_BYTES);
        upper = a_scale[row], lower = a_scale[row + 8];
    };
    // A stage's descriptors are those of the first stage, moved on.
    unsigned long long first_a = wgmma_descriptor_k_major<128>(shared_address(shared) + me * 64 * FP8_BK);
    unsigned long long first_b = wgmma_descriptor_k_major<128>(shared_address(shared) + A_BYTES);
    auto a_tile = [&] { return wgmma_descriptor_at(first_a, ring.slot * TILE_BYTES); };
    auto b_tile = [&] { return wgmma_descriptor_at(first_b, ring.slot * TILE_BYTES); };
    bool here = false;                                          // the next tile was seen to be there
    float sum[1][BN / 2];
    for (int index = first; index < tiles; index += clusters) {
        Tile tile = tile_at(index);
        #pragma unroll
        for (int i = 0; i < BN / 2; i++) sum[0][i] = 0;
        const float* of_b_at[BN / GRAIN];                       // the scales of B: past the edge any will do
        #pragma unroll
        for (int x = 0; x < BN / GRAIN; x++) of_b_at[x] = b_scales + static_cast<size_t>(min(tile.col * BN + x * GRAIN, n - 1) / 128) * k_tiles;
#if A_REGISTERS
        float part[PARTS][WIDE / 2];
        unsigned fragments[4][4];
        for (int i = 0; i < k_tiles; i++, ring.advance()) {
            float of_b[BN / GRAIN], high, low;
            mbarrier_wait_parity(&full[ring.slot], ring.phase);
            load_fragments_e4m3(fragments, shared_address(shared) + ring.slot * TILE_BYTES + me * 64 * FP8_BK);
            #pragma unroll
            for (int piece = 0; piece < PIECES + PARTS - 1; piece++) {
                int done = piece - PARTS + 1;                   // PARTS 2: the piece before this one, promoted under this one
                if (piece < PIECES) {
                    wgmma_fence();
                    wgmma_k_block_e4m3(part[piece % PARTS], fragments, wgmma_descriptor_at(b_tile(), piece * WIDE * FP8_BK));
                    wgmma_commit_group();
                }
                if (piece == 0) {
                    read_scales(high, low);
                    #pragma unroll
                    for (int x = 0; x < BN / GRAIN; x++) of_b[x] = *of_b_at[x]++;
                }
                if (done < 0) continue;
                if (piece < PIECES) wgmma_wait_group<PARTS - 1>();
                else wgmma_wait_group<0>();
                if (done == PIECES - 1) release(ring.slot);     // before the last promotion
                float scale = of_b[done * WIDE / GRAIN];
                promote(sum[0], done * (WIDE / 2), part[done % PARTS], high * scale, low * scale);
            }
        }
#elif PARTS == 1
        float part[WIDE / 2];
        for (int i = 0; i < k_tiles; i++) {
            float of_b[BN / GRAIN], upper, lower;
            unsigned long long a_now = a_tile(), b_now = b_tile();
            int slot = ring.slot;
            if (!here) mbarrier_wait_parity(&full[slot], ring.phase);
            #pragma unroll
            for (int piece = 0; piece < PIECES; piece++) {
                unsigned long long b_piece = wgmma_descriptor_at(b_now, piece * WIDE * FP8_BK);
                my_turn();
                wgmma_fence();
                if constexpr (TURNS == 2) {
                    wgmma_k_block_e4m3<0, 3>(part, a_now, b_piece, 0);
                    wgmma_commit_group();
                    wgmma_k_block_e4m3<3, 4>(part, a_now, b_piece, 1);
                    wgmma_commit_group();
                } else {
                    wgmma_k_block_e4m3(part, a_now, b_piece, 0);
                    wgmma_commit_group();
                    next_turn();
                }
                if (piece == 0) {
                    read_scales(upper, lower);
                    #pragma unroll
                    for (int x = 0; x < BN / GRAIN; x++) of_b[x] = *of_b_at[x]++;
                }
                if constexpr (TURNS == 2) {
                    wgmma_wait_group<1>();
                    next_turn();
                }
                wgmma_wait_group<0>();
                if (piece == PIECES - 1) {                      // before the last promotion
                    release(slot);
                    ring.advance();
                    here = mbarrier_test_wait_parity(&full[ring.slot], ring.phase);
                }
                __syncwarp();                                   // a gap, in which the other warpgroup's waiting wgmmas can begin
                #pragma unroll
                for (int x = 0; x < WIDE / SPAN; x++) {
                    float scale = of_b[(piece * WIDE + x * SPAN) / GRAIN];
                    promote_span<SPAN / 2>(sum[0], piece * (WIDE / 2), part, x * (SPAN / 2), upper * scale, lower * scale);
                }
            }
        }
#else
        float even[WIDE / 2], odd[WIDE / 2], upper[2], lower[2];
        // Starts the next k-block into `part` and reads its scales; the one before it is still being multiplied.
        auto start = [&](float (&part)[WIDE / 2], float& high, float& low) {
            mbarrier_wait_parity(&full[ring.slot], ring.phase);
            wgmma_fence();
            wgmma_k_block_e4m3(part, a_tile(), b_tile(), 0);
            wgmma_commit_group();
            read_scales(high, low);
            float of_b = *of_b_at[0]++;
            high *= of_b, low *= of_b;
        };
        // The k-block after this one into `part`; then the one before it, `done`, is promoted while `part` is multiplied.
        auto step = [&](float (&part)[WIDE / 2], float (&done)[WIDE / 2], int next) {
            int before = ring.slot;
            ring.advance();
            start(part, upper[next], lower[next]);
            wgmma_wait_group<1>();
            release(before);
            promote(sum[0], 0, done, upper[1 - next], lower[1 - next]);
        };
        auto finish = [&](float (&done)[WIDE / 2], int which) {
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
        int row0 = (tile.row * CLUSTER_M + up) * BM + me * 64;
        store_accumulators_tma<C_SLOTS>(&c_map, sum, slots + me * C_SLOTS * SLOT_BYTES, 1 + me, row0, tile.col * BN, m, n);
    }
    if (me == 0) my_turn();                                     // the last turn's word to the next, which nobody else takes
    if (thread == 0) cp_async_bulk_wait_group_read<0>();        // shared memory outlives its readers
}
