// What attention on e4m3 needs of a warpgroup beside attention.cuh: products whose B is K-major (8-bit types have no other
// [PTX ISA 9.7.15.5.1.2]), a softmax whose terms fit e4m3, and V transposed in shared memory.
//
// The order of keys. In an accumulator a thread (g = lane / 4, q = lane % 4) holds of 16 columns those at 2q, 2q + 1, 8 + 2q,
// 9 + 2q [9.7.15.5.2, D]; an A fragment of 8-bit elements wants 4q .. 4q + 3 there, in one register [9.7.15.5.1, A]. A sum over
// keys does not care for their order, as long as p and v have the same. So place 4q + 2b + a of 16 means key 8b + 2q + a:
// p stays where it is, and V^T is written in that order, which costs nothing: it is the order in which ldmatrix.trans hands it out.
#pragma once
#include <hopperlab/attention.cuh>
#include <hopperlab/fp8.cuh>
#include <hopperlab/mma.cuh>

// The lists of 48, 80 and 112 registers, for n = 96, 160 and 224.
#define WGMMA_LIST_48 WGMMA_LIST_32 ", " WGMMA_TEXT_4 ", " WGMMA_TEXT_5
#define WGMMA_OUT_48(C, i) WGMMA_OUT_32(C, i), WGMMA_OUT_16(C, i + 32)
#define WGMMA_NEXT_48 "%48", "%49", "%50", "%51", "%52", "%53"
#define WGMMA_LIST_80 WGMMA_LIST_64 ", " WGMMA_TEXT_8 ", " WGMMA_TEXT_9
#define WGMMA_OUT_80(C, i) WGMMA_OUT_64(C, i), WGMMA_OUT_16(C, i + 64)
#define WGMMA_NEXT_80 "%80", "%81", "%82", "%83", "%84", "%85"
#define WGMMA_LIST_112 WGMMA_LIST_96 ", " WGMMA_TEXT_12 ", " WGMMA_TEXT_13
#define WGMMA_OUT_112(C, i) WGMMA_OUT_96(C, i), WGMMA_OUT_16(C, i + 96)
#define WGMMA_NEXT_112 "%112", "%113", "%114", "%115", "%116", "%117"

WGMMA_SS(wgmma_m64n96k32_e4m3, 48, float, "m64n96k32.f32.e4m3.e4m3", ", 1, 1")
WGMMA_SS(wgmma_m64n160k32_e4m3, 80, float, "m64n160k32.f32.e4m3.e4m3", ", 1, 1")
WGMMA_SS(wgmma_m64n224k32_e4m3, 112, float, "m64n224k32.f32.e4m3.e4m3", ", 1, 1")
WGMMA_RS(wgmma_m64n256k32_e4m3_rs, 128, float, "m64n256k32.f32.e4m3.e4m3", ", 1, 1")

// The widest swizzled row (128, 64 or 32 bytes) that `bytes` are a multiple of.
__device__ constexpr int row_bytes(int bytes) { return bytes % 128 == 0 ? 128 : bytes % 64 == 0 ? 64 : 32; }

// Which 16 bytes of a row the swizzle of that width exchanges with which: chunk ^ swizzle_of(row). [5.5.6]
template <int ROW>
__device__ __forceinline__ int swizzle_of(int row) { return row / (128 / ROW) % (ROW / 16); }

