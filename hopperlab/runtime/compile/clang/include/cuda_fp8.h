// fp8: e4m3 and e5m2, converted with saturation to the largest finite number. [CUDA Math API, FP8; PTX ISA 9.7.9.22]
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned __nv_fp8x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

// The pair's first number in the low byte.
CUDA_HL __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 a, __nv_saturation_t, __nv_fp8_interpretation_t kind) {
    unsigned short d;
    if (kind == __NV_E4M3) asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(d) : "f"(a.y), "f"(a.x));
    else asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(d) : "f"(a.y), "f"(a.x));
    return d;
}
CUDA_HL __nv_fp8_storage_t __nv_cvt_float_to_fp8(float a, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return (__nv_fp8_storage_t)__nv_cvt_float2_to_fp8x2(make_float2(a, 0.0f), saturate, kind);
}
CUDA_HL float2 __hl_fp8x2_to_float2(__nv_fp8x2_storage_t a, __nv_fp8_interpretation_t kind) {
    unsigned d;
    if (kind == __NV_E4M3) asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(d) : "h"(a));
    else asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(d) : "h"(a));
    return __half22float2(__builtin_bit_cast(__half2, d));
}
#define HL_FP8(name, kind) \
    struct __nv_fp8_##name { \
        __nv_fp8_storage_t __x; \
        __nv_fp8_##name() = default; \
        __attribute__((device, always_inline, nodebug)) explicit __nv_fp8_##name(float f) : __x(__nv_cvt_float_to_fp8(f, __NV_SATFINITE, kind)) {} \
        __attribute__((device, always_inline, nodebug)) explicit __nv_fp8_##name(__nv_bfloat16 f) : __nv_fp8_##name((float)f) {} \
        __attribute__((device, always_inline, nodebug)) explicit __nv_fp8_##name(__half f) : __nv_fp8_##name((float)f) {} \
        __attribute__((device, always_inline, nodebug)) explicit operator float() const { return __hl_fp8x2_to_float2(__x, kind).x; } \
    }; \
    struct __attribute__((aligned(2))) __nv_fp8x2_##name { \
        __nv_fp8x2_storage_t __x; \
        __nv_fp8x2_##name() = default; \
        __attribute__((device, always_inline, nodebug)) explicit __nv_fp8x2_##name(float2 f) : __x(__nv_cvt_float2_to_fp8x2(f, __NV_SATFINITE, kind)) {} \
        __attribute__((device, always_inline, nodebug)) explicit operator float2() const { return __hl_fp8x2_to_float2(__x, kind); } \
    }; \
    struct __attribute__((aligned(4))) __nv_fp8x4_##name { \
        __nv_fp8x4_storage_t __x; \
        __nv_fp8x4_##name() = default; \
        __attribute__((device, always_inline, nodebug)) explicit __nv_fp8x4_##name(float4 f) \
            : __x(__nv_cvt_float2_to_fp8x2(make_float2(f.x, f.y), __NV_SATFINITE, kind) | (unsigned)__nv_cvt_float2_to_fp8x2(make_float2(f.z, f.w), __NV_SATFINITE, kind) << 16) {} \
    };
HL_FP8(e4m3, __NV_E4M3)
HL_FP8(e5m2, __NV_E5M2)
#undef HL_FP8
// SPDX-License-Identifier: Apache-2.0
