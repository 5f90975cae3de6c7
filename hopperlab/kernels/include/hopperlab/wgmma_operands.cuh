// wgmma for every operand type and source. wgmma.cuh writes out three instructions in full; here a macro makes the wrapper of
// the one that a kernel names, since only the lists of registers differ. [PTX ISA 9.7.15.5.2]
//     WGMMA_SS(name, 64, float, "m64n128k16.f32.f16.f16", ", 1, 1, 0, 0")    A and B in shared memory
//     WGMMA_RS(name, 64, float, "m64n128k16.f32.f16.f16", ", 1, 1, 0")       A in registers
// define name(d, a, b, accumulate): d: N / 2 registers per thread (COUNT; float, or int for 8-bit integers), a: a descriptor or
// four registers, b: a descriptor. The last argument ends the instruction: signs of A and B (floating point only), then
// imm-trans of A (SS) and of B (16-bit types only): 1 reads an MN-major tile.
#pragma once
#include <hopperlab/wgmma.cuh>

// A descriptor from its fields: leading and stride in bytes, swizzle 0 none, 1 = 128 B, 2 = 64 B, 3 = 32 B. [9.7.15.5.1.2.2]
__device__ __forceinline__ unsigned long long wgmma_descriptor(unsigned address, unsigned leading, unsigned stride,
                                                               unsigned swizzle) {
    return (unsigned long long)((address & 0x3FFFF) >> 4) | (unsigned long long)(leading >> 4) << 16
         | (unsigned long long)(stride >> 4) << 32 | (unsigned long long)swizzle << 62;
}

// A K-major tile of rows of `row_bytes` (32, 64 or 128) in the swizzle of that width, as TMA writes it; a k-step of 32 bytes
// adds 32 to the address, whatever the type.
template <int ROW_BYTES>
__device__ __forceinline__ unsigned long long wgmma_descriptor_k_major(unsigned address) {
    return wgmma_descriptor(address, 16, 8 * ROW_BYTES, ROW_BYTES == 128 ? 1 : ROW_BYTES == 64 ? 2 : 3);
}

// An MN-major tile of 16-bit elements: panels of 64 columns (128 bytes) x K rows in the 128-byte swizzle, `panel_bytes` from one
// panel to the next, 1024 bytes from one group of 8 rows (k) to the next. A k-step of 16 adds 2048 to the address.
__device__ __forceinline__ unsigned long long wgmma_descriptor_mn_major(unsigned address, unsigned panel_bytes) {
    return wgmma_descriptor(address, panel_bytes, 1024, 1);
}

