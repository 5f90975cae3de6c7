// Distributed shared memory: loads and stores in another CTA of the cluster, and the two ways to send data there without
// waiting. [PTX ISA 9.7.9.8, 9.7.9.11, 9.7.9.12, 9.7.9.25.4.1] Addresses in the shared::cluster window come from mapa.
#pragma once
#include <hopperlab/cluster.cuh>
#include <hopperlab/mbarrier.cuh>

// Reads 16 bytes of any CTA's shared memory. [9.7.9.8]
__device__ __forceinline__ uint4 ld_shared_cluster_v4(unsigned cluster_address) {
    uint4 v;
    asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(cluster_address) : "memory");
    return v;
}

// Reads 4 bytes. [9.7.9.8]
__device__ __forceinline__ unsigned ld_shared_cluster(unsigned cluster_address) {
    unsigned v;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(cluster_address) : "memory");
    return v;
}

// Writes 16 bytes into any CTA's shared memory. [9.7.9.11]
__device__ __forceinline__ void st_shared_cluster_v4(unsigned cluster_address, uint4 v) {
    asm volatile("st.shared::cluster.v4.u32 [%0], {%1, %2, %3, %4};"
                 :: "r"(cluster_address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

// Sends 16 bytes; when they are there, 16 count on the barrier, which lies in the same CTA as the destination. [9.7.9.12]
__device__ __forceinline__ void st_async_v4(unsigned cluster_address, uint4 v, unsigned cluster_barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];"
                 :: "r"(cluster_address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(cluster_barrier) : "memory");
}

// Copies `bytes` contiguous bytes (addresses and size multiples of 16) from this CTA's shared memory to another's, counted on
// a barrier there. Both sides are the async proxy. [9.7.9.25.4.1]
__device__ __forceinline__ void cp_async_bulk_to_cta(unsigned cluster_address, const void* shared, unsigned bytes,
                                                     unsigned cluster_barrier) {
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(cluster_address), "r"(shared_address(shared)), "r"(bytes), "r"(cluster_barrier) : "memory");
}

// `bytes` more are outstanding on a barrier anywhere in the cluster, then one arrival there: what a sender says before it sends
// by st.async or a bulk copy. Release at CTA scope: it tells the receiver that this thread has read what it got before, and
// publishes no write (the bytes publish themselves when they have arrived), so no fence of all memory is needed. [9.7.13.15.13]
__device__ __forceinline__ void mbarrier_arrive_expect_tx_remote(unsigned cluster_barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cluster.b64 _, [%0], %1;"
                 :: "r"(cluster_barrier), "r"(bytes) : "memory");
}
// SPDX-License-Identifier: Apache-2.0
