// fp8/grouped.cu for many and for few rows per group: C[r,n] = sum over k-blocks of (A scale * B scale) * (A block * B[g] block^T) for
// the rows r of group g, all groups in one launch, with what fp8/block_scaled.cu gained:
// - ROWS 2: a tile twice as tall, of which a consumer multiplies a block of 64 rows of either half, one after the other, with the same
//   tile of B. Where a group's last tile would have rows in its upper half alone it lies down: 128 rows and twice the columns, of which a
//   consumer multiplies its block of 64 rows with either tile of B. So it has as many products for as many bytes as the others;
// - where the last half of a tile has 64 rows at most, both consumers take these, and each of them half of the columns: half the time;
// - DRAWN: the producer takes the next tile from a counter when it has asked for all of this one, for tiles differ in height, and SMs in
//   how fast memory answers them. The launch that draws the last number sets the counter back. Else tiles are dealt out in turn, so that
//   those that share B run at the same time. What consumers have to know of a tile lies beside its first k-block;
// - BN 192, where ROWS is 1: a wider tile, which for few rows takes them from the L2 less often. It lies in two blocks of B's scales;
// - CLUSTER_N 2: two CTAs side by side share the tile of A by multicast; UNROLL k-blocks one after the other in the code; C_SLOTS chunks
//   of 64 columns leave at once;
// - STREAM_B, where B is small: its lines leave the L2 first (as in block_scaled.cu);
// - nobody edits a tensor map: 64 rows that a group has whole leave by TMA, what is left at its end by way of shared memory, row by row;
// - a stage's descriptors are those of the first stage moved on; scales are read behind the wgmmas; whether the next tile is there is
//   asked before the promotion, where the code is not unrolled.
//
// Macros: ROWS (1 or 2), BN (128, with ROWS 1 also 192), STAGES, CLUSTER_N (1 or 2), UNROLL (2 and more where ROWS is 1), C_SLOTS (1, 2 or, with BN 192, 3),
// STREAM_B, DRAWN (with CLUSTER_N 1).
// Launch: grid a multiple of CLUSTER_N, at most the SMs, block 384, dynamic shared memory STAGES * (TILE_BYTES + ROWS * SCALE_SLOT) +
// 2 * C_SLOTS * 8192 + 256.
// Tensor maps: A box A_BOX rows x 128 columns, B (all groups, one behind the other: groups * n rows) box BN x 128, both uint8, swizzle
// 128B, fill zero; c_map box 64 x 64 bf16, swizzle 128B, of all of C; a_scales (k-blocks x rows floats) box 1 x (HALF + 4).
// b_scales: groups x ceil(n / 128) x k-blocks floats. pitch 0: the groups' rows lie one behind the other, and first has groups + 1 row
// numbers, where each begins and the last ends; else group g begins at row g * pitch (the masked layout), and first[g] is how many rows
// it has. counter: a zero, which stays one behind the launch. k a multiple of 16, n of 8. Measured in recordings/fp8_grouped.json.
#include <cuda_bf16.h>
#include <hopperlab/cache_hint.cuh>
#include <hopperlab/epilogue.cuh>
#include <hopperlab/fp8_widths.cuh>
#include <hopperlab/multicast.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/ring_barriers.cuh>
#include <hopperlab/setmaxnreg.cuh>

#ifndef ROWS
#define ROWS 2
#endif
#ifndef BN
#define BN 128
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef CLUSTER_N
#define CLUSTER_N 1
#endif
#ifndef UNROLL
#define UNROLL 1
#endif
#ifndef C_SLOTS
#define C_SLOTS 1
#endif
#ifndef STREAM_B
#define STREAM_B 0
#endif
#ifndef DRAWN
#define DRAWN 1
#endif

