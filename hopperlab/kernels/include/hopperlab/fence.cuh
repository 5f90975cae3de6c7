// Fences and hardware barriers that are not mbarriers. [PTX ISA 9.7.13.1, 9.7.13.4]
// The copy engine and wgmma reach memory through the async proxy, ordinary loads and stores (and cp.async) through the
// generic proxy; accesses of one are ordered before accesses of the other only by a proxy fence.
#pragma once

// This thread's earlier ordinary accesses to shared memory come before later async-proxy accesses to it. It orders
// nothing between threads: a barrier must follow before another thread issues the copy. [9.7.13.4]
__device__ __forceinline__ void fence_proxy_async_shared_cta() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// The same for every state space, global memory included. [9.7.13.4]
__device__ __forceinline__ void fence_proxy_async() {
    asm volatile("fence.proxy.async;" ::: "memory");
}

// This thread's mbarrier.init become visible to the cluster at the next cluster barrier. [9.7.13.4]
__device__ __forceinline__ void fence_mbarrier_init_release_cluster() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Named barrier `id` (0..15; 0 is __syncthreads): waits for `threads` threads, a multiple of 32. [9.7.13.1]
__device__ __forceinline__ void bar_sync(unsigned id, unsigned threads) {
    asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory");
}

// Arrives at named barrier `id` without waiting. [9.7.13.1]
__device__ __forceinline__ void bar_arrive(unsigned id, unsigned threads) {
    asm volatile("bar.arrive %0, %1;" :: "r"(id), "r"(threads) : "memory");
}

// True in exactly one lane of a converged warp. [9.7.13.14]
__device__ __forceinline__ bool elect_sync() {
    unsigned elected;
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "elect.sync _|p, 0xffffffff;\n"
                 "selp.u32 %0, 1, 0, p;\n"
                 "}" : "=r"(elected) :: "memory");
    return elected;
}
// SPDX-License-Identifier: Apache-2.0
