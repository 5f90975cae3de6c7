// What attention needs of a warpgroup: scores of 64 queries, their softmax block by block, and the product with V, in whose
// place the scores lie already: the accumulator's fragment of m64nNk16 is, as bf16, the A fragment of the next product.
// [PTX ISA 9.7.15.5.1; online softmax: Milakov and Gimelshein 2018, in blocks: Dao et al. 2022]
#pragma once
#include <cuda_bf16.h>
#include <hopperlab/multicast.cuh>
#include <hopperlab/stmatrix.cuh>
#include <hopperlab/wgmma_operands.cuh>

// The lists of 40 and 88 registers, for n = 80 and 176.
#define WGMMA_LIST_40 WGMMA_LIST_32 ", " WGMMA_TEXT_4
#define WGMMA_OUT_40(C, i) WGMMA_OUT_32(C, i), WGMMA_OUT_8(C, i + 32)
#define WGMMA_NEXT_40 "%40", "%41", "%42", "%43", "%44", "%45"
#define WGMMA_LIST_88 WGMMA_LIST_64 ", " WGMMA_TEXT_8 ", " WGMMA_TEXT_9 ", " WGMMA_TEXT_10
#define WGMMA_OUT_88(C, i) WGMMA_OUT_64(C, i), WGMMA_OUT_16(C, i + 64), WGMMA_OUT_8(C, i + 80)
#define WGMMA_NEXT_88 "%88", "%89", "%90", "%91", "%92", "%93"

WGMMA_SS(wgmma_scores_64, 32, float, "m64n64k16.f32.bf16.bf16", ", 1, 1, 0, 0")
WGMMA_SS(wgmma_scores_80, 40, float, "m64n80k16.f32.bf16.bf16", ", 1, 1, 0, 0")
WGMMA_SS(wgmma_scores_128, 64, float, "m64n128k16.f32.bf16.bf16", ", 1, 1, 0, 0")
WGMMA_SS(wgmma_scores_176, 88, float, "m64n176k16.f32.bf16.bf16", ", 1, 1, 0, 0")
WGMMA_SS(wgmma_scores_192, 96, float, "m64n192k16.f32.bf16.bf16", ", 1, 1, 0, 0")
WGMMA_RS(wgmma_values_64, 32, float, "m64n64k16.f32.bf16.bf16", ", 1, 1, 1")
WGMMA_RS(wgmma_values_128, 64, float, "m64n128k16.f32.bf16.bf16", ", 1, 1, 1")
WGMMA_RS(wgmma_values_256, 128, float, "m64n256k16.f32.bf16.bf16", ", 1, 1, 1")

#define MINUS_INFINITY __int_as_float(0xff800000)

// s = q * k^T over WIDTH columns. q_tile, k_tile: panels of 64 columns (rows of 128 bytes, 128-byte swizzle), one after the other
// q_panel and k_panel bytes apart.
template <int WIDTH, int COUNT>
__device__ __forceinline__ void wgmma_scores(float (&s)[COUNT], unsigned q_tile, unsigned q_panel, unsigned k_tile, unsigned k_panel) {
    #pragma unroll
    for (int step = 0; step < WIDTH / 16; step++) {
        unsigned long long q = wgmma_descriptor_k_major<128>(q_tile + step / 4 * q_panel + step % 4 * 32);
        unsigned long long k = wgmma_descriptor_k_major<128>(k_tile + step / 4 * k_panel + step % 4 * 32);
        if constexpr (COUNT == 32) wgmma_scores_64(s, q, k, step > 0);
        else if constexpr (COUNT == 40) wgmma_scores_80(s, q, k, step > 0);
        else if constexpr (COUNT == 64) wgmma_scores_128(s, q, k, step > 0);
        else if constexpr (COUNT == 88) wgmma_scores_176(s, q, k, step > 0);
        else wgmma_scores_192(s, q, k, step > 0);
    }
}

// o (+)= p * v over KEYS rows of v. V lies as it came, a row a key: for this product it is MN-major.
template <int KEYS, int COUNT>
__device__ __forceinline__ void wgmma_values(float (&o)[COUNT], const unsigned (&p)[KEYS / 16][4], unsigned v_tile, unsigned v_panel, int accumulate) {
    #pragma unroll
    for (int step = 0; step < KEYS / 16; step++) {
        unsigned long long v = wgmma_descriptor_mn_major(v_tile + step * 2048, v_panel);
        if constexpr (COUNT == 32) wgmma_values_64(o, p[step], v, step ? 1 : accumulate);
        else if constexpr (COUNT == 64) wgmma_values_128(o, p[step], v, step ? 1 : accumulate);
        else wgmma_values_256(o, p[step], v, step ? 1 : accumulate);
    }
}

// The scores as bf16, in the places where the next product wants its A operand.
template <int COUNT>
__device__ __forceinline__ void scores_to_fragments(unsigned (&p)[COUNT / 8][4], const float (&s)[COUNT]) {
    #pragma unroll
    for (int i = 0; i < COUNT / 2; i++) p[i / 4][i % 4] = pack_bf16x2(s[2 * i], s[2 * i + 1]);
}

__device__ __forceinline__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));       // [9.7.3.21]
    return y;
}

// The running maximum and sum of a thread's two rows (the upper one, and the one 8 below); a row is shared by four lanes.
struct Softmax {
    float most[2] = {MINUS_INFINITY, MINUS_INFINITY}, sum[2] = {0, 0};    // sum: this thread's columns only, until `total`