constexpr int CONSUMERS = 2, HALF = 64 * CONSUMERS, BM = HALF * ROWS, THREADS = 128 * (CONSUMERS + 1);
constexpr int PIECES = BN == FP8_BK ? 1 : BN / 64;                       // of a tile's columns, of which each lies in one block of B's scales
static_assert((!DRAWN || CLUSTER_N == 1) && STAGES <= 8);
static_assert(BN == 128 || (ROWS == 1 && BN == 192));
// A slot: the upper half of A, B, and the lower half of A, or B's second tile where the tile lies.
constexpr int HALF_BYTES = HALF * FP8_BK, B_BYTES = BN * FP8_BK, LOWER = HALF_BYTES + B_BYTES, TILE_BYTES = BM * FP8_BK + B_BYTES, SLOT_BYTES = 8192;
static_assert(ROWS == 1 || HALF_BYTES == B_BYTES);
constexpr int SCALE_BYTES = (HALF + 4) * 4, SCALE_SLOT = (SCALE_BYTES + 127) / 128 * 128;    // a box of scales, and its place
// Rows of a box of A: the part of a half that one CTA loads for all of its cluster; of low tiles 64, so that a narrow end loads no more.
constexpr int A_BOX = ROWS == 1 ? 64 : HALF / CLUSTER_N;

// A tile's first row in its group, its first column in tiles of a cluster, and whether it lies.
struct Place {
    int row, col;
    bool lies;
};

// Where tile number `index` of all groups is; tiles of a cluster, side by side, count as one. Numbers only grow, so the walk goes on from where it stood.
struct Walk {
    const int* first;
    int pitch, cols, group = 0, before = 0;                     // before: tiles of the groups left behind

    __device__ Walk(const int* first, int pitch, int cols) : first(first), pitch(pitch), cols(cols) {}
    __device__ int begin() const { return pitch ? group * pitch : first[group]; }                 // of the group, in A and C
    __device__ int height() const { return pitch ? first[group] : first[group + 1] - first[group]; }
    __device__ int upright() const { return (height() + HALF - 1) / BM; }                         // tiles one above the other
    __device__ bool ends_lying() const { return ROWS == 2 && height() > upright() * BM; }         // HALF rows at most are left
    __device__ int tiles() const { return upright() * cols + ends_lying() * ((cols + 1) / 2); }
    __device__ bool reach(int index, int groups) {
        while (group < groups && index >= before + tiles()) before += tiles(), group++;
        return group < groups;
    }
    // Down a column and the next one, then the tile that lies below both: B is read by all of them at about the same time.
    __device__ Place at(int index) const {
        int high = upright(), both = 2 * high + ends_lying(), col = (index - before) / both * 2, nth = (index - before) % both;
        bool lies = ROWS == 2 && nth >= high * min(2, cols - col);
        return {(lies ? high : nth % high) * BM, lies ? col : col + nth / high, lies};
    }
};

// Asks `count` scales from number `begin` on, of `all`, into the L2, where consumers that read them one by one find them: what is whole of 16 bytes.
__device__ __forceinline__ void prefetch_scales(const float* scales, int begin, int count, int all) {
    size_t from = (reinterpret_cast<size_t>(scales + begin) + 15) / 16 * 16, end = reinterpret_cast<size_t>(scales + min(begin + count, all)) / 16 * 16;
    if (from < end) cp_async_bulk_prefetch_l2(reinterpret_cast<const void*>(from), end - from);
}

// Where a consumer finds its operands in the first slot. Its second block of 64 rows lies lower in A, or has B's second tile where the tile lies.
struct Operands {
    unsigned long long a, b;                                    // descriptors
    const float *a_scales, *b_scales;                           // of the thread's upper row; of the block that B's first column is in
    int b_scales_step;                                          // to the scales of the next block that this tile has columns in
    int in_first;                                               // columns of the tile that are in the first one, or more
    bool lies;
};

// A consumer's way through the ring.
struct Consumer {
    mbarrier_t *full, *empty;
    unsigned theirs;                                            // empty barriers of the CTA that this lane tells, where there is a cluster
    Ring<STAGES> ring;
    bool here = false;                                          // the next tile was seen to be there

    __device__ __forceinline__ void release(int slot) {
        __syncwarp();                                           // all lanes have read their scales
        if (CLUSTER_N == 1 && threadIdx.x % 32 == 0) mbarrier_arrive(&empty[slot]);
        if (CLUSTER_N > 1 && threadIdx.x % 32 < CLUSTER_N) mbarrier_arrive_remote_slot(theirs + slot * 8);
    }

