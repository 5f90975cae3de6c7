// wgmma.mma_async.sp: A has at most two numbers that are not zero in every four neighbours of a row, and only those two are stored: a
// product of twice the k at the price of half of it. [PTX ISA 9.7.15.6]
//     WGMMA_SPARSE_SS(name, COUNT, float, "m64n128k32.f32.bf16.bf16", "0", ", 1, 1, 0, 0")
// defines name(d, a, b, metadata, accumulate): COUNT = N / 2 registers of D, a and b descriptors (A's tile: 64 rows of k / 2 stored
// numbers; B's: N rows of k). SELECTOR, a constant in quotes, says whose metadata counts.
//
// Metadata, 16-bit types, k = 32: each stored number has 2 bits, its place 0 .. 3 among its four. Eight of them, 16 columns of k, are 16 bits.
// A thread's word has row g in its low half and row g + 8 in its high half, of columns 16 c .. 16 c + 15, where c is the thread's place
// in the pair of lanes that SELECTOR names: 0: lanes with q = 0, 1; 1: lanes with q = 2, 3 (q = lane % 4, g = lane / 4). The other
// two lanes' words are not looked at: so a word a thread serves two k-steps, one with each selector.
#pragma once
#include <hopperlab/wgmma_operands.cuh>

#define WGMMA_SPARSE_SS_(NAME, COUNT, TYPE, SHAPE, SELECTOR, TAIL, A, B, METADATA, ACCUMULATE, N4, N5)                        \
__device__ __forceinline__ void NAME(TYPE (&d)[COUNT], unsigned long long a, unsigned long long b, unsigned metadata, int accumulate) {   \
    asm volatile("{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, " ACCUMULATE ", 0;\n"                                   \
                 "wgmma.mma_async.sp.sync.aligned." SHAPE " {" WGMMA_LIST_##COUNT "}, " A ", " B ", " METADATA ", " SELECTOR  \
                 ", accumulate" TAIL ";\n}"                                                                                   \
                 : WGMMA_OUT_##COUNT(WGMMA_CONSTRAINT_##TYPE, 0) : "l"(a), "l"(b), "r"(metadata), "r"(accumulate) : "memory"); \
}
#define WGMMA_SPARSE_SS(NAME, COUNT, TYPE, SHAPE, SELECTOR, TAIL)                                                             \
    WGMMA_CALL(WGMMA_SPARSE_SS_, NAME, COUNT, TYPE, SHAPE, SELECTOR, TAIL, WGMMA_NEXT_##COUNT)
// SPDX-License-Identifier: Apache-2.0
