// mbarrier: a 64-bit word in shared memory that counts arrivals and bytes. [PTX ISA 9.7.13.15]
// A phase completes when no arrival is pending and no byte is outstanding; then the next phase begins.
// One function an instruction, named after it. `barrier` points to an 8-byte aligned word in shared memory.
#pragma once
#include <hopperlab/shared.cuh>

using mbarrier_t = unsigned long long;

// Phase 0, `count` arrivals expected in every phase, no bytes outstanding. [9.7.13.15.9]
__device__ __forceinline__ void mbarrier_init(mbarrier_t* barrier, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(barrier)), "r"(count) : "memory");
}

// Ends the word's life as a barrier; only then may its memory be used for anything else. [9.7.13.15.10]
__device__ __forceinline__ void mbarrier_inval(mbarrier_t* barrier) {
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(shared_address(barrier)) : "memory");
}

// One arrival; release: what this thread did before is visible to whoever waits for this phase. [9.7.13.15.13]
__device__ __forceinline__ void mbarrier_arrive(mbarrier_t* barrier) {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" :: "r"(shared_address(barrier)) : "memory");
}

// `bytes` more are outstanding in this phase, then one arrival. [9.7.13.15.13]
__device__ __forceinline__ void mbarrier_arrive_expect_tx(mbarrier_t* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;"
                 :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// `bytes` more are outstanding in this phase; no arrival. [9.7.13.15.11]
__device__ __forceinline__ void mbarrier_expect_tx(mbarrier_t* barrier, unsigned bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;"
                 :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// `bytes` have arrived (what the copy engine does by itself; here by hand, for lessons). [9.7.13.15.12]
__device__ __forceinline__ void mbarrier_complete_tx(mbarrier_t* barrier, unsigned bytes) {
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;"
                 :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// One arrival, and one arrival fewer expected in every later phase. [9.7.13.15.14]
__device__ __forceinline__ void mbarrier_arrive_drop(mbarrier_t* barrier) {
    asm volatile("mbarrier.arrive_drop.release.cta.shared::cta.b64 _, [%0];" :: "r"(shared_address(barrier)) : "memory");
}

// True when the phase of this parity has completed; may wait a while, and may be false although it has completed.
// A fresh barrier (phase 0 running) passes parity 1 and blocks parity 0. [9.7.13.15.16]
__device__ __forceinline__ bool mbarrier_try_wait_parity(mbarrier_t* barrier, unsigned parity) {
    unsigned done;
    asm volatile("{\n"
                 ".reg .pred complete;\n"
                 "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 complete, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, complete;\n"
                 "}" : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
    return done;
}

// The same without waiting. [9.7.13.15.16]
__device__ __forceinline__ bool mbarrier_test_wait_parity(mbarrier_t* barrier, unsigned parity) {
    unsigned done;
    asm volatile("{\n"
                 ".reg .pred complete;\n"
                 "mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 complete, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, complete;\n"
                 "}" : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
    return done;
}

// Not an instruction but the loop everyone writes around it: returns when the phase of this parity has completed.
__device__ __forceinline__ void mbarrier_wait_parity(mbarrier_t* barrier, unsigned parity) {
    while (!mbarrier_try_wait_parity(barrier, parity)) {}
}
// SPDX-License-Identifier: Apache-2.0
