// cp.async with the operand ignore-src: a predicate that, where it holds, leaves the source unread and writes zeros. What zfill says
// with a number of bytes, 0 or 16, it says with a bit, for tiles at the edge of a matrix. [PTX ISA 9.7.9.25.3.1]
#pragma once
#include <hopperlab/cp_async.cuh>

// 16 bytes, cached in L2 only; zeros if `ignore`: then `global` is not read, and may point anywhere. [9.7.9.25.3.1]
__device__ __forceinline__ void cp_async_cg_16_ignore(void* shared, const void* global, bool ignore) {
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.u32 p, %2, 0;\n"
                 "cp.async.cg.shared.global [%0], [%1], 16, p;\n"
                 "}" :: "r"(shared_address(shared)), "l"(global), "r"((unsigned)ignore) : "memory");
}

// The same through L1 as well. [9.7.9.25.3.1]
__device__ __forceinline__ void cp_async_ca_16_ignore(void* shared, const void* global, bool ignore) {
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.u32 p, %2, 0;\n"
                 "cp.async.ca.shared.global [%0], [%1], 16, p;\n"
                 "}" :: "r"(shared_address(shared)), "l"(global), "r"((unsigned)ignore) : "memory");
}

// An arrival on `barrier` once all earlier copies of this thread have landed, that is not in the barrier's count: it adds one to what is
// pending, and takes it away when the copies are there, so a phase that is not complete stays open until then. Where mbarrier_init
// counts the threads that copy, use cp_async_mbarrier_arrive_noinc; with this one their ordinary arrivals complete the phase. [9.7.13.15.15]
__device__ __forceinline__ void cp_async_mbarrier_arrive(unsigned long long* barrier) {
    asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" :: "r"(shared_address(barrier)) : "memory");
}
// SPDX-License-Identifier: Apache-2.0
