// __half and pairs of it: conversions and arithmetic, rounded to nearest even. [CUDA Math API, Half Precision Intrinsics; PTX ISA 9.7.4, 9.7.9.22]
#pragma once

#define HL_IN __attribute__((device, always_inline, nodebug)) inline
CUDA_HL unsigned short __hl_to_half(float x) { unsigned short d; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(d) : "f"(x)); return d; }

struct __attribute__((aligned(2))) __half_raw { unsigned short x; };
struct __attribute__((aligned(4))) __half2_raw { unsigned short x, y; };
struct __attribute__((aligned(2))) __half {
    unsigned short __x;
    __half() = default;
    HL_IN constexpr __half(__half_raw r) : __x(r.x) {}
    HL_IN __half(float f) : __x(__hl_to_half(f)) {}
    HL_IN __half(double f) : __x(__hl_to_half((float)f)) {}
    HL_IN __half(int i) : __x(__hl_to_half((float)i)) {}
    HL_IN __half(unsigned i) : __x(__hl_to_half((float)i)) {}
    HL_IN __half(long long i) : __x(__hl_to_half((float)i)) {}
    HL_IN operator float() const { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(__x)); return f; }
    HL_IN operator __half_raw() const { return {__x}; }
};
struct __attribute__((aligned(4))) __half2 {
    __half x, y;
    __half2() = default;
    HL_IN __half2(__half a, __half b) : x(a), y(b) {}
};
typedef __half nv_half, half;
typedef __half2 nv_half2, half2;

CUDA_HL float __half2float(__half a) { return (float)a; }
CUDA_HL __half __float2half(float x) { return __half(x); }
CUDA_HL __half __float2half_rn(float x) { return __half(x); }
CUDA_HL __half __double2half(double x) { return __half(x); }
CUDA_HL __half __int2half_rn(int x) { return __half(x); }
CUDA_HL __half __float2half_rz(float x) { unsigned short d; asm("cvt.rz.f16.f32 %0, %1;" : "=h"(d) : "f"(x)); return __half_raw{d}; }
CUDA_HL __half __ushort_as_half(unsigned short x) { return __half_raw{x}; }
CUDA_HL __half __short_as_half(short x) { return __half_raw{(unsigned short)x}; }
CUDA_HL unsigned short __half_as_ushort(__half x) { return x.__x; }
CUDA_HL short __half_as_short(__half x) { return (short)x.__x; }
CUDA_HL __half2 __floats2half2_rn(float low, float high) {
    unsigned d;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
    return __builtin_bit_cast(__half2, d);
}
CUDA_HL __half2 __float22half2_rn(float2 a) { return __floats2half2_rn(a.x, a.y); }
CUDA_HL __half2 __float2half2_rn(float a) { return __floats2half2_rn(a, a); }
CUDA_HL float2 __half22float2(__half2 a) { return make_float2((float)a.x, (float)a.y); }
CUDA_HL __half2 __half2half2(__half a) { return __half2(a, a); }
CUDA_HL __half2 __halves2half2(__half a, __half b) { return __half2(a, b); }
CUDA_HL __half2 make_half2(__half a, __half b) { return __half2(a, b); }
CUDA_HL __half __low2half(__half2 a) { return a.x; }
CUDA_HL __half __high2half(__half2 a) { return a.y; }
CUDA_HL float __low2float(__half2 a) { return (float)a.x; }
CUDA_HL float __high2float(__half2 a) { return (float)a.y; }

// Sums and products of two halves are exact enough in fp32 that one rounding at the end is the rounding of the exact result.
#define HL_OF_TWO(name, operation) \
    CUDA_HL __half name(__half a, __half b) { return __half((float)a operation (float)b); } \
    CUDA_HL __half2 name##2(__half2 a, __half2 b) { return __half2(name(a.x, b.x), name(a.y, b.y)); } \
    CUDA_HL __half operator operation(const __half& a, const __half& b) { return name(a, b); } \
    CUDA_HL __half2 operator operation(const __half2& a, const __half2& b) { return name##2(a, b); } \
    CUDA_HL __half& operator operation##=(__half& a, const __half& b) { return a = name(a, b); } \
    CUDA_HL __half2& operator operation##=(__half2& a, const __half2& b) { return a = name##2(a, b); }
HL_OF_TWO(__hadd, +) HL_OF_TWO(__hsub, -) HL_OF_TWO(__hmul, *)
#undef HL_OF_TWO
CUDA_HL __half __hdiv(__half a, __half b) { return __half((float)a / (float)b); }
CUDA_HL __half operator/(const __half& a, const __half& b) { return __hdiv(a, b); }
CUDA_HL __half operator-(const __half& a) { return __half_raw{(unsigned short)(a.__x ^ 0x8000)}; }
CUDA_HL __half __hneg(__half a) { return -a; }
CUDA_HL __half __habs(__half a) { return __half_raw{(unsigned short)(a.__x & 0x7fff)}; }
CUDA_HL __half __hfma(__half a, __half b, __half c) {
    unsigned short d;
    asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(d) : "h"(a.__x), "h"(b.__x), "h"(c.__x));
    return __half_raw{d};
}
CUDA_HL __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return __half2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); }
CUDA_HL __half __hmax(__half a, __half b) { return __half(fmaxf(a, b)); }
CUDA_HL __half __hmin(__half a, __half b) { return __half(fminf(a, b)); }
CUDA_HL __half2 __hmax2(__half2 a, __half2 b) { return __half2(__hmax(a.x, b.x), __hmax(a.y, b.y)); }
CUDA_HL __half2 __hmin2(__half2 a, __half2 b) { return __half2(__hmin(a.x, b.x), __hmin(a.y, b.y)); }
#define HL_COMPARE(name, operation) \
    CUDA_HL bool name(__half a, __half b) { return (float)a operation (float)b; } \
    CUDA_HL bool operator operation(const __half& a, const __half& b) { return name(a, b); }
HL_COMPARE(__heq, ==) HL_COMPARE(__hne, !=) HL_COMPARE(__hlt, <) HL_COMPARE(__hle, <=) HL_COMPARE(__hgt, >) HL_COMPARE(__hge, >=)
#undef HL_COMPARE
CUDA_HL bool __hisnan(__half a) { return (a.__x & 0x7fff) > 0x7c00; }
CUDA_HL __half atomicAdd(__half* p, __half v) {
    unsigned short old;
    asm volatile("atom.add.noftz.f16 %0, [%1], %2;" : "=h"(old) : "l"(p), "h"(v.__x) : "memory");
    return __half_raw{old};
}
CUDA_HL __half2 atomicAdd(__half2* p, __half2 v) {
    unsigned old;
    asm volatile("atom.add.noftz.f16x2 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(__builtin_bit_cast(unsigned, v)) : "memory");
    return __builtin_bit_cast(__half2, old);
}
#undef HL_IN
// SPDX-License-Identifier: Apache-2.0
