// Barriers, fences, warp functions, address spaces, bits, cached loads: the device functions that kernels call without an include.
// [CUDA C++ Programming Guide 10.5, 10.6, 10.22; CUDA Math API, Integer and Type Casting Intrinsics]
#pragma once

// Barriers and fences. __syncthreads() is known to clang.
CUDA_HL int __syncthreads_count(int predicate) { return __nvvm_bar0_popc(predicate); }
CUDA_HL int __syncthreads_and(int predicate) { return __nvvm_bar0_and(predicate); }
CUDA_HL int __syncthreads_or(int predicate) { return __nvvm_bar0_or(predicate); }
CUDA_HL void __syncwarp(unsigned mask = 0xffffffff) { __nvvm_bar_warp_sync(mask); }
CUDA_HL void __threadfence_block() { asm volatile("membar.cta;" ::: "memory"); }
CUDA_HL void __threadfence() { asm volatile("membar.gl;" ::: "memory"); }
CUDA_HL void __threadfence_system() { asm volatile("membar.sys;" ::: "memory"); }
CUDA_HL void __trap() { asm volatile("trap;" ::: "memory"); }
CUDA_HL void __brkpt() { asm volatile("brkpt;" ::: "memory"); }
CUDA_HL void __nanosleep(unsigned ns) { asm volatile("nanosleep.u32 %0;" :: "r"(ns) : "memory"); }
CUDA_HL long long clock64() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t) :: "memory"); return t; }
CUDA_HL int clock() { int t; asm volatile("mov.u32 %0, %%clock;" : "=r"(t) :: "memory"); return t; }
CUDA_HL unsigned long long __globaltimer() { unsigned long long t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t) :: "memory"); return t; }

// Bits and casts.
template <typename To, typename From>
CUDA_HL To __hl_bits(From value) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    __builtin_memcpy(&to, &value, sizeof(To));
    return to;
}
CUDA_HL float __int_as_float(int x) { return __hl_bits<float>(x); }
CUDA_HL float __uint_as_float(unsigned x) { return __hl_bits<float>(x); }
CUDA_HL int __float_as_int(float x) { return __hl_bits<int>(x); }
CUDA_HL unsigned __float_as_uint(float x) { return __hl_bits<unsigned>(x); }
CUDA_HL double __longlong_as_double(long long x) { return __hl_bits<double>(x); }
CUDA_HL long long __double_as_longlong(double x) { return __hl_bits<long long>(x); }
CUDA_HL int __popc(unsigned x) { return __builtin_popcount(x); }
CUDA_HL int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
CUDA_HL int __clz(int x) { return x ? __builtin_clz(x) : 32; }
CUDA_HL int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
CUDA_HL int __ffs(int x) { return __builtin_ffs(x); }
CUDA_HL int __ffsll(long long x) { return __builtin_ffsll(x); }
CUDA_HL unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
CUDA_HL unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
CUDA_HL unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) { unsigned d; asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(selector)); return d; }
CUDA_HL unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) { return __builtin_elementwise_fshl(high, low, shift); }
CUDA_HL unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) { return __builtin_elementwise_fshr(high, low, shift); }
CUDA_HL int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
CUDA_HL unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
CUDA_HL int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
CUDA_HL int __dp4a(int a, int b, int c) { int d; asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c)); return d; }
CUDA_HL void __assume(bool condition) { __builtin_assume(condition); }

// Address spaces.
CUDA_HL size_t __cvta_generic_to_shared(const void* p) { return (size_t)(const void __attribute__((address_space(3)))*)p; }
CUDA_HL size_t __cvta_generic_to_global(const void* p) { return (size_t)(const void __attribute__((address_space(1)))*)p; }
CUDA_HL size_t __cvta_generic_to_constant(const void* p) { return (size_t)(const void __attribute__((address_space(4)))*)p; }
CUDA_HL size_t __cvta_generic_to_local(const void* p) { return (size_t)(const void __attribute__((address_space(5)))*)p; }
CUDA_HL size_t __cvta_generic_to_grid_constant(const void* p) { size_t a; asm("cvta.to.param.u64 %0, %1;" : "=l"(a) : "l"(p)); return a; }
CUDA_HL void* __cvta_shared_to_generic(size_t a) { return (void*)(void __attribute__((address_space(3)))*)a; }
CUDA_HL void* __cvta_global_to_generic(size_t a) { return (void*)(void __attribute__((address_space(1)))*)a; }
CUDA_HL bool __isShared(const void* p) { return __nvvm_isspacep_shared(p); }
CUDA_HL bool __isGlobal(const void* p) { return __nvvm_isspacep_global(p); }
CUDA_HL bool __isConstant(const void* p) { return __nvvm_isspacep_const(p); }
CUDA_HL bool __isLocal(const void* p) { return __nvvm_isspacep_local(p); }