// s = q * k^T over WIDTH columns: panels of `row_bytes(WIDTH)` columns, q_panel and k_panel bytes apart.
template <int WIDTH, int COUNT>
__device__ __forceinline__ void wgmma_scores_e4m3(float (&s)[COUNT], unsigned q_tile, unsigned q_panel, unsigned k_tile, unsigned k_panel) {
    constexpr int ROW = row_bytes(WIDTH), STEPS = ROW / 32;     // of a panel
    #pragma unroll
    for (int step = 0; step < WIDTH / 32; step++) {
        unsigned long long q = wgmma_descriptor_k_major<ROW>(q_tile + step / STEPS * q_panel + step % STEPS * 32);
        unsigned long long k = wgmma_descriptor_k_major<ROW>(k_tile + step / STEPS * k_panel + step % STEPS * 32);
        if constexpr (COUNT == 32) wgmma_m64n64k32_e4m3(s, q, k, step > 0);
        else if constexpr (COUNT == 48) wgmma_m64n96k32_e4m3(s, q, k, step > 0);
        else if constexpr (COUNT == 64) wgmma_m64n128k32_e4m3(s, q, k, step > 0);
        else if constexpr (COUNT == 80) wgmma_m64n160k32_e4m3(s, q, k, step > 0);
        else if constexpr (COUNT == 96) wgmma_m64n192k32_e4m3(s, q, k, step > 0);
        else wgmma_m64n224k32_e4m3(s, q, k, step > 0);
    }
}

// o (+)= p * v over KEYS keys. vt: panels of `row_bytes(KEYS)` keys, a row a column of v, `panel` bytes apart.
template <int KEYS, int COUNT>
__device__ __forceinline__ void wgmma_values_e4m3(float (&o)[COUNT], const unsigned (&p)[KEYS / 32][4], unsigned vt, unsigned panel, int accumulate) {
    constexpr int ROW = row_bytes(KEYS), STEPS = ROW / 32;
    #pragma unroll
    for (int step = 0; step < KEYS / 32; step++) {
        unsigned long long v = wgmma_descriptor_k_major<ROW>(vt + step / STEPS * panel + step % STEPS * 32);
        if constexpr (COUNT == 32) wgmma_m64n64k32_e4m3_rs(o, p[step], v, step ? 1 : accumulate);
        else if constexpr (COUNT == 64) wgmma_m64n128k32_e4m3_rs(o, p[step], v, step ? 1 : accumulate);
        else wgmma_m64n256k32_e4m3_rs(o, p[step], v, step ? 1 : accumulate);
    }
}

// Four fp32 numbers as e4m3, to nearest even, the first in the lowest byte. [cvt: 9.7.9.21]
__device__ __forceinline__ unsigned pack_e4m3x4(float a, float b, float c, float d) {
    unsigned word;
    asm("{\n.reg .b16 low, high;\ncvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\ncvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
        "mov.b32 %0, {low, high};\n}" : "=r"(word) : "f"(a), "f"(b), "f"(c), "f"(d));
    return word;
}

// The scores as e4m3, where the next product wants its A operand, keys in the order told above.
template <int COUNT>
__device__ __forceinline__ void scores_to_fragments_e4m3(unsigned (&p)[COUNT / 16][4], const float (&s)[COUNT]) {
    #pragma unroll
    for (int i = 0; i < COUNT / 4; i++) {                       // register 2 * half + row of the step
        const float* e = s + i / 4 * 16 + i / 2 % 2 * 8 + i % 2 * 2;
        p[i / 4][i % 4] = pack_e4m3x4(e[0], e[1], e[4], e[5]);
    }
}

// Softmax (attention.cuh) whose terms are 2^TERM_EXPONENT times as large: 256 is the largest power of two in e4m3 (448), so terms
// keep three bits down to 2^-14 of the largest one, and are 0 below 2^-18 of it; unscaled ones would end at 2^-6 and 2^-10. The
// sum has the same factor, which goes away in the division.
constexpr float TERM_EXPONENT = 8;

