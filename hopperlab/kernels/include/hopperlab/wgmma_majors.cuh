// One k-block of a product by wgmma whose operands lie in either order: LEFT_MN, RIGHT_MN say which is MN-major (operand_tile.cuh).
// The order is part of the instruction (imm-trans of A, of B) and of the descriptor. [PTX ISA 9.7.15.5.1, 9.7.15.5.2]
#pragma once
#include <hopperlab/wgmma_tile.cuh>
#include <hopperlab/wgmma_widths.cuh>

WGMMA_SS(wgmma_m64k16_bf16_left_mn, 8, float, "m64n16k16.f32.bf16.bf16", ", 1, 1, 1, 0")
WGMMA_SS(wgmma_m64k16_bf16_left_mn, 16, float, "m64n32k16.f32.bf16.bf16", ", 1, 1, 1, 0")
WGMMA_SS(wgmma_m64k16_bf16_left_mn, 24, float, "m64n48k16.f32.bf16.bf16", ", 1, 1, 1, 0")
WGMMA_SS(wgmma_m64k16_bf16_left_mn, 32, float, "m64n64k16.f32.bf16.bf16", ", 1, 1, 1, 0")
WGMMA_SS(wgmma_m64k16_bf16_left_mn, 40, float, "m64n80k16.f32.bf16.bf16", ", 1, 1, 1, 0")
WGMMA_SS(wgmma_m64k16_bf16_left_mn, 48, float, "m64n96k16.f32.bf16.bf16", ", 1, 1, 1, 0")
WGMMA_SS(wgmma_m64k16_bf16_left_mn, 56, float, "m64n112k16.f32.bf16.bf16", ", 1, 1, 1, 0")
WGMMA_SS(wgmma_m64k16_bf16_left_mn, 64, float, "m64n128k16.f32.bf16.bf16", ", 1, 1, 1, 0")
WGMMA_SS(wgmma_m64k16_bf16_left_mn, 72, float, "m64n144k16.f32.bf16.bf16", ", 1, 1, 1, 0")
WGMMA_SS(wgmma_m64k16_bf16_left_mn, 80, float, "m64n160k16.f32.bf16.bf16", ", 1, 1, 1, 0")
WGMMA_SS(wgmma_m64k16_bf16_left_mn, 88, float, "m64n176k16.f32.bf16.bf16", ", 1, 1, 1, 0")
WGMMA_SS(wgmma_m64k16_bf16_left_mn, 96, float, "m64n192k16.f32.bf16.bf16", ", 1, 1, 1, 0")
WGMMA_SS(wgmma_m64k16_bf16_left_mn, 104, float, "m64n208k16.f32.bf16.bf16", ", 1, 1, 1, 0")
WGMMA_SS(wgmma_m64k16_bf16_left_mn, 112, float, "m64n224k16.f32.bf16.bf16", ", 1, 1, 1, 0")
WGMMA_SS(wgmma_m64k16_bf16_left_mn, 120, float, "m64n240k16.f32.bf16.bf16", ", 1, 1, 1, 0")
WGMMA_SS(wgmma_m64k16_bf16_left_mn, 128, float, "m64n256k16.f32.bf16.bf16", ", 1, 1, 1, 0")
WGMMA_SS(wgmma_m64k16_bf16_right_mn, 32, float, "m64n64k16.f32.bf16.bf16", ", 1, 1, 0, 1")
WGMMA_SS(wgmma_m64k16_bf16_right_mn, 64, float, "m64n128k16.f32.bf16.bf16", ", 1, 1, 0, 1")
WGMMA_SS(wgmma_m64k16_bf16_right_mn, 96, float, "m64n192k16.f32.bf16.bf16", ", 1, 1, 0, 1")
WGMMA_SS(wgmma_m64k16_bf16_right_mn, 128, float, "m64n256k16.f32.bf16.bf16", ", 1, 1, 0, 1")

// d (+)= left * right over 64 columns of k. left: 64 rows (K-major) or one panel (MN-major); right: COUNT * 2 columns; shared addresses that
// are multiples of 1024. accumulate 0: the first k-step overwrites d.
template <bool LEFT_MN, bool RIGHT_MN, int COUNT>
__device__ __forceinline__ void wgmma_k_block_majors(float (&d)[COUNT], unsigned left, unsigned right, int accumulate) {
    static_assert(!LEFT_MN || !RIGHT_MN);
    #pragma unroll
    for (int step = 0; step < 4; step++) {                      // 16 of k: 32 bytes inside a row, or 16 rows of a panel
        unsigned l = left + step * (LEFT_MN ? 2048 : 32), r = right + step * (RIGHT_MN ? 2048 : 32);
        unsigned long long a = LEFT_MN ? wgmma_descriptor_mn_major(l, 8192) : wgmma_descriptor_128B(l);
        unsigned long long b = RIGHT_MN ? wgmma_descriptor_mn_major(r, 8192) : wgmma_descriptor_128B(r);
        if constexpr (LEFT_MN) wgmma_m64k16_bf16_left_mn(d, a, b, step == 0 ? accumulate : 1);
        else if constexpr (RIGHT_MN) wgmma_m64k16_bf16_right_mn(d, a, b, step == 0 ? accumulate : 1);
        else wgmma_m64k16_bf16(d, a, b, step == 0 ? accumulate : 1);
    }
}
// SPDX-License-Identifier: Apache-2.0
