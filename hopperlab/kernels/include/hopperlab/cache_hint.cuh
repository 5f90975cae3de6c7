// Loads with a hint for the L2: what to keep, and what may go first. [PTX ISA 9.7.9.18, 9.7.9.25.5.2]
#pragma once
#include <hopperlab/tma.cuh>

// A policy for cache hints: lines that leave the L2 first, for what is read once. [9.7.9.18]
__device__ __forceinline__ unsigned long long createpolicy_evict_first() {
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// cp_async_bulk_tensor_2d_load with a cache hint for the L2. [9.7.9.25.5.2]
__device__ __forceinline__ void cp_async_bulk_tensor_2d_load_hint(void* shared, const TensorMap* map, mbarrier_t* barrier,
                                                                  int c0, int c1, unsigned long long policy) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1, {%3, %4}], [%2], %5;"
                 :: "r"(shared_address(shared)), "l"(map), "r"(shared_address(barrier)),
                    "r"(c0), "r"(c1), "l"(policy) : "memory");
}
// SPDX-License-Identifier: Apache-2.0