    // The tile whose first k-block comes next.
    __device__ __forceinline__ int4 next(const int4* tiles) {
        mbarrier_wait_parity(&full[ring.slot], ring.phase);
        here = UNROLL == 1;
        return tiles[ring.slot];
    }

    // sum += k_tiles k-blocks of a tile, of BLOCKS blocks of 64 rows. NARROW: the last one is the first 64 rows of its half, for both consumers, and each
    // of them multiplies half of the columns.
    template <int BLOCKS, bool NARROW>
    __device__ __forceinline__ void multiply(float (&sum)[ROWS][1][BN / 2], const Operands& of, int k_tiles) {
        int me = NARROW ? threadIdx.x / 128 - 1 : 0, ahead = me * 64;   // rows of A by which the consumer's own are ahead of that block
        int left = me * (BN / 2);                               // columns that the consumer leaves to the other
        float part[BN / 2];
        auto& half = reinterpret_cast<float (&)[BN / 4]>(part);
        #pragma unroll (NARROW ? 1 : UNROLL)
        for (int i = 0; i < k_tiles; i++) {
            float of_b[2], upper[BLOCKS], lower[BLOCKS];
            int slot = ring.slot;
            unsigned long long a = wgmma_descriptor_at(of.a, slot * TILE_BYTES), b = wgmma_descriptor_at(of.b, slot * TILE_BYTES);
            if (!here) mbarrier_wait_parity(&full[slot], ring.phase);
            #pragma unroll
            for (int x = 0; x < BLOCKS; x++) {
                bool narrow = NARROW && x == BLOCKS - 1;
                unsigned long long block = wgmma_descriptor_at(a, x && !of.lies ? LOWER : 0), tile = wgmma_descriptor_at(b, x && of.lies ? B_BYTES : 0);
                wgmma_fence();
                if (narrow) wgmma_k_block_e4m3_wide(half, block - ahead * FP8_BK / 16, wgmma_descriptor_at(tile, left * FP8_BK), 0);
                else wgmma_k_block_e4m3_wide(part, block, tile, 0);
                wgmma_commit_group();
                if (x == 0) {                                   // scales are read behind the wgmmas, which would else wait for them
                    __syncwarp();                               // over which the compiler moves no load
                    #pragma unroll
                    for (int y = 0; y < BLOCKS; y++) {
                        const float* scale = of.a_scales + slot * ROWS * (SCALE_SLOT / 4) + (y && !of.lies ? SCALE_SLOT / 4 : 0) - (NARROW && y == BLOCKS - 1 ? ahead : 0);
                        upper[y] = scale[0], lower[y] = scale[8];
                    }
                    #pragma unroll
                    for (int y = 0; y < (PIECES > 1 ? 2 : BLOCKS); y++) of_b[y] = __ldg(of.b_scales + i + y * of.b_scales_step);
                }
                wgmma_wait_group<0>();
                if (x == BLOCKS - 1) {                          // before the last promotion
                    release(slot);
                    ring.advance();
                    here = (UNROLL == 1 || NARROW) && mbarrier_test_wait_parity(&full[ring.slot], ring.phase);
                }
                float second = of_b[PIECES > 1 ? 1 : x];
                if (narrow) promote_pieces<PIECES>(sum[x][0], half, upper[x], lower[x], of_b[x], second, of.in_first - left);
                else promote_pieces<PIECES>(sum[x][0], part, upper[x], lower[x], of_b[x], second, of.in_first);
            }
        }
    }
};

