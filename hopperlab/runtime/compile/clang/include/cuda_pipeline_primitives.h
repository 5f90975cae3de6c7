// cp.async and its groups as functions. [CUDA C++ Programming Guide 10.28; PTX ISA 9.7.9.25.3]
#pragma once

CUDA_HL void __pipeline_memcpy_async(void* __restrict__ to, const void* __restrict__ from, size_t bytes, size_t zeros = 0) {
    unsigned there = (unsigned)__cvta_generic_to_shared(to);
    int brought = (int)(bytes - zeros);
    if (bytes == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(there), "l"(from), "r"(brought) : "memory");
    else if (bytes == 8) asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" :: "r"(there), "l"(from), "r"(brought) : "memory");
    else asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(there), "l"(from), "r"(brought) : "memory");
}
CUDA_HL void __pipeline_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// The count of groups is part of the instruction.
CUDA_HL void __pipeline_wait_prior(size_t groups) {
    switch (groups) {
        case 0: asm volatile("cp.async.wait_group 0;" ::: "memory"); break;
        case 1: asm volatile("cp.async.wait_group 1;" ::: "memory"); break;
        case 2: asm volatile("cp.async.wait_group 2;" ::: "memory"); break;
        case 3: asm volatile("cp.async.wait_group 3;" ::: "memory"); break;
        case 4: asm volatile("cp.async.wait_group 4;" ::: "memory"); break;
        case 5: asm volatile("cp.async.wait_group 5;" ::: "memory"); break;
        case 6: asm volatile("cp.async.wait_group 6;" ::: "memory"); break;
        case 7: asm volatile("cp.async.wait_group 7;" ::: "memory"); break;
        default: asm volatile("cp.async.wait_group 8;" ::: "memory"); break;
    }
}
// SPDX-License-Identifier: Apache-2.0
