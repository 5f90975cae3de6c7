// Two CTAs exchange messages of 128 threads x 16 bytes, to and fro: out[sample] = cycles of ROUNDS round trips, of CTA 0.
// HOW a message travels:
//   0  through global memory: ordinary stores, __syncthreads, one thread releases a flag (scope gpu), the other polls it
//   1  distributed shared memory: ordinary stores there, then each warp's arrival on the receiver's mbarrier (release.cluster)
//   2  st.async: the stores count their bytes on the receiver's mbarrier; before them each warp arrives there, which says how
//      many bytes will come and that this warp has read the message before (bytes alone say nothing about that)
//   3  cp.async.bulk: the message is written here, fenced, and sent by one thread, which arrives likewise
// The receiver's threads read all of it and answer with what they read plus one: out[SAMPLES] shows the last value.
//
// Macros: HOW, ROUNDS, SAMPLES. Launch: grid 2, block 128. buffer: uint4 zeros, 2 x 128; flags: uint32 zeros, 2.
// Measured in recordings/micro.json.
#include <hopperlab/clock.cuh>
#include <hopperlab/dsmem.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/multicast.cuh>

#ifndef HOW
#define HOW 0
#endif
#ifndef ROUNDS
#define ROUNDS 32
#endif
#ifndef SAMPLES
#define SAMPLES 8
#endif

constexpr unsigned MESSAGE_BYTES = 128 * 16;

// A flag in global memory: what was written before its release is visible to who acquires its value. [PTX ISA 9.7.9.8, 9.7.9.11]
__device__ __forceinline__ void st_release_gpu(unsigned* flag, unsigned value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(flag), "r"(value) : "memory");
}
__device__ __forceinline__ unsigned ld_acquire_gpu(const unsigned* flag) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128)
exchange(uint4* buffer, unsigned* flags, long long* out) {
    __shared__ __align__(128) uint4 inbox[128], outbox[128];
    __shared__ mbarrier_t arrived;
    unsigned rank = cluster_ctarank(), other = rank ^ 1;
    if (threadIdx.x == 0) {
        mbarrier_init(&arrived, HOW == 3 ? 1 : 4);          // an arrival a sending warp
        fence_mbarrier_init_release_cluster();
    }
    barrier_cluster_arrive();
    barrier_cluster_wait();
    unsigned there = mapa_shared_cluster(&inbox[threadIdx.x], other), barrier_there = mapa_shared_cluster(&arrived, other);

    // Message number `turn` (0, 1, ...; even ones are CTA 0's) to the other CTA; all 128 threads.
    auto send = [&](uint4 v, unsigned turn) {
        if (HOW == 0) {
            buffer[other * 128 + threadIdx.x] = v;
            __syncthreads();
            if (threadIdx.x == 0) st_release_gpu(&flags[other], turn + 1);
        } else if (HOW == 1) {
            st_shared_cluster_v4(there, v);
            __syncwarp();
            if (threadIdx.x % 32 == 0) mbarrier_arrive_remote(barrier_there);
        } else if (HOW == 2) {
            __syncwarp();                                   // my warp has read the message that this one answers
            if (threadIdx.x % 32 == 0) mbarrier_arrive_expect_tx_remote(barrier_there, MESSAGE_BYTES / 4);
            st_async_v4(there, v, barrier_there);
        } else {
            outbox[threadIdx.x] = v;
            fence_proxy_async_shared_cta();
            __syncthreads();
            if (threadIdx.x == 0) {
                mbarrier_arrive_expect_tx_remote(barrier_there, MESSAGE_BYTES);
                cp_async_bulk_to_cta(mapa_shared_cluster(inbox, other), outbox, MESSAGE_BYTES, barrier_there);
            }
        }
    };
    unsigned phase = 0;
    auto receive = [&](unsigned turn) {
        if (HOW == 0) {
            if (threadIdx.x == 0)
                while (ld_acquire_gpu(&flags[rank]) != turn + 1) {}
            __syncthreads();
            uint4 v = __ldcg(&buffer[rank * 128 + threadIdx.x]);
            __syncthreads();                                // all have read it before the answer allows the next one
            return v;
        }
        mbarrier_wait_parity_cluster(&arrived, phase);
        phase ^= 1;
        return inbox[threadIdx.x];                          // the answer's arrivals say that everyone has read it
    };
    uint4 v = make_uint4(threadIdx.x, 0, 0, 0);
    unsigned turn = 0;
    for (int sample = 0; sample < SAMPLES; sample++) {
        long long start = clock_cycles();
        for (int i = 0; i < ROUNDS; i++, turn += 2) {
            if (rank == 0) {
                send(v, turn);
                v = receive(turn + 1);
            } else {
                v = receive(turn);
                v.y++;
                send(v, turn + 1);
            }
        }
        if (rank == 0 && threadIdx.x == 0) out[sample] = clock_cycles() - start;
    }
    if (rank == 0 && threadIdx.x == 127) out[SAMPLES] = v.x == 127 ? v.y : 0;
    __syncthreads();
    barrier_cluster_arrive();                               // the other CTA may still be sending
    barrier_cluster_wait();
}
// SPDX-License-Identifier: Apache-2.0
