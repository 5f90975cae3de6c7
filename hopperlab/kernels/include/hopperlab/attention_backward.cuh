// What attention's backward pass needs beyond the forward's pieces (attention.cuh): the product that makes dq, probabilities from a stored
// log-sum-exp, which tile a CTA has and in which order tiles add to a block of queries.
#pragma once
#include <hopperlab/attention.cuh>
#include <hopperlab/epilogue.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/tma_reduce.cuh>

WGMMA_SS(wgmma_dq_64, 32, float, "m64n64k16.f32.bf16.bf16", ", 1, 1, 1, 1")     // both tiles MN-major: the sum runs over their rows
CP_REDUCE_ASYNC_BULK_GLOBAL(cp_reduce_async_bulk_add_f32, "add.f32")

// d[64 x 64] = ds^T * k over KEYS rows of both. ds_panel: KEYS rows of 64 queries, k_panel: KEYS rows of 64 columns, both 128-byte swizzled.
template <int KEYS>
__device__ __forceinline__ void wgmma_dq(float (&d)[32], unsigned ds_panel, unsigned k_panel) {
    #pragma unroll
    for (int step = 0; step < KEYS / 16; step++)
        wgmma_dq_64(d, wgmma_descriptor_mn_major(ds_panel + step * 2048, KEYS * 128), wgmma_descriptor_mn_major(k_panel + step * 2048, KEYS * 128), step > 0);
}

// A fragment of 64 keys x 64 queries (bf16 pairs, as scores_to_fragments leaves them), columns 64 * panel on, as 64 rows of 128 bytes at `tile`.
template <int COUNT>
__device__ __forceinline__ void store_fragments(unsigned tile, const unsigned (&p)[COUNT][4], int panel) {
    int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane % 16;
    #pragma unroll
    for (int x = 0; x < 4; x++)                                 // 16 queries; lanes 0-15 name the first 8 of each row, lanes 16-31 the others
        stmatrix_x4(tile + row * 128 + ((2 * x + lane / 16) ^ (row % 8)) * 16, p[4 * panel + x][0], p[4 * panel + x][1], p[4 * panel + x][2], p[4 * panel + x][3]);
}

// p = exp2(c * s - lse) in place of s. A row of s is a key, a column a query: lse[i] is of query i of the block, times log2(e).
template <int COUNT>
__device__ __forceinline__ void probabilities(float (&s)[COUNT], const float* lse, float c) {
    #pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
        float2 of = *reinterpret_cast<const float2*>(lse + 2 * i + 2 * (threadIdx.x % 4));
        s[i] = exp2_approx(fmaf(s[i], c, -of.x)), s[i + 1] = exp2_approx(fmaf(s[i + 1], c, -of.y));
        s[i + 2] = exp2_approx(fmaf(s[i + 2], c, -of.x)), s[i + 3] = exp2_approx(fmaf(s[i + 3], c, -of.y));
    }
}

// ds = p * (dp - delta), rounded to bf16, as an A operand. delta[i] is of query i of the block. p comes in fp32, as `probabilities` left it, or
// rounded as the A operand of dv, which takes half the registers and rounds once more.
template <int COUNT>
__device__ __forceinline__ void score_gradients(unsigned (&ds)[COUNT / 8][4], const float (&p)[COUNT], const float (&dp)[COUNT], const float* delta) {
    #pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
        float2 of = *reinterpret_cast<const float2*>(delta + 2 * i + 2 * (threadIdx.x % 4));
        ds[i / 8][i / 2 % 4] = pack_bf16x2(p[i] * (dp[i] - of.x), p[i + 1] * (dp[i + 1] - of.y));
        ds[i / 8][i / 2 % 4 + 1] = pack_bf16x2(p[i + 2] * (dp[i + 2] - of.x), p[i + 3] * (dp[i + 3] - of.y));
    }
}

template <int COUNT>
__device__ __forceinline__ void score_gradients(unsigned (&ds)[COUNT / 8][4], const unsigned (&p)[COUNT / 8][4], const float (&dp)[COUNT], const float* delta) {
    auto low = [](unsigned pair) { return __uint_as_float(pair << 16); };
    auto high = [](unsigned pair) { return __uint_as_float(pair & 0xffff0000); };
    #pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
        float2 of = *reinterpret_cast<const float2*>(delta + 2 * i + 2 * (threadIdx.x % 4));
        unsigned above = p[i / 8][i / 2 % 4], below = p[i / 8][i / 2 % 4 + 1];
        ds[i / 8][i / 2 % 4] = pack_bf16x2(low(above) * (dp[i] - of.x), high(above) * (dp[i + 1] - of.y));
        ds[i / 8][i / 2 % 4 + 1] = pack_bf16x2(low(below) * (dp[i + 2] - of.x), high(below) * (dp[i + 3] - of.y));
    }
}

// Minus infinity where a key does not count: behind the sequence's end, or (MASKED) behind the query. key: of this thread's upper row, query: of s[0].
template <bool MASKED, int COUNT>
__device__ __forceinline__ void mask_keys(float (&s)[COUNT], int key, int query, int length) {
    #pragma unroll
    for (int i = 0; i < COUNT; i++) {
        int of_key = key + 8 * (i / 2 % 2), of_query = query + 8 * (i / 4) + i % 2;
        if (of_key >= length || (MASKED && of_key > of_query)) s[i] = MINUS_INFINITY;
    }
}

// Four neighbours in global memory, added in one instruction each time; nothing is returned. [9.7.13.6, .v4.f32]
__device__ __forceinline__ void red_global_add_v4_f32(float* address, float a, float b, float c, float d) {
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" :: "l"(address), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

// --- which block of keys a CTA has, which blocks of queries see it, and who adds before it ---------------------------------------------------------
struct KeyBlock {
    int unit, number, first, steps, turn;       // unit: batch * heads + head; the blocks of queries that see it are first .. first + steps - 1
    // The block of queries of step i: from `turn` on, around the end.
    __device__ __forceinline__ int queries(int i) const { return turn + i < first + steps ? turn + i : turn + i - steps; }
};

// Number `index`: `group` heads at a time, among them blocks in order, or (IN_ORDER and MASKED) the last ones first. blocks, tiles: of keys and of queries.
// TURNED: CTAs of a head begin at different blocks of queries, so that they do not all add to the same one.
template <int TILE, int BLOCK, bool MASKED, bool IN_ORDER, bool TURNED>
__device__ __forceinline__ KeyBlock key_block(int index, int blocks, int tiles, int units, int group) {
    int begin = index / (group * blocks) * group, width = min(group, units - begin), rest = index - begin * blocks;
    KeyBlock work;
    work.unit = begin + rest % width;
    work.number = IN_ORDER && MASKED ? blocks - 1 - rest / width : rest / width;
    work.first = MASKED ? work.number * BLOCK / TILE : 0;
    work.steps = tiles - work.first;
    work.turn = TURNED && !MASKED && !IN_ORDER ? work.number * tiles / blocks : work.first;
    return work;
}

// How many blocks of keys add to block m of queries before block `number` does: blocks before it in the order in which `key_block` hands them out.
template <int TILE, int BLOCK, bool MASKED>
__device__ __forceinline__ int adds_before(int m, int number, int blocks) {
    return MASKED ? min(blocks, (m * TILE + TILE - 1) / BLOCK + 1) - 1 - number : number;
}
// SPDX-License-Identifier: Apache-2.0
