// __nv_bfloat16 and pairs of it: conversions and arithmetic, rounded to nearest even. [CUDA Math API, Bfloat16 Precision; PTX ISA 9.7.4, 9.7.9.22]
#pragma once

#define HL_IN __attribute__((device, always_inline, nodebug)) inline
CUDA_HL unsigned short __hl_to_bf16(float x) { unsigned short d; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(d) : "f"(x)); return d; }

struct __attribute__((aligned(2))) __nv_bfloat16_raw { unsigned short x; };
struct __attribute__((aligned(4))) __nv_bfloat162_raw { unsigned short x, y; };
struct __attribute__((aligned(2))) __nv_bfloat16 {
    unsigned short __x;
    __nv_bfloat16() = default;
    HL_IN constexpr __nv_bfloat16(__nv_bfloat16_raw r) : __x(r.x) {}
    HL_IN __nv_bfloat16(float f) : __x(__hl_to_bf16(f)) {}
    HL_IN __nv_bfloat16(double f) : __x(__hl_to_bf16((float)f)) {}
    HL_IN __nv_bfloat16(int i) : __x(__hl_to_bf16((float)i)) {}
    HL_IN __nv_bfloat16(unsigned i) : __x(__hl_to_bf16((float)i)) {}
    HL_IN __nv_bfloat16(long long i) : __x(__hl_to_bf16((float)i)) {}
    HL_IN operator float() const { float f; asm("cvt.f32.bf16 %0, %1;" : "=f"(f) : "h"(__x)); return f; }
    HL_IN operator __nv_bfloat16_raw() const { return {__x}; }
};
struct __attribute__((aligned(4))) __nv_bfloat162 {
    __nv_bfloat16 x, y;
    __nv_bfloat162() = default;
    HL_IN __nv_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) : x(a), y(b) {}
};
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

CUDA_HL float __bfloat162float(__nv_bfloat16 a) { return (float)a; }
CUDA_HL __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
CUDA_HL __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
CUDA_HL __nv_bfloat16 __double2bfloat16(double x) { return __nv_bfloat16(x); }
CUDA_HL __nv_bfloat16 __int2bfloat16_rn(int x) { return __nv_bfloat16(x); }
CUDA_HL __nv_bfloat16 __float2bfloat16_rz(float x) { unsigned short d; asm("cvt.rz.bf16.f32 %0, %1;" : "=h"(d) : "f"(x)); return __nv_bfloat16_raw{d}; }
CUDA_HL __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { return __nv_bfloat16_raw{x}; }
CUDA_HL __nv_bfloat16 __short_as_bfloat16(short x) { return __nv_bfloat16_raw{(unsigned short)x}; }
CUDA_HL unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.__x; }
CUDA_HL short __bfloat16_as_short(__nv_bfloat16 x) { return (short)x.__x; }
CUDA_HL __nv_bfloat162 __floats2bfloat162_rn(float low, float high) {
    unsigned d;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
    return __builtin_bit_cast(__nv_bfloat162, d);
}
CUDA_HL __nv_bfloat162 __float22bfloat162_rn(float2 a) { return __floats2bfloat162_rn(a.x, a.y); }
CUDA_HL __nv_bfloat162 __float2bfloat162_rn(float a) { return __floats2bfloat162_rn(a, a); }
// From the word as a whole: halves that are taken out of a loaded vector would give the load the line of who takes them.
CUDA_HL float2 __bfloat1622float2(__nv_bfloat162 a) {
    unsigned bits = __builtin_bit_cast(unsigned, a);
    return make_float2(__builtin_bit_cast(float, bits << 16), __builtin_bit_cast(float, bits & 0xffff0000u));
}
CUDA_HL __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return __nv_bfloat162(a, a); }
CUDA_HL __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat162(a, b); }
CUDA_HL __nv_bfloat162 make_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat162(a, b); }
CUDA_HL __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a) { return a.x; }
CUDA_HL __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a) { return a.y; }
CUDA_HL float __low2float(__nv_bfloat162 a) { return (float)a.x; }
CUDA_HL float __high2float(__nv_bfloat162 a) { return (float)a.y; }

