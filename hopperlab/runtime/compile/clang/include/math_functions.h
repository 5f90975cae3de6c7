// Arithmetic that kernels call without an include. Single precision; double where one instruction does it. [CUDA Math API]
// Without libdevice: exponentials and logarithms are made of the hardware's base-2 approximations (PTX ISA 9.7.3) and a few terms around them.
#pragma once

#define HL_MIN_MAX(type) \
    CUDA_HL type min(type a, type b) { return a < b ? a : b; } \
    CUDA_HL type max(type a, type b) { return a > b ? a : b; }
HL_MIN_MAX(int) HL_MIN_MAX(unsigned) HL_MIN_MAX(long) HL_MIN_MAX(unsigned long) HL_MIN_MAX(long long) HL_MIN_MAX(unsigned long long)
#undef HL_MIN_MAX
#define HL_MIXED(a_type, b_type, type) \
    CUDA_HL type min(a_type a, b_type b) { return min((type)a, (type)b); } \
    CUDA_HL type max(a_type a, b_type b) { return max((type)a, (type)b); }
HL_MIXED(int, unsigned, unsigned) HL_MIXED(unsigned, int, unsigned)
HL_MIXED(long, unsigned long, unsigned long) HL_MIXED(unsigned long, long, unsigned long)
HL_MIXED(long long, unsigned long long, unsigned long long) HL_MIXED(unsigned long long, long long, unsigned long long)
#undef HL_MIXED

CUDA_HL float fminf(float a, float b) { return __nvvm_fmin_f(a, b); }
CUDA_HL float fmaxf(float a, float b) { return __nvvm_fmax_f(a, b); }
CUDA_HL double fmin(double a, double b) { return __nvvm_fmin_d(a, b); }
CUDA_HL double fmax(double a, double b) { return __nvvm_fmax_d(a, b); }
CUDA_HL float min(float a, float b) { return fminf(a, b); }
CUDA_HL float max(float a, float b) { return fmaxf(a, b); }
CUDA_HL double min(double a, double b) { return fmin(a, b); }
CUDA_HL double max(double a, double b) { return fmax(a, b); }
CUDA_HL int abs(int x) { return x < 0 ? -x : x; }
CUDA_HL long abs(long x) { return x < 0 ? -x : x; }
CUDA_HL long long abs(long long x) { return x < 0 ? -x : x; }
CUDA_HL long long llabs(long long x) { return x < 0 ? -x : x; }
CUDA_HL float fabsf(float x) { return __builtin_fabsf(x); }
CUDA_HL double fabs(double x) { return __builtin_fabs(x); }
CUDA_HL float fabs(float x) { return fabsf(x); }
CUDA_HL float abs(float x) { return fabsf(x); }
CUDA_HL double abs(double x) { return fabs(x); }
CUDA_HL float copysignf(float x, float y) { return __builtin_copysignf(x, y); }
CUDA_HL bool isnan(float x) { return __builtin_isnan(x); }
CUDA_HL bool isinf(float x) { return __builtin_isinf(x); }
CUDA_HL bool isfinite(float x) { return __builtin_isfinite(x); }
CUDA_HL bool isnan(double x) { return __builtin_isnan(x); }
CUDA_HL bool isinf(double x) { return __builtin_isinf(x); }
CUDA_HL bool isfinite(double x) { return __builtin_isfinite(x); }

CUDA_HL float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
CUDA_HL double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
CUDA_HL float fma(float a, float b, float c) { return fmaf(a, b, c); }
CUDA_HL float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
CUDA_HL float __fadd_rn(float a, float b) { return __nvvm_add_rn_f(a, b); }
CUDA_HL float __fsub_rn(float a, float b) { return __nvvm_add_rn_f(a, -b); }
CUDA_HL float __fmul_rn(float a, float b) { return __nvvm_mul_rn_f(a, b); }
CUDA_HL float __fdiv_rn(float a, float b) { return __nvvm_div_rn_f(a, b); }
CUDA_HL float __fdividef(float a, float b) { return __nvvm_div_approx_f(a, b); }
CUDA_HL float __frcp_rn(float x) { return __nvvm_rcp_rn_f(x); }
CUDA_HL float __fsqrt_rn(float x) { return __nvvm_sqrt_rn_f(x); }
CUDA_HL float __saturatef(float x) { return __nvvm_saturate_f(x); }
CUDA_HL float sqrtf(float x) { return __nvvm_sqrt_rn_f(x); }
CUDA_HL double sqrt(double x) { return __nvvm_sqrt_rn_d(x); }
CUDA_HL float sqrt(float x) { return sqrtf(x); }
CUDA_HL float rsqrtf(float x) { return __nvvm_rsqrt_approx_f(x); }
CUDA_HL float __frsqrt_rn(float x) { return __nvvm_rcp_rn_f(__nvvm_sqrt_rn_f(x)); }
CUDA_HL float floorf(float x) { return __builtin_floorf(x); }
CUDA_HL float ceilf(float x) { return __builtin_ceilf(x); }
CUDA_HL float truncf(float x) { return __builtin_truncf(x); }
CUDA_HL float rintf(float x) { return __builtin_rintf(x); }
CUDA_HL float nearbyintf(float x) { return __builtin_rintf(x); }
CUDA_HL float roundf(float x) { return truncf(x + copysignf(0.49999997f, x)); }
CUDA_HL double floor(double x) { return __builtin_floor(x); }
CUDA_HL double ceil(double x) { return __builtin_ceil(x); }
CUDA_HL double rint(double x) { return __builtin_rint(x); }
CUDA_HL float floor(float x) { return floorf(x); }
CUDA_HL float ceil(float x) { return ceilf(x); }
CUDA_HL int __float2int_rn(float x) { return __nvvm_f2i_rn(x); }
CUDA_HL int __float2int_rz(float x) { return __nvvm_f2i_rz(x); }
CUDA_HL int __float2int_rd(float x) { return __nvvm_f2i_rm(x); }
CUDA_HL int __float2int_ru(float x) { return __nvvm_f2i_rp(x); }
CUDA_HL unsigned __float2uint_rn(float x) { return __nvvm_f2ui_rn(x); }
CUDA_HL unsigned __float2uint_rz(float x) { return __nvvm_f2ui_rz(x); }
CUDA_HL float __int2float_rn(int x) { return (float)x; }
CUDA_HL float __uint2float_rn(unsigned x) { return (float)x; }
CUDA_HL int lrintf(float x) { return __nvvm_f2i_rn(x); }

