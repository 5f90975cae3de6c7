// Reading the multiprocessor's cycle counter around something, for the kernels of micro/. [PTX ISA 10.27]
#pragma once

// Cycles since some moment, of this multiprocessor. The "memory" clobber keeps loads and stores on their side of it.
__device__ __forceinline__ long long clock_cycles() {
    long long cycles;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles) :: "memory");
    return cycles;
}
// SPDX-License-Identifier: Apache-2.0
