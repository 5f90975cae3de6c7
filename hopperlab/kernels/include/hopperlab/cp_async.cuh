// cp.async: 16 bytes from global to shared memory without passing through registers, issued by every thread for itself.
// [PTX ISA 9.7.9.25.3] Copies belong to the thread that issued them: waiting makes them visible to that thread alone,
// so a barrier must follow before others read. They use the generic proxy.
#pragma once
#include <hopperlab/shared.cuh>

// Copies 16 bytes, cached in L2 only. Both addresses are multiples of 16. [9.7.9.25.3.1]
__device__ __forceinline__ void cp_async_cg_16(void* shared, const void* global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(shared_address(shared)), "l"(global) : "memory");
}

// The same, and the L2 fetches 128 bytes around it. [9.7.9.25.3.1]
__device__ __forceinline__ void cp_async_cg_16_l2_128(void* shared, const void* global) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;"
                 :: "r"(shared_address(shared)), "l"(global) : "memory");
}

// Reads only the first `bytes` (0..16) from global memory and writes zeros for the rest. [9.7.9.25.3.1]
__device__ __forceinline__ void cp_async_cg_16_zfill(void* shared, const void* global, unsigned bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(shared_address(shared)), "l"(global), "r"(bytes) : "memory");
}

// Copies 16 bytes through L1 as well. [9.7.9.25.3.1]
__device__ __forceinline__ void cp_async_ca_16(void* shared, const void* global) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(shared_address(shared)), "l"(global) : "memory");
}

// Through L1, with zero fill. [9.7.9.25.3.1]
__device__ __forceinline__ void cp_async_ca_16_zfill(void* shared, const void* global, unsigned bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;"
                 :: "r"(shared_address(shared)), "l"(global), "r"(bytes) : "memory");
}

// Copies 4 bytes (.ca is the only form of 4 and 8 bytes). [9.7.9.25.3.1]
__device__ __forceinline__ void cp_async_ca_4(void* shared, const void* global) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(shared_address(shared)), "l"(global) : "memory");
}

// All copies this thread issued since its last commit become one group; a group may be empty. [9.7.9.25.3.2]
__device__ __forceinline__ void cp_async_commit_group() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Returns when at most PENDING of this thread's latest groups are still in flight. [9.7.9.25.3.3]
template <int PENDING>
__device__ __forceinline__ void cp_async_wait_group() {
    asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
}

// Returns when all of this thread's copies have landed, committed or not. [9.7.9.25.3.3]
__device__ __forceinline__ void cp_async_wait_all() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// An arrival on `barrier` once all earlier copies of this thread have landed. The barrier's count includes this
// arrival (.noinc: the pending count is not raised to make up for it). [9.7.13.15.15]
__device__ __forceinline__ void cp_async_mbarrier_arrive_noinc(unsigned long long* barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(shared_address(barrier)) : "memory");
}
// SPDX-License-Identifier: Apache-2.0