struct ScaledSoftmax : Softmax {
    // 2^TERM_EXPONENT * exp2(c * (s - maximum)) in place of s; returns in `scale` what everything summed up so far must be multiplied by.
    template <int COUNT>
    __device__ __forceinline__ void block(float (&s)[COUNT], float (&scale)[2], float c) {
        float high[2], shift[2], added[2];
        #pragma unroll
        for (int i = 0; i < COUNT; i++) high[i / 2 % 2] = i == 0 || i == 2 ? s[i] : fmaxf(high[i / 2 % 2], s[i]);
        #pragma unroll
        for (int r = 0; r < 2; r++) {
            high[r] = fmaxf(high[r], __shfl_xor_sync(0xffffffff, high[r], 1));
            high[r] = fmaxf(most[r], fmaxf(high[r], __shfl_xor_sync(0xffffffff, high[r], 2)));
            shift[r] = high[r] == MINUS_INFINITY ? 0 : high[r] * c;     // a row without any key yet: all its terms become 0
            scale[r] = exp2_approx(most[r] * c - shift[r]);
            shift[r] -= TERM_EXPONENT;
            most[r] = high[r];
        }
        #pragma unroll
        for (int i = 0; i < COUNT; i++) {
            s[i] = exp2_approx(fmaf(s[i], c, -shift[i / 2 % 2]));
            added[i / 2 % 2] = i == 0 || i == 2 ? s[i] : added[i / 2 % 2] + s[i];
        }
        #pragma unroll
        for (int r = 0; r < 2; r++) sum[r] = sum[r] * scale[r] + added[r];
    }
};

// What follows stays behind the softmax of whose sums this is one. A wait for wgmma has no operands, so ptxas moves it ahead of the exponentials that
// are meant to run under the product; a mask of lanes that depends on them it cannot know before. No sum is below 0, so it is all lanes.
__device__ __forceinline__ void behind(float sum) {
    __syncwarp(sum < 0 ? 0 : 0xffffffff);
}

// V^T of KEYS x WIDTH elements of V, by WARPS warps, this one being `warp`. v: panels of row_bytes(WIDTH) columns x KEYS rows, a row
// a key; vt: panels of row_bytes(KEYS) keys x WIDTH rows, a row a column; both swizzled. 32 keys x 16 columns at a time:
// ldmatrix.trans of byte pairs brings a lane (g, q) keys 2q and 2q + 1 of columns 2g and 2g + 1 [9.7.14.5.15], of four matrices
// 8 keys apart; one prmt of two of them is four keys of one column, in the order told above, and a row of stmatrix's. [9.7.14.5.16]
// Lanes of g < 4 give their even column first, the others their odd one: then the 8 rows that stmatrix writes at once, which are
// 2 apart, lie in different banks.
template <int KEYS, int WIDTH, int WARPS>
__device__ __forceinline__ void transpose_e4m3(unsigned v, unsigned vt, int warp) {
    constexpr int FROM = row_bytes(WIDTH), TO = row_bytes(KEYS), AT_ONCE = 2;
    int lane = threadIdx.x % 32, matrix = lane / 8, i = lane % 8;
    int column = 2 * i + (i / 4 ^ matrix % 2);                  // of 16: the row of V^T that this lane addresses
    unsigned first = lane < 16 ? 0x6420 : 0x7531, second = first ^ 0x1111;     // bytes of two registers [prmt: 9.7.9.7]
    unsigned from = v + lane * FROM, to = vt + column * TO;
    #pragma unroll 1
    for (int unit = warp; unit < KEYS / 32 * (WIDTH / 16 / AT_ONCE); unit += WARPS) {
        int keys = unit / (WIDTH / 16 / AT_ONCE), columns = unit % (WIDTH / 16 / AT_ONCE) * AT_ONCE;      // in units of 32 and 16
        int chunk = 2 * keys + matrix / 2;                      // 16 keys of V^T
        unsigned r[AT_ONCE][4];
        #pragma unroll
        for (int x = 0; x < AT_ONCE; x++)
            ldmatrix_x4_trans(r[x], from + (columns + x) / (FROM / 16) * (KEYS * FROM) + keys * 32 * FROM
                                        + ((columns + x) % (FROM / 16) ^ swizzle_of<FROM>(lane)) * 16);
        #pragma unroll
        for (int x = 0; x < AT_ONCE; x++)
            stmatrix_x4(to + chunk / (TO / 16) * (WIDTH * TO) + (columns + x) * 16 * TO + (chunk % (TO / 16) ^ swizzle_of<TO>(column)) * 16,
                        __byte_perm(r[x][0], r[x][1], first), __byte_perm(r[x][0], r[x][1], second),
                        __byte_perm(r[x][2], r[x][3], first), __byte_perm(r[x][2], r[x][3], second));
    }
}
// SPDX-License-Identifier: Apache-2.0