extern "C" __global__ void
#if CLUSTER_N > 1
__cluster_dims__(CLUSTER_N, 1, 1)
#endif
__launch_bounds__(THREADS, 1)
gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap c_map,
     const __grid_constant__ TensorMap a_scales, const float* __restrict__ b_scales, const int* __restrict__ first, __nv_bfloat16* c, int* counter,
     int pitch, int groups, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile), slots of C, STAGES x scales, barriers
    unsigned char* slots = shared + STAGES * TILE_BYTES;
    unsigned char* scales = slots + CONSUMERS * C_SLOTS * SLOT_BYTES;
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(scales + STAGES * ROWS * SCALE_SLOT);
    mbarrier_t* empty = full + STAGES;
    // In the slot of a tile's first k-block: its first row, the end of its group's rows, its column (doubled, and 1 where it lies), its group; or no group.
    int4* told = reinterpret_cast<int4*>(empty + STAGES);
    require_aligned(shared, 1024);
    int k_tiles = (k + FP8_BK - 1) / FP8_BK, cols = (n + BN - 1) / BN, warpgroup = threadIdx.x / 128;
    int blocks = (n + FP8_BK - 1) / FP8_BK;                     // of columns, that share scales
    int across = CLUSTER_N > 1 ? cluster_ctarank() : 0, start = blockIdx.x / CLUSTER_N, step = gridDim.x / CLUSTER_N;
    if (threadIdx.x == 0) {
        // This CTA's producer, and the bytes of all; a lane of each consumer warp of each CTA.
        ring_barriers_init<STAGES>(full, 1, empty, 4 * CONSUMERS * CLUSTER_N);
        if (CLUSTER_N > 1) fence_mbarrier_init_release_cluster();
    }
    __syncwarp();
    if (CLUSTER_N > 1) {
        barrier_cluster_arrive_relaxed();                       // nobody, in any CTA, touches a barrier before it is one
        barrier_cluster_wait();
    } else {
        __syncthreads();
    }

    if (warpgroup == 0) {
        setmaxnreg_dec<40>();
        if (threadIdx.x == 0) {
            Ring<STAGES> ring;
            unsigned long long once = STREAM_B ? createpolicy_evict_first() : 0;
            Walk walk(first, pitch, (cols + CLUSTER_N - 1) / CLUSTER_N);
            int index = start;
            for (; walk.reach(index, groups); index = DRAWN ? step + atomicAdd(counter, 1) : index + step) {         // the first `step` tiles are dealt out
                Place tile = walk.at(index);
                int col = tile.col * CLUSTER_N + across * (tile.lies ? 2 : 1);   // of tiles, this CTA's first; past the last one it has none
                int row0 = walk.begin() + tile.row, b_row = walk.group * n + col * BN;
                int high = min(walk.height() - tile.row, BM), halves = (high + HALF - 1) / HALF;
                prefetch_scales(b_scales, (walk.group * blocks + min(col * BN / FP8_BK, blocks - 1)) * k_tiles, 2 * k_tiles, groups * blocks * k_tiles);
                int boxes = CLUSTER_N > 1 ? halves : (high + A_BOX - 1) / A_BOX;     // of A that this CTA asks for
                unsigned bytes = (tile.lies ? 2 : 1) * B_BYTES + halves * SCALE_BYTES + boxes * CLUSTER_N * A_BOX * FP8_BK;
                for (int i = 0; i < k_tiles; i++, ring.advance()) {
                    unsigned char* stage = shared + ring.slot * TILE_BYTES;
                    mbarrier_t* arrived = &full[ring.slot];
                    mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1), fence_proxy_async_shared_cta();      // scales were read by ordinary loads
                    if (i == 0) told[ring.slot] = {row0, walk.begin() + walk.height(), 2 * col + tile.lies, walk.group};
                    mbarrier_arrive_expect_tx(arrived, bytes);
                    if (STREAM_B) cp_async_bulk_tensor_2d_load_hint(stage + HALF_BYTES, &b, arrived, i * FP8_BK, b_row, once);
                    else cp_async_bulk_tensor_2d_load(stage + HALF_BYTES, &b, arrived, i * FP8_BK, b_row);
                    if (tile.lies) cp_async_bulk_tensor_2d_load(stage + LOWER, &b, arrived, i * FP8_BK, b_row + BN);
                    for (int x = 0; x < boxes; x++) {
                        int y = CLUSTER_N > 1 ? x * HALF + across * A_BOX : x * A_BOX;           // its first row in the tile
                        unsigned char* box = stage + y / HALF * LOWER + y % HALF * FP8_BK;
                        if (CLUSTER_N == 1) cp_async_bulk_tensor_2d_load(box, &a, arrived, i * FP8_BK, row0 + y);
                        else cp_async_bulk_tensor_2d_load_multicast(box, &a, arrived, (1 << CLUSTER_N) - 1, i * FP8_BK, row0 + y);
                    }
                    // A box of scales begins at a multiple of 16 bytes, and a group anywhere: up to 3 rows earlier, and 4 longer.
                    for (int x = 0; x < halves; x++)
                        cp_async_bulk_tensor_2d_load(scales + (ring.slot * ROWS + x) * SCALE_SLOT, &a_scales, arrived, (row0 + x * HALF) / 4 * 4, i);
                }
            }
            mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
            told[ring.slot] = {0, 0, 0, -1};
            mbarrier_arrive(&full[ring.slot]);
            ring.advance();
            if (DRAWN && index != start && index - step == walk.before - 1) atomicExch(counter, 0);       // of as many draws as tiles the last one
            for (int s = 0; CLUSTER_N > 1 && s < STAGES; s++, ring.advance())       // all slots have come back: nobody writes here
                mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
        }
        return;
    }
    setmaxnreg_inc<232>();
    int me = __shfl_sync(0xffffffff, warpgroup - 1, 0), thread = threadIdx.x % 128;
    int upper_row = thread / 32 * 16 + thread % 32 / 4;         // this thread's upper row in a block; the lower one is 8 below
    Consumer consumer{full, empty, CLUSTER_N > 1 ? mapa_shared_cluster(empty, threadIdx.x % CLUSTER_N) : 0};
    unsigned long long first_a = wgmma_descriptor_k_major<128>(shared_address(shared)), first_b = wgmma_descriptor_k_major<128>(shared_address(shared) + HALF_BYTES);
    unsigned char* my_slots = slots + me * C_SLOTS * SLOT_BYTES;
    float sum[ROWS][1][BN / 2];
    // Lanes differ in how many rows they store; together again, they keep what is the same in all of them once per warp.
    for (int4 told_of; (told_of = consumer.next(told)).w >= 0; __syncwarp()) {
        #pragma unroll
        for (int x = 0; x < ROWS; x++)
            #pragma unroll
            for (int i = 0; i < BN / 2; i++) sum[x][0][i] = 0;
        int row0 = told_of.x, end = told_of.y, col = told_of.z / 2;
        bool lies = ROWS == 2 && told_of.z % 2, narrow = end - row0 <= (lies ? 64 : BM - 64);        // the last half has 64 rows at most
        int up = lies && narrow ? 0 : me * 64;             // where the consumer's first block begins
        int block = min(col * BN / FP8_BK, blocks - 1), next = block + 1 < blocks ? k_tiles : 0;
        Operands of{wgmma_descriptor_at(first_a, up * FP8_BK), first_b, reinterpret_cast<const float*>(scales) + row0 % 4 + up + upper_row,
                    b_scales + static_cast<size_t>(told_of.w * blocks + block) * k_tiles, PIECES > 1 || lies ? next : 0, FP8_BK - col * BN % FP8_BK, lies};
        if (narrow && !lies) {
            consumer.multiply<ROWS, true>(sum, of, k_tiles);
        } else if (ROWS == 2 && narrow) {                       // a tile of B for each consumer
            of.b = wgmma_descriptor_at(first_b, me * B_BYTES), of.b_scales += me * of.b_scales_step;
            consumer.multiply<1, false>(sum, of, k_tiles);
        } else {
            consumer.multiply<ROWS, false>(sum, of, k_tiles);
        }
        #pragma unroll
        for (int x = 0; x < ROWS; x++) {
            int row = row0 + up + (lies ? 0 : x * HALF), to = (col + (!lies ? 0 : narrow ? me : x)) * BN;
            if (lies && narrow && x > 0) continue;
            if (!lies && narrow && x == ROWS - 1)
                store_accumulator_rows(c, reinterpret_cast<float (&)[BN / 4]>(sum[x][0]), my_slots, 1 + me, row - me * 64, to + me * (BN / 2), end, n);
            else if (row + 64 <= end) store_accumulators_tma<C_SLOTS>(&c_map, sum[x], my_slots, 1 + me, row, to, end, n);
            else if (row < end) store_accumulator_rows(c, sum[x][0], my_slots, 1 + me, row, to, end, n);
        }
    }
    if (CLUSTER_N > 1) consumer.release(consumer.ring.slot);    // both producers wait for it
    if (thread == 0) cp_async_bulk_wait_group_read<0>();        // shared memory outlives its readers
}
// SPDX-License-Identifier: Apache-2.0
