// Latency and bandwidth of the memories a CTA reaches without the device memory, in cycles.
//   chase       one thread follows CHAIN pointers: out[sample] = cycles of CHAIN dependent loads
//   stream      all threads of a block read 16 bytes each, every round 32 vectors further (WRITE 1: write, eight
//               places of their own in turn): out[block] = cycles
//               of ROUNDS rounds, in which the block moves ROUNDS * blockDim.x * 16 bytes; sums: what was read, so that it is
//               not left out (the same address again and again would be: ptxas loads it once)
//   bulk_stream one thread of each CTA sends CHUNK bytes to its neighbour ROUNDS times by cp.async.bulk, DEPTH in flight
// SPACE says where: 0 the CTA's own shared memory, 1 the next CTA's (distributed shared memory), 2 the L2 (ld.global.cg).
//
// Macros: SPACE, CLUSTER, CHAIN, SAMPLES, ROUNDS, WRITE, CHUNK, DEPTH. Launch: grid a multiple of CLUSTER; block 32 (chase),
// a multiple of 32 (stream), 32 (bulk_stream); dynamic shared memory 4 * CHAIN, blockDim.x * 16 (WRITE: 8 times that), (1 +
// DEPTH) * CHUNK bytes. buffer: uint32, as many bytes per block as the shared memory, for SPACE 2. Measured in
// recordings/micro.json.
#include <hopperlab/clock.cuh>
#include <hopperlab/dsmem.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/multicast.cuh>

#ifndef SPACE
#define SPACE 0
#endif
#ifndef CLUSTER
#define CLUSTER 2
#endif
#ifndef CHAIN
#define CHAIN 256
#endif
#ifndef SAMPLES
#define SAMPLES 8
#endif
#ifndef ROUNDS
#define ROUNDS 64
#endif
#ifndef WRITE
#define WRITE 0
#endif
#ifndef CHUNK
#define CHUNK 4096
#endif
#ifndef DEPTH
#define DEPTH 4
#endif

