// wgmma on bf16 for tiles of any width that is a multiple of 16 columns: what wgmma.cuh does not write out, by the macro of
// wgmma_operands.cuh. One name for all: the accumulator's size (half as many registers per thread as columns) picks it.
// [PTX ISA 9.7.15.5.2]
#pragma once
#include <hopperlab/wgmma_operands.cuh>

// The lists of registers that wgmma_operands.cuh lacks, each from a shorter one and groups of eight.
#define WGMMA_LIST_24 WGMMA_LIST_16 ", " WGMMA_TEXT_2
#define WGMMA_OUT_24(C, i) WGMMA_OUT_16(C, i), WGMMA_OUT_8(C, i + 16)
#define WGMMA_NEXT_24 "%24", "%25", "%26", "%27", "%28", "%29"
#define WGMMA_LIST_40 WGMMA_LIST_32 ", " WGMMA_TEXT_4
#define WGMMA_OUT_40(C, i) WGMMA_OUT_32(C, i), WGMMA_OUT_8(C, i + 32)
#define WGMMA_NEXT_40 "%40", "%41", "%42", "%43", "%44", "%45"
#define WGMMA_LIST_48 WGMMA_LIST_40 ", " WGMMA_TEXT_5
#define WGMMA_OUT_48(C, i) WGMMA_OUT_40(C, i), WGMMA_OUT_8(C, i + 40)
#define WGMMA_NEXT_48 "%48", "%49", "%50", "%51", "%52", "%53"
#define WGMMA_LIST_56 WGMMA_LIST_48 ", " WGMMA_TEXT_6
#define WGMMA_OUT_56(C, i) WGMMA_OUT_48(C, i), WGMMA_OUT_8(C, i + 48)
#define WGMMA_NEXT_56 "%56", "%57", "%58", "%59", "%60", "%61"
#define WGMMA_LIST_72 WGMMA_LIST_64 ", " WGMMA_TEXT_8
#define WGMMA_OUT_72(C, i) WGMMA_OUT_64(C, i), WGMMA_OUT_8(C, i + 64)
#define WGMMA_NEXT_72 "%72", "%73", "%74", "%75", "%76", "%77"
#define WGMMA_LIST_80 WGMMA_LIST_72 ", " WGMMA_TEXT_9
#define WGMMA_OUT_80(C, i) WGMMA_OUT_72(C, i), WGMMA_OUT_8(C, i + 72)
#define WGMMA_NEXT_80 "%80", "%81", "%82", "%83", "%84", "%85"
#define WGMMA_LIST_88 WGMMA_LIST_80 ", " WGMMA_TEXT_10
#define WGMMA_OUT_88(C, i) WGMMA_OUT_80(C, i), WGMMA_OUT_8(C, i + 80)
#define WGMMA_NEXT_88 "%88", "%89", "%90", "%91", "%92", "%93"
#define WGMMA_LIST_104 WGMMA_LIST_96 ", " WGMMA_TEXT_12
#define WGMMA_OUT_104(C, i) WGMMA_OUT_96(C, i), WGMMA_OUT_8(C, i + 96)
#define WGMMA_NEXT_104 "%104", "%105", "%106", "%107", "%108", "%109"
#define WGMMA_LIST_112 WGMMA_LIST_104 ", " WGMMA_TEXT_13
#define WGMMA_OUT_112(C, i) WGMMA_OUT_104(C, i), WGMMA_OUT_8(C, i + 104)
#define WGMMA_NEXT_112 "%112", "%113", "%114", "%115", "%116", "%117"
#define WGMMA_LIST_120 WGMMA_LIST_112 ", " WGMMA_TEXT_14
#define WGMMA_OUT_120(C, i) WGMMA_OUT_112(C, i), WGMMA_OUT_8(C, i + 112)
#define WGMMA_NEXT_120 "%120", "%121", "%122", "%123", "%124", "%125"

WGMMA_SS(wgmma_m64k16_bf16, 8, float, "m64n16k16.f32.bf16.bf16", ", 1, 1, 0, 0")
WGMMA_SS(wgmma_m64k16_bf16, 16, float, "m64n32k16.f32.bf16.bf16", ", 1, 1, 0, 0")
WGMMA_SS(wgmma_m64k16_bf16, 24, float, "m64n48k16.f32.bf16.bf16", ", 1, 1, 0, 0")
WGMMA_SS(wgmma_m64k16_bf16, 40, float, "m64n80k16.f32.bf16.bf16", ", 1, 1, 0, 0")
WGMMA_SS(wgmma_m64k16_bf16, 48, float, "m64n96k16.f32.bf16.bf16", ", 1, 1, 0, 0")
WGMMA_SS(wgmma_m64k16_bf16, 56, float, "m64n112k16.f32.bf16.bf16", ", 1, 1, 0, 0")
WGMMA_SS(wgmma_m64k16_bf16, 72, float, "m64n144k16.f32.bf16.bf16", ", 1, 1, 0, 0")
WGMMA_SS(wgmma_m64k16_bf16, 80, float, "m64n160k16.f32.bf16.bf16", ", 1, 1, 0, 0")
WGMMA_SS(wgmma_m64k16_bf16, 88, float, "m64n176k16.f32.bf16.bf16", ", 1, 1, 0, 0")
WGMMA_SS(wgmma_m64k16_bf16, 96, float, "m64n192k16.f32.bf16.bf16", ", 1, 1, 0, 0")
WGMMA_SS(wgmma_m64k16_bf16, 104, float, "m64n208k16.f32.bf16.bf16", ", 1, 1, 0, 0")
WGMMA_SS(wgmma_m64k16_bf16, 112, float, "m64n224k16.f32.bf16.bf16", ", 1, 1, 0, 0")
WGMMA_SS(wgmma_m64k16_bf16, 120, float, "m64n240k16.f32.bf16.bf16", ", 1, 1, 0, 0")
// SPDX-License-Identifier: Apache-2.0