// Warps.
CUDA_HL unsigned __activemask() { unsigned m; asm volatile("activemask.b32 %0;" : "=r"(m)); return m; }
CUDA_HL int __all_sync(unsigned mask, int predicate) { return __nvvm_vote_all_sync(mask, predicate); }
CUDA_HL int __any_sync(unsigned mask, int predicate) { return __nvvm_vote_any_sync(mask, predicate); }
CUDA_HL unsigned __ballot_sync(unsigned mask, int predicate) { return __nvvm_vote_ballot_sync(mask, predicate); }
CUDA_HL unsigned __match_any_sync(unsigned mask, unsigned value) { return __nvvm_match_any_sync_i32(mask, value); }
CUDA_HL unsigned __match_any_sync(unsigned mask, int value) { return __nvvm_match_any_sync_i32(mask, value); }
CUDA_HL unsigned __match_any_sync(unsigned mask, unsigned long long value) { return __nvvm_match_any_sync_i64(mask, value); }
CUDA_HL unsigned __match_any_sync(unsigned mask, long long value) { return __nvvm_match_any_sync_i64(mask, value); }
CUDA_HL unsigned __hl_shfl_idx(unsigned mask, unsigned v, int lane, int c) { return __nvvm_shfl_sync_idx_i32(mask, v, lane, c); }
CUDA_HL unsigned __hl_shfl_up(unsigned mask, unsigned v, int lane, int c) { return __nvvm_shfl_sync_up_i32(mask, v, lane, c); }
CUDA_HL unsigned __hl_shfl_down(unsigned mask, unsigned v, int lane, int c) { return __nvvm_shfl_sync_down_i32(mask, v, lane, c); }
CUDA_HL unsigned __hl_shfl_xor(unsigned mask, unsigned v, int lane, int c) { return __nvvm_shfl_sync_bfly_i32(mask, v, lane, c); }
#define HL_SHUFFLE(name, how, lane_type, least) \
    template <typename T> CUDA_HL T name(unsigned mask, T value, lane_type lane, int width = 32) { \
        const int c = (32 - width) << 8 | least; \
        if constexpr (sizeof(T) == 8) { \
            struct Pair { unsigned low, high; } pair = __hl_bits<Pair>(value); \
            pair.low = how(mask, pair.low, lane, c); pair.high = how(mask, pair.high, lane, c); \
            return __hl_bits<T>(pair); \
        } else if constexpr (sizeof(T) == 4) return __hl_bits<T>(how(mask, __hl_bits<unsigned>(value), lane, c)); \
        else return __hl_bits<T>((unsigned short)how(mask, __hl_bits<unsigned short>(value), lane, c)); \
    }
HL_SHUFFLE(__shfl_sync, __hl_shfl_idx, int, 31)
HL_SHUFFLE(__shfl_up_sync, __hl_shfl_up, unsigned, 0)
HL_SHUFFLE(__shfl_down_sync, __hl_shfl_down, unsigned, 31)
HL_SHUFFLE(__shfl_xor_sync, __hl_shfl_xor, int, 31)
#undef HL_SHUFFLE
#define HL_REDUCE(name, type, word) \
    CUDA_HL type name(unsigned mask, type v) { type d; asm volatile("redux.sync." word " %0, %1, %2;" : "=r"(d) : "r"(v), "r"(mask) : "memory"); return d; }
HL_REDUCE(__reduce_add_sync, unsigned, "add.u32") HL_REDUCE(__reduce_add_sync, int, "add.s32")
HL_REDUCE(__reduce_min_sync, unsigned, "min.u32") HL_REDUCE(__reduce_min_sync, int, "min.s32")
HL_REDUCE(__reduce_max_sync, unsigned, "max.u32") HL_REDUCE(__reduce_max_sync, int, "max.s32")
HL_REDUCE(__reduce_and_sync, unsigned, "and.b32") HL_REDUCE(__reduce_or_sync, unsigned, "or.b32") HL_REDUCE(__reduce_xor_sync, unsigned, "xor.b32")
#undef HL_REDUCE

