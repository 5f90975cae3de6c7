// Thread-block clusters: ranks, cluster barriers, addresses in another CTA's shared memory. [PTX ISA 9.7.13.3, 9.7.9.23]
#pragma once
#include <hopperlab/shared.cuh>

// This CTA's rank in its cluster, 0 without one. [10.16]
__device__ __forceinline__ unsigned cluster_ctarank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Arrives at the cluster barrier; release: what this thread did before is visible to all after their wait. [9.7.13.3]
__device__ __forceinline__ void barrier_cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

// The same without release, which costs fences of all memory: for the barrier after fence_mbarrier_init_release_cluster, which
// has released what is to be seen. It orders no other access, so it is no end for a kernel that reaches into its peers. [9.7.13.3]
__device__ __forceinline__ void barrier_cluster_arrive_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

// Waits for every thread of the cluster. [9.7.13.3]
__device__ __forceinline__ void barrier_cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The address, in the shared::cluster window, of what lies at `pointer`'s offset in CTA `rank`. [9.7.9.23]
__device__ __forceinline__ unsigned mapa_shared_cluster(const void* pointer, unsigned rank) {
    unsigned address;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(pointer)), "r"(rank));
    return address;
}

// One arrival on a barrier anywhere in the cluster (an address from mapa). [9.7.13.15.13]
__device__ __forceinline__ void mbarrier_arrive_remote(unsigned cluster_address) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(cluster_address) : "memory");
}

// The same with release at CTA scope, which orders this thread's accesses but publishes no write to the other CTA. Enough
// to hand back a slot: wgmma.wait_group says that the reads are over, and nobody is to see a write. What .release.cluster
// costs on top, every time: fences of all memory (MEMBAR.ALL.GPU, ERRBAR and CGAERRBAR in SASS); this is one SYNCS.ARRIVE.
// The waiting side needs no .acquire.cluster either (CCTL.IVALL: the L1 cache is emptied). [9.7.13.15.13]
__device__ __forceinline__ void mbarrier_arrive_remote_slot(unsigned cluster_address) {
    asm volatile("mbarrier.arrive.release.cta.shared::cluster.b64 _, [%0];" :: "r"(cluster_address) : "memory");
}
// SPDX-License-Identifier: Apache-2.0
