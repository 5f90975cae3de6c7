// Weights of 4 and 8 bits to bf16 in registers, by bit patterns instead of conversions. [PTX ISA 9.7.8.6 (lop3), 9.7.4 (sub, mul of bf16x2)]
//
// A bf16 number is the upper half of a float: 8 bits of exponent, 7 of mantissa. 0x4300 is 128, and its mantissa's lowest bit is
// worth 1: whatever 0 <= u < 128 is put into it, 0x4300 | u is the number 128 + u, exactly. So one lop3 makes two numbers out of two
// fields of a 32-bit word, wherever those lie 16 bits apart, and one subtraction takes the 128 away.
//
// One k-step (16 columns) of A's fragment is four registers of two numbers each (wgmma, 16-bit A): register r holds row g + 8 (r % 2),
// columns 2q + 8 (r / 2) and the next. The prepared layout has the fields in the order in which the registers want them:
//   4 bits: one word, register r in bits 4r .. 4r + 3 (even column) and 16 + 4r .. (odd column), as u = weight + 8
//   8 bits: two words, registers 0, 1 in the first, 2, 3 in the second; r in byte r % 2 (even column) and 2 + r % 2 (odd), two's complement
// Rows have a scale each: scales = row g's in the low half, row g + 8's in the high half.
#pragma once
#include <cuda_bf16.h>

// (a & mask) | bits, in one instruction. [9.7.8.6]
__device__ __forceinline__ unsigned lop3_and_or(unsigned a, unsigned mask, unsigned bits) {
    unsigned d;
    asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(d) : "r"(a), "r"(mask), "r"(bits));
    return d;
}

// Two bf16 differences, and two products, each rounded to nearest even. [9.7.4.2, 9.7.4.3]
__device__ __forceinline__ unsigned sub_bf16x2(unsigned a, unsigned b) {
    unsigned d;
    asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}

__device__ __forceinline__ unsigned mul_bf16x2(unsigned a, unsigned b) {
    unsigned d;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}

// Both halves of the result are half `high` of `pair`. [prmt: 9.7.9.7]
__device__ __forceinline__ unsigned broadcast_half(unsigned pair, int high) {
    return __byte_perm(pair, 0, high ? 0x3232 : 0x1010);
}

// The two nibbles of every byte change places: what one reads who stored the fields in another order (lesson 15x's bug).
__device__ __forceinline__ void exchange_nibbles(uint4& words) {
    unsigned* word = &words.x;
    for (int i = 0; i < 4; i++) word[i] = word[i] >> 4 & 0x0F0F0F0F | (word[i] & 0x0F0F0F0F) << 4;
}

// a = one k-step of the fragment from a word of eight 4-bit weights; low, high: the scales of rows g and g + 8, twice each.
__device__ __forceinline__ void dequantise_4(unsigned (&a)[4], unsigned word, unsigned low, unsigned high) {
    #pragma unroll
    for (int r = 0; r < 4; r++) {
        unsigned u = lop3_and_or(word >> 4 * r, 0x000F000F, 0x43004300);       // 128 + (weight + 8)
        a[r] = mul_bf16x2(sub_bf16x2(u, 0x43084308), r % 2 ? high : low);                               // 0x4308 = 136
    }
}

// The same from two words of four 8-bit weights each. Bit 7 stands in the exponent, where it would double the number: the low
// seven bits make 128 + (w & 127), and bit 7 alone makes 128 or 256, which is what has to be taken away.
__device__ __forceinline__ void dequantise_8(unsigned (&a)[4], unsigned first, unsigned second, unsigned low, unsigned high) {
    #pragma unroll
    for (int r = 0; r < 4; r++) {
        unsigned word = (r < 2 ? first : second) >> 8 * (r % 2);
        unsigned size = lop3_and_or(word, 0x007F007F, 0x43004300), away = lop3_and_or(word, 0x00800080, 0x43004300);
        a[r] = mul_bf16x2(sub_bf16x2(size, away), r % 2 ? high : low);
    }
}
// SPDX-License-Identifier: Apache-2.0
