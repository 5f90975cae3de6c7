// The narrow products, beside those of wgmma_tile.cuh: 4, 8 or 16 accumulator registers per thread are 64 rows x 8, 16 or 32
// columns. A thread holds in d[i] the same rows and columns as in the wider ones. [PTX ISA 9.7.15.5.2]
#pragma once
#include <hopperlab/wgmma_tile.cuh>

// d[64x8] = a[64x16] * b[16x8] + (accumulate ? d : 0), bf16 in, fp32 out, both tiles K-major. [9.7.15.5.2]
__device__ __forceinline__ void wgmma_m64k16_bf16(float (&d)[4], unsigned long long a, unsigned long long b, int accumulate) {
    asm volatile("{\n"
                 ".reg .pred accumulate;\n"
                 "setp.ne.b32 accumulate, %6, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, accumulate, 1, 1, 0, 0;\n"
                 "}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b), "r"(accumulate) : "memory");
}

// d[64x16] = a[64x16] * b[16x16] + (accumulate ? d : 0). [9.7.15.5.2]
__device__ __forceinline__ void wgmma_m64k16_bf16(float (&d)[8], unsigned long long a, unsigned long long b, int accumulate) {
    asm volatile("{\n"
                 ".reg .pred accumulate;\n"
                 "setp.ne.b32 accumulate, %10, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, "
                 "%8, %9, accumulate, 1, 1, 0, 0;\n"
                 "}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
                 : "l"(a), "l"(b), "r"(accumulate) : "memory");
}

// d[64x32] = a[64x16] * b[16x32] + (accumulate ? d : 0). [9.7.15.5.2]
__device__ __forceinline__ void wgmma_m64k16_bf16(float (&d)[16], unsigned long long a, unsigned long long b, int accumulate) {
    asm volatile("{\n"
                 ".reg .pred accumulate;\n"
                 "setp.ne.b32 accumulate, %18, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, "
                 " %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, accumulate, 1, 1, 0, 0;\n"
                 "}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                   "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
                 : "l"(a), "l"(b), "r"(accumulate) : "memory");
}
// SPDX-License-Identifier: Apache-2.0
