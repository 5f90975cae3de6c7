// char1 ... double4 with their alignment, dim3, and make_...: what NVRTC knows without an include. [CUDA C++ Programming Guide 10.3]
#pragma once

// Assignment is one access of the whole vector at the type's own alignment, also through a pointer that was cast from bytes.
#define HL_ASSIGN(name, type, count) \
    __attribute__((device, always_inline, nodebug)) name& operator=(const name& from) { \
        typedef type whole __attribute__((ext_vector_type(count))); \
        *(whole*)this = *(const whole*)&from; \
        return *this; \
    }
#define HL_VECTOR(name, type, bytes) \
    struct __attribute__((aligned(1 * bytes))) name##1 { type x; }; \
    struct __attribute__((aligned(2 * bytes))) name##2 { type x, y; HL_ASSIGN(name##2, type, 2) }; \
    struct name##3 { type x, y, z; }; \
    struct __attribute__((aligned(4 * bytes))) name##4 { type x, y, z, w; HL_ASSIGN(name##4, type, 4) }; \
    CUDA_HL name##1 make_##name##1(type x) { return {x}; } \
    CUDA_HL name##2 make_##name##2(type x, type y) { return {x, y}; } \
    CUDA_HL name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
    CUDA_HL name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

HL_VECTOR(char, signed char, 1)
HL_VECTOR(uchar, unsigned char, 1)
HL_VECTOR(short, short, 2)
HL_VECTOR(ushort, unsigned short, 2)
HL_VECTOR(int, int, 4)
HL_VECTOR(uint, unsigned, 4)
HL_VECTOR(float, float, 4)
#undef HL_VECTOR
// Of 8 bytes: four of them are aligned to 16 only, and two accesses.
#define HL_VECTOR(name, type) \
    struct name##1 { type x; }; \
    struct __attribute__((aligned(16))) name##2 { type x, y; HL_ASSIGN(name##2, type, 2) }; \
    struct name##3 { type x, y, z; }; \
    struct __attribute__((aligned(16))) name##4 { type x, y, z, w; }; \
    CUDA_HL name##1 make_##name##1(type x) { return {x}; } \
    CUDA_HL name##2 make_##name##2(type x, type y) { return {x, y}; } \
    CUDA_HL name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
    CUDA_HL name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

HL_VECTOR(long, long)
HL_VECTOR(ulong, unsigned long)
HL_VECTOR(longlong, long long)
HL_VECTOR(ulonglong, unsigned long long)
HL_VECTOR(double, double)
#undef HL_VECTOR
#undef HL_ASSIGN

struct dim3 {
    unsigned x, y, z;
    __attribute__((device, always_inline, nodebug)) constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    __attribute__((device, always_inline, nodebug)) constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    __attribute__((device, always_inline, nodebug)) constexpr operator uint3() const { return {x, y, z}; }
};
struct __hl_uint3 : uint3 {             // what threadIdx converts to
    __attribute__((device, always_inline, nodebug)) constexpr __hl_uint3(unsigned x, unsigned y, unsigned z) : uint3{x, y, z} {}
};
// SPDX-License-Identifier: Apache-2.0