// Loads and stores with a cache operator, through the words that they are made of.
#define HL_LOAD(name, word) \
    CUDA_HL unsigned __hl_load1(const unsigned* p, __hl_tag_##name) { unsigned a; asm("ld.global" word ".u32 %0, [%1];" : "=r"(a) : "l"(p)); return a; } \
    CUDA_HL uint2 __hl_load2(const void* p, __hl_tag_##name) { uint2 a; asm("ld.global" word ".v2.u32 {%0, %1}, [%2];" : "=r"(a.x), "=r"(a.y) : "l"(p)); return a; } \
    CUDA_HL uint4 __hl_load4(const void* p, __hl_tag_##name) { \
        uint4 a; asm("ld.global" word ".v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a.x), "=r"(a.y), "=r"(a.z), "=r"(a.w) : "l"(p)); return a; } \
    CUDA_HL unsigned short __hl_load0(const void* p, __hl_tag_##name) { unsigned short a; asm("ld.global" word ".u16 %0, [%1];" : "=h"(a) : "l"(p)); return a; } \
    CUDA_HL unsigned char __hl_loadc(const void* p, __hl_tag_##name) { unsigned a; asm("ld.global" word ".u8 %0, [%1];" : "=r"(a) : "l"(p)); return a; } \
    template <typename T> CUDA_HL T name(const T* p) { \
        __hl_tag_##name tag; \
        if constexpr (sizeof(T) == 16) return __hl_bits<T>(__hl_load4(p, tag)); \
        else if constexpr (sizeof(T) == 8) return __hl_bits<T>(__hl_load2(p, tag)); \
        else if constexpr (sizeof(T) == 4) return __hl_bits<T>(__hl_load1((const unsigned*)p, tag)); \
        else if constexpr (sizeof(T) == 2) return __hl_bits<T>(__hl_load0(p, tag)); \
        else return __hl_bits<T>(__hl_loadc(p, tag)); \
    }
struct __hl_tag___ldg {}; struct __hl_tag___ldcg {}; struct __hl_tag___ldca {}; struct __hl_tag___ldcs {}; struct __hl_tag___ldcv {}; struct __hl_tag___ldlu {};
HL_LOAD(__ldg, ".nc") HL_LOAD(__ldcg, ".cg") HL_LOAD(__ldca, ".ca") HL_LOAD(__ldcs, ".cs") HL_LOAD(__ldcv, ".cv") HL_LOAD(__ldlu, ".lu")
#undef HL_LOAD
#define HL_STORE(name, word) \
    template <typename T> CUDA_HL void name(T* p, T value) { \
        if constexpr (sizeof(T) == 16) { uint4 a = __hl_bits<uint4>(value); \
            asm volatile("st.global" word ".v4.u32 [%0], {%1, %2, %3, %4};" :: "l"(p), "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w) : "memory"); } \
        else if constexpr (sizeof(T) == 8) { uint2 a = __hl_bits<uint2>(value); asm volatile("st.global" word ".v2.u32 [%0], {%1, %2};" :: "l"(p), "r"(a.x), "r"(a.y) : "memory"); } \
        else if constexpr (sizeof(T) == 4) asm volatile("st.global" word ".u32 [%0], %1;" :: "l"(p), "r"(__hl_bits<unsigned>(value)) : "memory"); \
        else if constexpr (sizeof(T) == 2) asm volatile("st.global" word ".u16 [%0], %1;" :: "l"(p), "h"(__hl_bits<unsigned short>(value)) : "memory"); \
        else asm volatile("st.global" word ".u8 [%0], %1;" :: "l"(p), "r"((unsigned)__hl_bits<unsigned char>(value)) : "memory"); \
    }
HL_STORE(__stcg, ".cg") HL_STORE(__stcs, ".cs") HL_STORE(__stwb, ".wb") HL_STORE(__stwt, ".wt")
#undef HL_STORE

extern "C" __attribute__((device)) int vprintf(const char*, const char*);
extern "C" __attribute__((device)) int printf(const char*, ...);
CUDA_HL void assert_hl(bool condition) { if (!condition) __trap(); }
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) assert_hl(static_cast<bool>(condition))
#endif
// SPDX-License-Identifier: Apache-2.0
