// What decoding needs of a warp: sixteen rows, of which the query heads that share a head of k and v use the first HEADS, against sixteen
// keys at a time by mma.sync. A warp keeps its own maximum, sum and output, so that warps meet only when a piece ends.
// [PTX ISA 9.7.14.5.8; split along keys: Dao et al. 2023, Flash-Decoding]
// In a fragment, lane l has g = l / 4 (rows g and g + 8) and q = l % 4 (columns 2q and 2q + 1).
#pragma once
#include <cuda_bf16.h>
#include <hopperlab/attention.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/griddepcontrol.cuh>
#include <hopperlab/mma.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/tma.cuh>

// What one CTA does at a stretch: keys first to end - 1 of a sequence, for all query heads of one head of k and v. `slot`: where its
// part of the result goes, -1 where it is the whole.
struct Piece { int sequence, head, first, end, slot; };

// log2(e) times the scale of the scores: exponentials to the base 2.
__device__ __forceinline__ float base_2(float scale) { return scale * 1.44269504f; }

// The A fragment of columns k0 .. k0 + 15 of up to 16 rows of q, straight from memory; rows from HEADS on are zero.
template <int HEADS>
__device__ __forceinline__ void load_q_fragment(unsigned (&a)[4], const __nv_bfloat16* q, int pitch, int k0) {
    int lane = threadIdx.x % 32, row = lane / 4;
    const __nv_bfloat16* from = q + row * pitch + k0 + 2 * (lane % 4);
    #pragma unroll
    for (int i = 0; i < 4; i++)
        a[i] = row + i % 2 * 8 < HEADS ? *reinterpret_cast<const unsigned*>(from + i % 2 * 8 * pitch + i / 2 * 8) : 0;
}

// Maximum and sum of a lane's rows g and g + 8, in which ROWS (1 or 2) are in use. The sum is of this lane's columns until `total`.
template <int ROWS>
struct RunningSoftmax {
    float most[2] = {MINUS_INFINITY, MINUS_INFINITY}, sum[2] = {0, 0};

    // Scores of COUNT blocks of 8 keys become exp2(c * (s - maximum)); `out` is scaled to the new maximum. Of the keys only the first `keys` exist.
    template <int COUNT, int WIDTH>
    __device__ __forceinline__ void block(float (&s)[COUNT][4], float (&out)[WIDTH][4], int keys, float c) {
        int column = 2 * (threadIdx.x % 4);
        #pragma unroll
        for (int i = 0; i < 4 * COUNT; i++)
            if (i / 4 * 8 + column + i % 2 >= keys) s[i / 4][i % 4] = MINUS_INFINITY;
        #pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float high = most[r];
            #pragma unroll
            for (int i = 0; i < COUNT; i++) high = fmaxf(high, fmaxf(s[i][2 * r], s[i][2 * r + 1]));
            high = fmaxf(high, __shfl_xor_sync(0xffffffff, high, 1));
            high = fmaxf(high, __shfl_xor_sync(0xffffffff, high, 2));
            float scale = exp2_approx(c * (most[r] - high)), added = 0;
            most[r] = high;
            #pragma unroll
            for (int i = 0; i < COUNT; i++)
                for (int x = 2 * r; x < 2 * r + 2; x++) added += s[i][x] = exp2_approx(c * (s[i][x] - high));
            sum[r] = sum[r] * scale + added;
            #pragma unroll
            for (int i = 0; i < WIDTH; i++) out[i][2 * r] *= scale, out[i][2 * r + 1] *= scale;
        }
    }
    // The sum of row r over the four lanes that share it.
    __device__ __forceinline__ float total(int r) const {
        float all = sum[r] + __shfl_xor_sync(0xffffffff, sum[r], 1);
        return all + __shfl_xor_sync(0xffffffff, all, 2);
    }
};

// Two blocks of 8 scores as the A fragment of the product with v. [9.7.14.5.8]
template <int ROWS>
__device__ __forceinline__ void p_fragment(unsigned (&a)[4], const float (&low)[4], const float (&high)[4]) {
    a[0] = pack_bf16x2(low[0], low[1]), a[2] = pack_bf16x2(high[0], high[1]);
    a[1] = ROWS > 1 ? pack_bf16x2(low[2], low[3]) : 0, a[3] = ROWS > 1 ? pack_bf16x2(high[2], high[3]) : 0;
}

// out (+)= p * v over sixteen keys and WIDTH columns. row_address: of this lane's row of v (lane % 16), its 16-byte chunks swizzled over rows of 128 bytes;
// panel_bytes: between 64 columns and the next; first: the first column. What lies past the end may be anything: zero times NaN is NaN, so it is made zero.
template <int WIDTH>
__device__ __forceinline__ void multiply_values(float (&out)[WIDTH / 8][4], const unsigned (&p)[4], unsigned row_address, int panel_bytes, int first, int keys) {
    int lane = threadIdx.x % 32, key = 2 * (lane % 4);
    unsigned low = (key < keys ? 0xffff : 0) | (key + 1 < keys ? 0xffff0000 : 0), high = (key + 8 < keys ? 0xffff : 0) | (key + 9 < keys ? 0xffff0000 : 0);
    #pragma unroll
    for (int x = 0; x < WIDTH / 16; x++) {
        unsigned v[4], column = first + 16 * x, chunk = column % 64 / 8 + lane / 16;
        ldmatrix_x4_trans(v, row_address + column / 64 * panel_bytes + (chunk ^ lane % 8) * 16);
        mma_m16n8k16_bf16(out[2 * x], p, v[0] & low, v[1] & high);
        mma_m16n8k16_bf16(out[2 * x + 1], p, v[2] & low, v[3] & high);
    }
}
// SPDX-License-Identifier: Apache-2.0
