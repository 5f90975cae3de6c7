// Reductions without a tensor map, one kernel a place where the result can lie:
//   bulk_reduce        target = target OP source in global memory, contiguous; every block combines one chunk
//   dsmem_reduce       the CTAs of a cluster combine their chunks in the shared memory of CTA 0, which writes the result out:
//                      target chunk c = source chunks of its CLUSTER CTAs, combined
// In the second one each CTA's data are counted on a barrier of CTA 0; what lies there first is CTA 0's own chunk.
//
// Macros: OP_TYPE (the end of the instruction: add.u32, add.noftz.bf16, max.s64 …; into shared memory add, min, max, inc, dec,
// and, or, xor of 32-bit words), CHUNK_BYTES (a multiple of 16), CLUSTER.
// Launch: grid: chunks of the source (a multiple of CLUSTER in dsmem_reduce), block 32, dynamic shared memory CHUNK_BYTES;
// both arrays a whole number of chunks. Measured in recordings/micro.json.
#include <hopperlab/dsmem.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/tma_reduce.cuh>

#ifndef OP_TYPE
#define OP_TYPE add.u32
#endif
#ifndef CHUNK_BYTES
#define CHUNK_BYTES 4096
#endif
#ifndef CLUSTER
#define CLUSTER 4
#endif
#define QUOTED(x) #x
#define QUOTE(x) QUOTED(x)

#ifndef INTO_SHARED                                         // not every operation exists for both places
CP_REDUCE_ASYNC_BULK_GLOBAL(reduce_into_global, QUOTE(OP_TYPE))

extern "C" __global__ void __launch_bounds__(32)
bulk_reduce(const unsigned char* source, unsigned char* target) {
    extern __shared__ __align__(128) unsigned char chunk[];
    __shared__ mbarrier_t full;
    if (threadIdx.x != 0) return;

    long long at = (long long)blockIdx.x * CHUNK_BYTES;
    mbarrier_init(&full, 1);
    mbarrier_arrive_expect_tx(&full, CHUNK_BYTES);
    cp_async_bulk_load(chunk, source + at, CHUNK_BYTES, &full);
    mbarrier_wait_parity(&full, 0);
    reduce_into_global(target + at, chunk, CHUNK_BYTES);
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group<0>();
}
#else
CP_REDUCE_ASYNC_BULK_CLUSTER(reduce_into_shared, QUOTE(OP_TYPE))

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(32)
dsmem_reduce(const unsigned char* source, unsigned char* target) {
    extern __shared__ __align__(128) unsigned char chunk[];
    __shared__ mbarrier_t full, combined;                   // my chunk is here; the others' are in it (CTA 0 only)
    unsigned rank = cluster_ctarank();
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init(&combined, 1);
        fence_mbarrier_init_release_cluster();
        mbarrier_arrive_expect_tx(&full, CHUNK_BYTES);
        cp_async_bulk_load(chunk, source + (long long)blockIdx.x * CHUNK_BYTES, CHUNK_BYTES, &full);
        mbarrier_wait_parity(&full, 0);
        if (rank == 0) mbarrier_arrive_expect_tx(&combined, (CLUSTER - 1) * CHUNK_BYTES);
    }
    __syncwarp();
    barrier_cluster_arrive();                               // CTA 0's chunk is there, and its barrier is one
    barrier_cluster_wait();
    if (threadIdx.x == 0 && rank != 0)
        reduce_into_shared(mapa_shared_cluster(chunk, 0), chunk, CHUNK_BYTES, mapa_shared_cluster(&combined, 0));
    if (threadIdx.x == 0 && rank == 0) {
        mbarrier_wait_parity(&combined, 0);
        cp_async_bulk_store(target + (long long)(blockIdx.x / CLUSTER) * CHUNK_BYTES, chunk, CHUNK_BYTES);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
    __syncwarp();
    barrier_cluster_arrive();                               // a CTA must not end while its chunk is still being read, and
    barrier_cluster_wait();                                 // CTA 0 has all of them when it comes here
}
#endif
// SPDX-License-Identifier: Apache-2.0
