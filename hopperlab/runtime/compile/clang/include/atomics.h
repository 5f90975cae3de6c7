// atomicAdd and the rest, relaxed at the scope of the device, with _block and _system beside them. [CUDA C++ Programming Guide 10.14; PTX ISA 9.7.13.5]
#pragma once

#define HL_ATOMIC(name, op, type, word, constraint) \
    CUDA_HL type name(type* p, type v) { type old; asm volatile("atom." op "." word " %0, [%1], %2;" : "=" constraint(old) : "l"(p), constraint(v) : "memory"); return old; } \
    CUDA_HL type name##_block(type* p, type v) { type old; asm volatile("atom.cta." op "." word " %0, [%1], %2;" : "=" constraint(old) : "l"(p), constraint(v) : "memory"); return old; } \
    CUDA_HL type name##_system(type* p, type v) { type old; asm volatile("atom.sys." op "." word " %0, [%1], %2;" : "=" constraint(old) : "l"(p), constraint(v) : "memory"); return old; }
HL_ATOMIC(atomicAdd, "add", int, "u32", "r") HL_ATOMIC(atomicAdd, "add", unsigned, "u32", "r") HL_ATOMIC(atomicAdd, "add", unsigned long long, "u64", "l")
HL_ATOMIC(atomicAdd, "add", float, "f32", "f") HL_ATOMIC(atomicAdd, "add", double, "f64", "d")
HL_ATOMIC(atomicMin, "min", int, "s32", "r") HL_ATOMIC(atomicMin, "min", unsigned, "u32", "r") HL_ATOMIC(atomicMin, "min", unsigned long long, "u64", "l") HL_ATOMIC(atomicMin, "min", long long, "s64", "l")
HL_ATOMIC(atomicMax, "max", int, "s32", "r") HL_ATOMIC(atomicMax, "max", unsigned, "u32", "r") HL_ATOMIC(atomicMax, "max", unsigned long long, "u64", "l") HL_ATOMIC(atomicMax, "max", long long, "s64", "l")
HL_ATOMIC(atomicAnd, "and", int, "b32", "r") HL_ATOMIC(atomicAnd, "and", unsigned, "b32", "r") HL_ATOMIC(atomicAnd, "and", unsigned long long, "b64", "l")
HL_ATOMIC(atomicOr, "or", int, "b32", "r") HL_ATOMIC(atomicOr, "or", unsigned, "b32", "r") HL_ATOMIC(atomicOr, "or", unsigned long long, "b64", "l")
HL_ATOMIC(atomicXor, "xor", int, "b32", "r") HL_ATOMIC(atomicXor, "xor", unsigned, "b32", "r") HL_ATOMIC(atomicXor, "xor", unsigned long long, "b64", "l")
HL_ATOMIC(atomicExch, "exch", int, "b32", "r") HL_ATOMIC(atomicExch, "exch", unsigned, "b32", "r") HL_ATOMIC(atomicExch, "exch", unsigned long long, "b64", "l") HL_ATOMIC(atomicExch, "exch", float, "b32", "f")
HL_ATOMIC(atomicInc, "inc", unsigned, "u32", "r") HL_ATOMIC(atomicDec, "dec", unsigned, "u32", "r")
#undef HL_ATOMIC
CUDA_HL int atomicSub(int* p, int v) { return atomicAdd(p, -v); }
CUDA_HL unsigned atomicSub(unsigned* p, unsigned v) { return atomicAdd(p, 0u - v); }
#define HL_SWAP(type, word, constraint) \
    CUDA_HL type atomicCAS(type* p, type expected, type v) { \
        type old; asm volatile("atom.cas." word " %0, [%1], %2, %3;" : "=" constraint(old) : "l"(p), constraint(expected), constraint(v) : "memory"); return old; }
HL_SWAP(int, "b32", "r") HL_SWAP(unsigned, "b32", "r") HL_SWAP(unsigned long long, "b64", "l") HL_SWAP(unsigned short, "b16", "h")
#undef HL_SWAP
// SPDX-License-Identifier: Apache-2.0