// Sums and products of two bf16 are exact enough in fp32 that one rounding at the end is the rounding of the exact result.
#define HL_OF_TWO(name, operation) \
    CUDA_HL __nv_bfloat16 name(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16((float)a operation (float)b); } \
    CUDA_HL __nv_bfloat162 name##2(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(name(a.x, b.x), name(a.y, b.y)); } \
    CUDA_HL __nv_bfloat16 operator operation(const __nv_bfloat16& a, const __nv_bfloat16& b) { return name(a, b); } \
    CUDA_HL __nv_bfloat162 operator operation(const __nv_bfloat162& a, const __nv_bfloat162& b) { return name##2(a, b); } \
    CUDA_HL __nv_bfloat16& operator operation##=(__nv_bfloat16& a, const __nv_bfloat16& b) { return a = name(a, b); } \
    CUDA_HL __nv_bfloat162& operator operation##=(__nv_bfloat162& a, const __nv_bfloat162& b) { return a = name##2(a, b); }
HL_OF_TWO(__hadd, +) HL_OF_TWO(__hsub, -) HL_OF_TWO(__hmul, *)
#undef HL_OF_TWO
CUDA_HL __nv_bfloat16 __hdiv(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16((float)a / (float)b); }
CUDA_HL __nv_bfloat16 operator/(const __nv_bfloat16& a, const __nv_bfloat16& b) { return __hdiv(a, b); }
CUDA_HL __nv_bfloat16 operator-(const __nv_bfloat16& a) { return __nv_bfloat16_raw{(unsigned short)(a.__x ^ 0x8000)}; }
CUDA_HL __nv_bfloat16 __hneg(__nv_bfloat16 a) { return -a; }
CUDA_HL __nv_bfloat16 __habs(__nv_bfloat16 a) { return __nv_bfloat16_raw{(unsigned short)(a.__x & 0x7fff)}; }
CUDA_HL __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
    unsigned short d;
    asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(d) : "h"(a.__x), "h"(b.__x), "h"(c.__x));
    return __nv_bfloat16_raw{d};
}
CUDA_HL __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) { return __nv_bfloat162(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); }
CUDA_HL __nv_bfloat16 __hmax(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(fmaxf(a, b)); }
CUDA_HL __nv_bfloat16 __hmin(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(fminf(a, b)); }
CUDA_HL __nv_bfloat162 __hmax2(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(__hmax(a.x, b.x), __hmax(a.y, b.y)); }
CUDA_HL __nv_bfloat162 __hmin2(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(__hmin(a.x, b.x), __hmin(a.y, b.y)); }
#define HL_COMPARE(name, operation) \
    CUDA_HL bool name(__nv_bfloat16 a, __nv_bfloat16 b) { return (float)a operation (float)b; } \
    CUDA_HL bool operator operation(const __nv_bfloat16& a, const __nv_bfloat16& b) { return name(a, b); }
HL_COMPARE(__heq, ==) HL_COMPARE(__hne, !=) HL_COMPARE(__hlt, <) HL_COMPARE(__hle, <=) HL_COMPARE(__hgt, >) HL_COMPARE(__hge, >=)
#undef HL_COMPARE
CUDA_HL bool __hisnan(__nv_bfloat16 a) { return (a.__x & 0x7fff) > 0x7f80; }
CUDA_HL __nv_bfloat16 atomicAdd(__nv_bfloat16* p, __nv_bfloat16 v) {
    unsigned short old;
    asm volatile("atom.add.noftz.bf16 %0, [%1], %2;" : "=h"(old) : "l"(p), "h"(v.__x) : "memory");
    return __nv_bfloat16_raw{old};
}
CUDA_HL __nv_bfloat162 atomicAdd(__nv_bfloat162* p, __nv_bfloat162 v) {
    unsigned old;
    asm volatile("atom.add.noftz.bf16x2 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(__builtin_bit_cast(unsigned, v)) : "memory");
    return __builtin_bit_cast(__nv_bfloat162, old);
}
#undef HL_IN
// SPDX-License-Identifier: Apache-2.0
