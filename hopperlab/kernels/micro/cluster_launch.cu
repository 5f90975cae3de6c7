// What a cluster costs before anything runs: a kernel that only writes when and where each CTA began. The host times the
// launches; starts[block] (globaltimer, nanoseconds) and places[block] (which multiprocessor) show how the CTAs of a cluster
// come to lie.
//
// Macros: CLUSTER (1, 2, 4, 8). Launch: grid a multiple of CLUSTER, block 128, any dynamic shared memory (it decides how many
// fit). Measured in recordings/micro.json.
#ifndef CLUSTER
#define CLUSTER 1
#endif

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(128)
cluster_launch(unsigned long long* starts, unsigned* places) {
    if (threadIdx.x != 0) return;
    unsigned long long now;
    unsigned sm;
    asm volatile("mov.u64 %0, %%globaltimer; mov.u32 %1, %%smid;" : "=l"(now), "=r"(sm) :: "memory");
    starts[blockIdx.x] = now;
    places[blockIdx.x] = sm;
}
// SPDX-License-Identifier: Apache-2.0