// The accumulator's registers: %0 .. in the text, d[0] .. as operands, and the numbers that follow them.
#define WGMMA_TEXT_0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WGMMA_TEXT_1 "%8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_TEXT_2 "%16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_TEXT_3 "%24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_TEXT_4 "%32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_TEXT_5 "%40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_TEXT_6 "%48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_TEXT_7 "%56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_TEXT_8 "%64, %65, %66, %67, %68, %69, %70, %71"
#define WGMMA_TEXT_9 "%72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_TEXT_10 "%80, %81, %82, %83, %84, %85, %86, %87"
#define WGMMA_TEXT_11 "%88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_TEXT_12 "%96, %97, %98, %99, %100, %101, %102, %103"
#define WGMMA_TEXT_13 "%104, %105, %106, %107, %108, %109, %110, %111"
#define WGMMA_TEXT_14 "%112, %113, %114, %115, %116, %117, %118, %119"
#define WGMMA_TEXT_15 "%120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_LIST_4 "%0, %1, %2, %3"
#define WGMMA_LIST_8 WGMMA_TEXT_0
#define WGMMA_LIST_16 WGMMA_LIST_8 ", " WGMMA_TEXT_1
#define WGMMA_LIST_32 WGMMA_LIST_16 ", " WGMMA_TEXT_2 ", " WGMMA_TEXT_3
#define WGMMA_LIST_64 WGMMA_LIST_32 ", " WGMMA_TEXT_4 ", " WGMMA_TEXT_5 ", " WGMMA_TEXT_6 ", " WGMMA_TEXT_7
#define WGMMA_LIST_96 WGMMA_LIST_64 ", " WGMMA_TEXT_8 ", " WGMMA_TEXT_9 ", " WGMMA_TEXT_10 ", " WGMMA_TEXT_11
#define WGMMA_LIST_128 WGMMA_LIST_96 ", " WGMMA_TEXT_12 ", " WGMMA_TEXT_13 ", " WGMMA_TEXT_14 ", " WGMMA_TEXT_15
#define WGMMA_OUT_4(C, i) C(d[i]), C(d[i + 1]), C(d[i + 2]), C(d[i + 3])
#define WGMMA_OUT_8(C, i) WGMMA_OUT_4(C, i), WGMMA_OUT_4(C, i + 4)
#define WGMMA_OUT_16(C, i) WGMMA_OUT_8(C, i), WGMMA_OUT_8(C, i + 8)
#define WGMMA_OUT_32(C, i) WGMMA_OUT_16(C, i), WGMMA_OUT_16(C, i + 16)
#define WGMMA_OUT_64(C, i) WGMMA_OUT_32(C, i), WGMMA_OUT_32(C, i + 32)
#define WGMMA_OUT_96(C, i) WGMMA_OUT_64(C, i), WGMMA_OUT_32(C, i + 64)
#define WGMMA_OUT_128(C, i) WGMMA_OUT_64(C, i), WGMMA_OUT_64(C, i + 64)
#define WGMMA_NEXT_4 "%4", "%5", "%6", "%7", "%8", "%9"
#define WGMMA_NEXT_8 "%8", "%9", "%10", "%11", "%12", "%13"
#define WGMMA_NEXT_16 "%16", "%17", "%18", "%19", "%20", "%21"
#define WGMMA_NEXT_32 "%32", "%33", "%34", "%35", "%36", "%37"
#define WGMMA_NEXT_64 "%64", "%65", "%66", "%67", "%68", "%69"
#define WGMMA_NEXT_96 "%96", "%97", "%98", "%99", "%100", "%101"
#define WGMMA_NEXT_128 "%128", "%129", "%130", "%131", "%132", "%133"
#define WGMMA_CONSTRAINT_float "+f"
#define WGMMA_CONSTRAINT_int "+r"

#define WGMMA_SS_(NAME, COUNT, TYPE, SHAPE, TAIL, A, B, ACCUMULATE, N3, N4, N5)                                              \
__device__ __forceinline__ void NAME(TYPE (&d)[COUNT], unsigned long long a, unsigned long long b, int accumulate) {         \
    asm volatile("{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, " ACCUMULATE ", 0;\n"                                   \
                 "wgmma.mma_async.sync.aligned." SHAPE " {" WGMMA_LIST_##COUNT "}, " A ", " B ", accumulate" TAIL ";\n}"     \
                 : WGMMA_OUT_##COUNT(WGMMA_CONSTRAINT_##TYPE, 0) : "l"(a), "l"(b), "r"(accumulate) : "memory");              \
}
#define WGMMA_RS_(NAME, COUNT, TYPE, SHAPE, TAIL, A0, A1, A2, A3, B, ACCUMULATE)                                             \
__device__ __forceinline__ void NAME(TYPE (&d)[COUNT], const unsigned (&a)[4], unsigned long long b, int accumulate) {       \
    asm volatile("{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, " ACCUMULATE ", 0;\n"                                   \
                 "wgmma.mma_async.sync.aligned." SHAPE " {" WGMMA_LIST_##COUNT "}, "                                         \
                 "{" A0 ", " A1 ", " A2 ", " A3 "}, " B ", accumulate" TAIL ";\n}"                                           \
                 : WGMMA_OUT_##COUNT(WGMMA_CONSTRAINT_##TYPE, 0)                                                             \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate) : "memory");                          \
}
#define WGMMA_CALL(MACRO, ...) MACRO(__VA_ARGS__)           // once more through the preprocessor: the numbers become arguments
#define WGMMA_SS(NAME, COUNT, TYPE, SHAPE, TAIL) WGMMA_CALL(WGMMA_SS_, NAME, COUNT, TYPE, SHAPE, TAIL, WGMMA_NEXT_##COUNT)
#define WGMMA_RS(NAME, COUNT, TYPE, SHAPE, TAIL) WGMMA_CALL(WGMMA_RS_, NAME, COUNT, TYPE, SHAPE, TAIL, WGMMA_NEXT_##COUNT)
// SPDX-License-Identifier: Apache-2.0
