// Counters in global memory by which the CTAs of one grid wait for each other. They need all CTAs of the grid on the GPU at
// once (a cooperative launch): a CTA that waits for one that has no place waits for ever. [PTX ISA 8.7 to 8.10]
#pragma once

// Adds 1; release: what this thread did and knows is visible to whoever acquires the sum. [9.7.13.6]
__device__ __forceinline__ void red_release_gpu_add_one(unsigned* counter) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"(counter) : "memory");
}

// Adds 1, and gives what was there; release and acquire: who comes last knows what all before it did. [9.7.13.5]
__device__ __forceinline__ unsigned atom_acq_rel_gpu_add_one(unsigned* counter) {
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    return before;
}

// Reads; acquire: what was released into what it reads is visible afterwards. [9.7.9.8]
__device__ __forceinline__ unsigned ld_acquire_gpu(const unsigned* counter) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
    return value;
}

// Not an instruction but the loop around it: returns when the counter has reached `wanted`.
__device__ __forceinline__ void wait_for_count(const unsigned* counter, unsigned wanted) {
    while (ld_acquire_gpu(counter) < wanted) {}
}
// SPDX-License-Identifier: Apache-2.0
