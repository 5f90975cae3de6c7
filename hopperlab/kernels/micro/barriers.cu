// What synchronisation costs, in cycles of one multiprocessor: out[sample] = cycles of ROUNDS rounds. Each kernel takes SAMPLES
// samples and the first one, which also fetches instructions, is left to the caller to drop.
//
//   mbarrier_round_trip   two threads of two warps hand a slot to and fro: full[0] and empty[0], as a ring of one slot does
//   named_round_trip      the same between two warps with bar.arrive and bar.sync on two named barriers
//   syncthreads           all threads of a block meet: bar.sync 0
//   mbarrier_meeting      all threads of a block meet at one mbarrier: an arrival each (ELECTED: one a warp), then a wait
//   cluster_meeting       all threads of a cluster meet: barrier.cluster.arrive (RELAXED: without release) and wait
//   remote_round_trip     a thread of each of two CTAs hands a slot to and fro by arrivals on the other's mbarrier, with
//                         ORDER 0: .release.cluster and .acquire.cluster, 1: .release.cta and .acquire.cta
//
// Macros: ROUNDS, SAMPLES, ELECTED, RELAXED, ORDER, CLUSTER. Launch: grid 1 (a cluster's size for the last two), block 64 for the
// round trips, any multiple of 32 up to 1024 for the meetings. Measured in recordings/micro.json.
#include <hopperlab/clock.cuh>
#include <hopperlab/cluster.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/mbarrier.cuh>

#ifndef ROUNDS
#define ROUNDS 64
#endif
#ifndef SAMPLES
#define SAMPLES 16
#endif
#ifndef ELECTED
#define ELECTED 0
#endif
#ifndef RELAXED
#define RELAXED 0
#endif
#ifndef ORDER
#define ORDER 0
#endif
#ifndef CLUSTER
#define CLUSTER 2
#endif

extern "C" __global__ void __launch_bounds__(64)
mbarrier_round_trip(long long* out) {
    __shared__ mbarrier_t full, empty;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init(&empty, 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {                                 // the producer: says "full", waits for "empty"
        for (int sample = 0; sample < SAMPLES; sample++) {
            long long start = clock_cycles();
            for (int i = sample * ROUNDS; i < (sample + 1) * ROUNDS; i++) {
                mbarrier_arrive(&full);
                mbarrier_wait_parity(&empty, i % 2);
            }
            out[sample] = clock_cycles() - start;
        }
    } else if (threadIdx.x == 32) {                         // the consumer
        for (int i = 0; i < SAMPLES * ROUNDS; i++) {
            mbarrier_wait_parity(&full, i % 2);
            mbarrier_arrive(&empty);
        }
    }
}

extern "C" __global__ void __launch_bounds__(64)
named_round_trip(long long* out) {
    for (int sample = 0; sample < SAMPLES; sample++) {
        long long start = clock_cycles();
        for (int i = 0; i < ROUNDS; i++) {
            if (threadIdx.x < 32) {
                bar_arrive(1, 64);                          // "full": 32 threads arrive, 32 wait
                bar_sync(2, 64);                            // "empty"
            } else {
                bar_sync(1, 64);
                bar_arrive(2, 64);
            }
        }
        if (threadIdx.x == 0) out[sample] = clock_cycles() - start;
    }
}

extern "C" __global__ void __launch_bounds__(1024)
syncthreads(long long* out) {
    for (int sample = 0; sample < SAMPLES; sample++) {
        __syncthreads();
        long long start = clock_cycles();
        for (int i = 0; i < ROUNDS; i++) __syncthreads();
        if (threadIdx.x == 0) out[sample] = clock_cycles() - start;
    }
}

extern "C" __global__ void __launch_bounds__(1024)
mbarrier_meeting(long long* out) {
    __shared__ mbarrier_t met;
    if (threadIdx.x == 0) mbarrier_init(&met, ELECTED ? blockDim.x / 32 : blockDim.x);
    __syncthreads();
    unsigned phase = 0;
    for (int sample = 0; sample < SAMPLES; sample++) {
        long long start = clock_cycles();
        for (int i = 0; i < ROUNDS; i++, phase ^= 1) {
            if (ELECTED) __syncwarp();                      // lane 0 arrives for what its warp did
            if (!ELECTED || threadIdx.x % 32 == 0) mbarrier_arrive(&met);
            mbarrier_wait_parity(&met, phase);
        }
        if (threadIdx.x == 0) out[sample] = clock_cycles() - start;
    }
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(1024)
cluster_meeting(long long* out) {
    for (int sample = 0; sample < SAMPLES; sample++) {
        long long start = clock_cycles();
        for (int i = 0; i < ROUNDS; i++) {
            if (RELAXED) asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
            else barrier_cluster_arrive();
            barrier_cluster_wait();
        }
        if (threadIdx.x == 0 && blockIdx.x == 0) out[sample] = clock_cycles() - start;
    }
}

// One arrival on another CTA's barrier, and a wait on one's own, with the memory order that ORDER names. [9.7.13.15.13, .16]
__device__ __forceinline__ void arrive_there(unsigned cluster_address) {
    if (ORDER == 0) mbarrier_arrive_remote(cluster_address);
    else asm volatile("mbarrier.arrive.release.cta.shared::cluster.b64 _, [%0];" :: "r"(cluster_address) : "memory");
}
__device__ __forceinline__ void wait_here(mbarrier_t* barrier, unsigned parity) {
    if (ORDER == 1) return mbarrier_wait_parity(barrier, parity);
    unsigned done;
    do {
        asm volatile("{\n.reg .pred complete;\n"
                     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 complete, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, complete;\n}" : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
    } while (!done);
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(64)
remote_round_trip(long long* out) {
    __shared__ mbarrier_t turn;                             // the other CTA arrives here
    unsigned rank = cluster_ctarank();
    if (threadIdx.x == 0) {
        mbarrier_init(&turn, 1);
        fence_mbarrier_init_release_cluster();
    }
    barrier_cluster_arrive();
    barrier_cluster_wait();
    if (threadIdx.x == 0 && rank < 2) {
        unsigned there = mapa_shared_cluster(&turn, rank ^ 1), phase = 0;
        for (int sample = 0; sample < SAMPLES; sample++) {
            long long start = clock_cycles();
            for (int i = 0; i < ROUNDS; i++, phase ^= 1) {
                if (rank == 0) arrive_there(there);
                wait_here(&turn, phase);
                if (rank == 1) arrive_there(there);
            }
            if (rank == 0) out[sample] = clock_cycles() - start;
        }
    }
    __syncthreads();
    barrier_cluster_arrive();                               // nobody leaves while the other may still arrive here
    barrier_cluster_wait();
}
// SPDX-License-Identifier: Apache-2.0