__device__ __forceinline__ void cluster_sync() {
    barrier_cluster_arrive();
    barrier_cluster_wait();
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(32)
chase(unsigned* buffer, long long* out) {
    extern __shared__ __align__(128) unsigned links[];      // word i holds where its successor lies
    unsigned next_cta = (cluster_ctarank() + 1) % CLUSTER;
    unsigned base = SPACE == 1 ? mapa_shared_cluster(links, next_cta) : shared_address(links);
    for (int i = threadIdx.x; i < CHAIN; i += 32) {
        unsigned successor = (i + 33) % CHAIN;              // 33 and CHAIN (a power of two) share no factor: one cycle
        // Words for the next CTA to follow lie here; they must name places here, seen from there: the same addresses.
        links[i] = (SPACE == 1 ? mapa_shared_cluster(links, cluster_ctarank()) : base) + successor * 4;
        if (SPACE == 2 && blockIdx.x == 0) buffer[i] = successor;
    }
    __threadfence();
    __syncwarp();
    cluster_sync();
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        unsigned at = SPACE == 2 ? 0 : base;
        for (int sample = 0; sample < SAMPLES; sample++) {
            long long start = clock_cycles();
            #pragma unroll 8
            for (int i = 0; i < CHAIN; i++) {
                if (SPACE == 0) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(at) : "r"(at) : "memory");
                if (SPACE == 1) at = ld_shared_cluster(at);
                if (SPACE == 2) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(at) : "l"(buffer + at) : "memory");
            }
            out[sample] = clock_cycles() - start;
        }
        out[SAMPLES] = at;                                  // back where it began: CHAIN steps are a whole turn
    }
    __syncwarp();
    cluster_sync();                                         // the next CTA's memory is read until here
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(1024)
stream(uint4* buffer, long long* out, unsigned* sums) {
    extern __shared__ __align__(128) uint4 vectors[];
    unsigned rank = cluster_ctarank();
    uint4 mine = make_uint4(threadIdx.x, blockIdx.x, 1, 2);
    uint4* global = buffer + (long long)blockIdx.x * blockDim.x * (WRITE ? 8 : 1);
    vectors[threadIdx.x] = mine;
    if (SPACE == 2) global[threadIdx.x] = mine;
    cluster_sync();
    unsigned base = mapa_shared_cluster(vectors, SPACE == 1 ? (rank + 1) % CLUSTER : rank), place = threadIdx.x, sum = 0;
    long long start = clock_cycles();
    #pragma unroll 8
    for (int i = 0; i < ROUNDS; i++) {
        uint4 v = mine;
        unsigned at = base + place * 16;
        if (SPACE == 2 && WRITE) __stcg(global + place, v);
        if (SPACE == 2 && !WRITE) asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                                               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(global + place) : "memory");
        if (SPACE == 1 && WRITE) st_shared_cluster_v4(at, v);
        if (SPACE == 1 && !WRITE) v = ld_shared_cluster_v4(at);
        if (SPACE == 0 && WRITE) asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
                                              :: "r"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
        if (SPACE == 0 && !WRITE) asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                                               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at) : "memory");
        sum += v.x ^ v.y ^ v.z ^ v.w;
        place += WRITE ? blockDim.x : 32;
        if (place >= (WRITE ? 8 : 1) * blockDim.x) place -= (WRITE ? 8 : 1) * blockDim.x;
    }
    cluster_sync();                                         // everyone's traffic is over
    if (threadIdx.x == 0) out[blockIdx.x] = clock_cycles() - start;
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(32)
bulk_stream(long long* out) {
    extern __shared__ __align__(128) unsigned char chunks[];    // what is sent, then DEPTH slots for what arrives
    __shared__ mbarrier_t arrived[DEPTH], received[DEPTH];  // a message is here; my message has been taken there
    unsigned rank = cluster_ctarank(), next = (rank + 1) % CLUSTER, before = (rank + CLUSTER - 1) % CLUSTER;
    for (int i = threadIdx.x; i < CHUNK / 4; i += 32) reinterpret_cast<unsigned*>(chunks)[i] = i;
    fence_proxy_async_shared_cta();
    __syncwarp();
    if (threadIdx.x == 0) {
        for (int s = 0; s < DEPTH; s++) {
            mbarrier_init(&arrived[s], 1);
            mbarrier_init(&received[s], 1);
        }
        fence_mbarrier_init_release_cluster();
    }
    __syncwarp();
    cluster_sync();
    long long start = clock_cycles();
    if (threadIdx.x == 0) {
        // Message i goes into slot i % DEPTH of the next CTA, after that CTA has said that it took message i - DEPTH.
        auto take = [&](int i) {                            // message i of the CTA before
            int s = i % DEPTH;
            mbarrier_wait_parity_cluster(&arrived[s], i / DEPTH % 2);
            mbarrier_arrive_remote(mapa_shared_cluster(&received[s], before));
        };
        for (int i = 0; i < ROUNDS; i++) {
            int s = i % DEPTH;
            if (i >= DEPTH) {
                take(i - DEPTH);
                mbarrier_wait_parity_cluster(&received[s], (i / DEPTH + 1) % 2);
            }
            mbarrier_arrive_expect_tx_remote(mapa_shared_cluster(&arrived[s], next), CHUNK);
            cp_async_bulk_to_cta(mapa_shared_cluster(chunks + (1 + s) * CHUNK, next), chunks, CHUNK,
                                 mapa_shared_cluster(&arrived[s], next));
        }
        for (int i = ROUNDS - DEPTH; i < ROUNDS; i++) take(i);
    }
    __syncwarp();
    cluster_sync();
    if (threadIdx.x == 0) out[blockIdx.x] = clock_cycles() - start;
}
// SPDX-License-Identifier: Apache-2.0