CUDA_HL float __exp2f(float x) { return __nvvm_ex2_approx_f(x); }
CUDA_HL float exp2f(float x) { return __nvvm_ex2_approx_f(x); }
CUDA_HL float __log2f(float x) { return __nvvm_lg2_approx_f(x); }
CUDA_HL float __expf(float x) { return exp2f(x * 1.4426950408889634f); }
CUDA_HL float __exp10f(float x) { return exp2f(x * 3.3219280948873623f); }
CUDA_HL float __logf(float x) { return __log2f(x) * 0.6931471805599453f; }
CUDA_HL float __log10f(float x) { return __log2f(x) * 0.3010299956639812f; }
CUDA_HL float __powf(float x, float y) { return exp2f(y * __log2f(x)); }
// 2^(x log2 e) with the whole part apart, so that rounding x log2 e costs nothing.
CUDA_HL float expf(float x) {
    float whole = rintf(x * 1.4426950408889634f);
    float part = fmaf(x, 1.4426950216293335f, -whole);
    return exp2f(fmaf(x, 1.9259629911266175e-8f, part)) * exp2f(whole);
}
// x = 2^e m with m in sqrt(1/2) .. sqrt 2; log m = 2 atanh((m - 1) / (m + 1)).
CUDA_HL double __hl_log2(float x) {
    int bits = __float_as_int(x), low = 0;
    if (x > 0.0f && x < 1.17549435e-38f) { bits = __float_as_int(x * 16777216.0f); low = 24; }
    int e = (bits - 0x3f3504f3) >> 23;
    double m = __int_as_float(bits - (e << 23)), s = (m - 1) / (m + 1), q = s * s;
    double p = 1.0 + q * (1.0 / 3 + q * (1.0 / 5 + q * (1.0 / 7 + q * (1.0 / 9 + q * (1.0 / 11)))));
    return (e - low) + 2.8853900817779268 * s * p;
}
CUDA_HL float log2f(float x) {
    if (!(x > 0.0f)) return x == 0.0f ? -__builtin_inff() : __builtin_nanf("");
    return isinf(x) ? x : (float)__hl_log2(x);
}
CUDA_HL float logf(float x) {
    if (!(x > 0.0f)) return x == 0.0f ? -__builtin_inff() : __builtin_nanf("");
    return isinf(x) ? x : (float)(__hl_log2(x) * 0.6931471805599453);
}
CUDA_HL float log10f(float x) { return logf(x) * 0.4342944819032518f; }
CUDA_HL float exp10f(float x) { return expf(x * 2.302585092994046f); }
CUDA_HL float powf(float x, float y) {
    if (y == 0.0f) return 1.0f;
    bool odd = fabsf(y) < 16777216.0f && truncf(y) == y && ((int)y & 1);
    float size = fabsf(x), negative = x < 0.0f && odd ? -1.0f : 1.0f;
    if (x < 0.0f && truncf(y) != y) return __builtin_nanf("");
    if (size == 0.0f) return y > 0.0f ? 0.0f : __builtin_inff();
    double exponent = y * __hl_log2(size), whole = rint(exponent);
    return negative * exp2f((float)(exponent - whole)) * exp2f((float)whole);
}
CUDA_HL float tanhf(float x) {
    float e = expf(-2.0f * fabsf(x));
    return fabsf(x) < 0.02f ? x - x * x * x * 0.33333334f : copysignf((1.0f - e) / (1.0f + e), x);
}
CUDA_HL float __sinf(float x) { return __nvvm_sin_approx_f(x); }
CUDA_HL float __cosf(float x) { return __nvvm_cos_approx_f(x); }
// The argument less whole turns in double precision: exact to the last bits of x up to 2^30.
CUDA_HL float __hl_turn(float x) { return (float)(x - 6.283185307179586 * rint(x * 0.15915494309189535)); }
CUDA_HL float sinf(float x) { return __nvvm_sin_approx_f(__hl_turn(x)); }
CUDA_HL float cosf(float x) { return __nvvm_cos_approx_f(__hl_turn(x)); }
CUDA_HL float exp(float x) { return expf(x); }
CUDA_HL float log(float x) { return logf(x); }
CUDA_HL float pow(float x, float y) { return powf(x, y); }
// SPDX-License-Identifier: Apache-2.0
