// What the words after the last colon of an asm statement are for. Each thread puts a number into shared memory, loads it with
// PTX, puts another number there and loads again: sum = first + second.
//   FORM 0   asm volatile (... : "memory")    correct: the statement stays, and no access to memory crosses it
//   FORM 1   asm volatile (...)               stays, but for the compiler it touches no memory
//   FORM 2   asm (...)                        a pure function of its inputs: it may move, and go where nobody uses its result
//
// Macros: FORM. Launch: grid 1, block 32, no dynamic shared memory; in: 64 words, out: 32 words.
#include <hopperlab/shared.cuh>

#ifndef FORM
#define FORM 0
#endif

__device__ __forceinline__ unsigned load(unsigned address) {
    unsigned value;
#if FORM == 0
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
#elif FORM == 1
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address));
#else
    asm("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address));
#endif
    return value;
}

extern "C" __global__ void __launch_bounds__(32) load_twice(const unsigned* in, unsigned* out) {
    __shared__ unsigned words[32];
    unsigned address = shared_address(&words[threadIdx.x]);
    words[threadIdx.x] = in[threadIdx.x];
    unsigned first = load(address);
    words[threadIdx.x] = in[32 + threadIdx.x];
    out[threadIdx.x] = first + load(address);
}
// SPDX-License-Identifier: Apache-2.0