    // exp2(c * (s - maximum)) in place of s; returns in `scale` what everything summed up so far must be multiplied by.
    // SPLIT: into how many the maximum and the sum of a row are split, since a chain of dependent instructions is all latency.
    template <int SPLIT, int COUNT>
    __device__ __forceinline__ void block(float (&s)[COUNT], float (&scale)[2], float c) {
        float now[2][SPLIT], shift[2], added[2][SPLIT];
        auto begins = [](int i) { return SPLIT > 1 ? i < 2 * SPLIT : i == 0 || i == 2; };      // the first of its chain
        #pragma unroll
        for (int i = 0; i < COUNT; i++) {
            float& chain = now[i / 2 % 2][(i / 4 * 2 + i % 2) % SPLIT];
            chain = begins(i) ? s[i] : fmaxf(chain, s[i]);
        }
        #pragma unroll
        for (int r = 0; r < 2; r++) {
            float high = most[r];
            #pragma unroll
            for (int k = 0; k < SPLIT; k++) high = fmaxf(high, now[r][k]);
            high = fmaxf(high, __shfl_xor_sync(0xffffffff, high, 1));
            high = fmaxf(high, __shfl_xor_sync(0xffffffff, high, 2));
            shift[r] = high == MINUS_INFINITY ? 0 : high * c;   // a row without any key yet: all its terms become 0
            scale[r] = exp2_approx(most[r] * c - shift[r]);
            most[r] = high;
            sum[r] *= scale[r];
        }
        #pragma unroll
        for (int i = 0; i < COUNT; i++) {
            s[i] = exp2_approx(fmaf(s[i], c, -shift[i / 2 % 2]));
            float& chain = added[i / 2 % 2][(i / 4 * 2 + i % 2) % SPLIT];
            chain = begins(i) ? s[i] : chain + s[i];
        }
        #pragma unroll
        for (int r = 0; r < 2; r++)
            #pragma unroll
            for (int k = 0; k < SPLIT; k++) sum[r] += added[r][k];
    }

    // The whole row's sum, in all four lanes.
    __device__ __forceinline__ float total(int r) const {
        float whole = sum[r] + __shfl_xor_sync(0xffffffff, sum[r], 1);
        return whole + __shfl_xor_sync(0xffffffff, whole, 2);
    }
};

template <int COUNT>
__device__ __forceinline__ void scale_rows(float (&o)[COUNT], const float (&scale)[2]) {
    #pragma unroll
    for (int i = 0; i < COUNT; i++) o[i] *= scale[i / 2 % 2];
}

// Loads a box of a 3D map once for every CTA whose bit is set in `mask`, as cp_async_bulk_tensor_2d_load_multicast does. [9.7.9.25.5.2]
__device__ __forceinline__ void cp_async_bulk_tensor_3d_load_multicast(void* shared, const TensorMap* map, mbarrier_t* barrier,
                                                                       unsigned short mask, int c0, int c1, int c2) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%4, %5, %6}], [%2], %3;"
                 :: "r"(shared_address(shared)), "l"(map), "r"(shared_address(barrier)), "h"(mask), "r"(c0), "r"(c1), "r"(c2)
                 : "memory");
}

// --- what lies where, and who sees it ---------------------------------------------------------------------------------
struct Work {
    int head, first, queries, keys, q_start, k_start, blocks;   // first: of this CTA's queries in its sequence
};

// MASKED: a query sees the keys of a causal mask only. Blocks of BLOCK keys that some of `rows` queries from `first` on see.
template <int BLOCK, bool MASKED>
__device__ __forceinline__ int blocks_of(const Work& work, int first, int rows) {
    int seen = MASKED ? min(work.keys, first + rows + work.keys - work.queries) : work.keys;
    return seen <= 0 || first >= work.queries ? 0 : (seen + BLOCK - 1) / BLOCK;
}

// Tile number `index` of TILE queries: `group` heads at a time, and among them the longest rows of tiles first.
template <int TILE, int BLOCK, bool MASKED>
__device__ __forceinline__ Work work_of(int index, const int* q_starts, const int* k_starts, int tiles, int heads, int sequences, int group) {
    int all = heads * sequences, begin = index / (group * tiles) * group, width = min(group, all - begin);
    int rest = index - begin * tiles, unit = begin + rest % width, sequence = unit / heads;
    Work work;
    work.head = unit % heads;
    work.first = (tiles - 1 - rest / width) * TILE;
    work.q_start = q_starts[sequence], work.queries = q_starts[sequence + 1] - work.q_start;
    work.k_start = k_starts[sequence], work.keys = k_starts[sequence + 1] - work.k_start;
    work.blocks = blocks_of<BLOCK, MASKED>(work, work.first, TILE);          // none beyond the end of a shorter sequence
    return work;
}

// Minus infinity where a query must not see a key. row: this thread's upper row in its sequence; column: of s[0].
template <bool MASKED, int COUNT>
__device__ __forceinline__ void mask(float (&s)[COUNT], int row, int column, int keys, int offset) {
    #pragma unroll
    for (int i = 0; i < COUNT; i++) {
        int key = column + 8 * (i / 4) + i % 2, last = MASKED ? min(keys - 1, row + 8 * (i / 2 % 2) + offset) : keys - 1;
        if (key > last) s[i] = MINUS_INFINITY;
    }
}
// SPDX-License-Identifier: Apache-2.0
