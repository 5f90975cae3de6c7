// target = source by way of a neighbour: each CTA of a cluster loads one chunk, sends it to the next CTA's shared memory, and
// writes out what it received from the one before. METHOD is how it is sent:
//   0  st.shared::cluster, 16 bytes per thread, then a cluster barrier: everyone waits for everyone
//   1  st.async: the same stores, which count their bytes on a barrier of the receiver: nobody else waits
//   2  cp.async.bulk from shared memory to shared memory: one thread sends the whole chunk, counted likewise
// The received bytes leave by a bulk store (async proxy), so those that ordinary stores wrote (methods 0, 1) need a proxy fence.
//
// Macros: METHOD, CLUSTER, CHUNK_BYTES (a multiple of 2048). Launch: grid chunks (a multiple of CLUSTER), block 128, dynamic
// shared memory 2 * CHUNK_BYTES; both arrays a whole number of chunks. Measured in recordings/copies.json.
#include <hopperlab/dsmem.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/multicast.cuh>

#ifndef METHOD
#define METHOD 2
#endif
#ifndef CLUSTER
#define CLUSTER 2
#endif
#ifndef CHUNK_BYTES
#define CHUNK_BYTES 8192
#endif

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(128)
dsmem_copy(const unsigned char* source, unsigned char* target) {
    extern __shared__ __align__(128) unsigned char shared[];
    unsigned char* mine = shared;                           // loaded from the source
    unsigned char* received = shared + CHUNK_BYTES;         // sent by the CTA before
    __shared__ mbarrier_t full, arrived;
    unsigned rank = cluster_ctarank(), next = (rank + 1) % CLUSTER, before = (rank + CLUSTER - 1) % CLUSTER;

    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init(&arrived, 1);
        fence_mbarrier_init_release_cluster();
        if (METHOD != 0) mbarrier_arrive_expect_tx(&arrived, CHUNK_BYTES);
    }
    barrier_cluster_arrive();                               // nobody sends to a barrier before it is one
    barrier_cluster_wait();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(&full, CHUNK_BYTES);
        cp_async_bulk_load(mine, source + (long long)blockIdx.x * CHUNK_BYTES, CHUNK_BYTES, &full);
    }
    mbarrier_wait_parity(&full, 0);

    if (METHOD == 2) {
        if (threadIdx.x == 0)                               // loaded and sent by the async proxy: no fence between
            cp_async_bulk_to_cta(mapa_shared_cluster(received, next), mine, CHUNK_BYTES, mapa_shared_cluster(&arrived, next));
    } else {
        unsigned to = mapa_shared_cluster(received, next), barrier = mapa_shared_cluster(&arrived, next);
        for (int at = threadIdx.x * 16; at < CHUNK_BYTES; at += 128 * 16) {
            uint4 v = *reinterpret_cast<const uint4*>(mine + at);
            if (METHOD == 1) st_async_v4(to + at, v, barrier);
            else st_shared_cluster_v4(to + at, v);
        }
    }
    if (METHOD == 0) {
        barrier_cluster_arrive();                           // everyone's stores ...
        barrier_cluster_wait();                             // ... are visible to everyone
    }
    if (threadIdx.x == 0) {
        if (METHOD != 0) mbarrier_wait_parity_cluster(&arrived, 0);
        if (METHOD != 2) fence_proxy_async();               // ordinary stores, acquired by this thread, before a bulk store
        long long chunk = (long long)blockIdx.x - rank + before;
        cp_async_bulk_store(target + chunk * CHUNK_BYTES, received, CHUNK_BYTES);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
    __syncwarp();
    barrier_cluster_arrive();                               // nobody leaves while its neighbour still receives
    barrier_cluster_wait();
}
// SPDX-License-Identifier: Apache-2.0
