// mbarrier: the forms of arriving and waiting that few kernels need. A wait that says how long it may sleep, and arrivals that leave the barrier
// for good. One function an instruction, named after it. [PTX ISA 9.7.13.15]
#pragma once
#include <hopperlab/mbarrier.cuh>

// As mbarrier_try_wait_parity, and the thread may sleep up to `nanoseconds` (a hint) before the answer is no; without it the limit is the
// system's. The answer may be no at any time, so it belongs into a loop. [9.7.13.15.16]
__device__ __forceinline__ bool mbarrier_try_wait_parity_hint(mbarrier_t* barrier, unsigned parity, unsigned nanoseconds) {
    unsigned done;
    asm volatile("{\n"
                 ".reg .pred complete;\n"
                 "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 complete, [%1], %2, %3;\n"
                 "selp.u32 %0, 1, 0, complete;\n"
                 "}" : "=r"(done) : "r"(shared_address(barrier)), "r"(parity), "r"(nanoseconds) : "memory");
    return done;
}

// The loop around it: returns when the phase of this parity has completed.
__device__ __forceinline__ void mbarrier_wait_parity_hint(mbarrier_t* barrier, unsigned parity, unsigned nanoseconds) {
    while (!mbarrier_try_wait_parity_hint(barrier, parity, nanoseconds)) {}
}

// `bytes` more are outstanding in this phase, then one arrival, and one arrival fewer expected in every later phase. [9.7.13.15.14]
__device__ __forceinline__ void mbarrier_arrive_drop_expect_tx(mbarrier_t* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive_drop.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;"
                 :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
}
// SPDX-License-Identifier: Apache-2.0
