// What multicast saves: the CTAs of a cluster all need the same boxes, as the CTAs of a row of tiles need the same part of
// A. Each cluster walks over the boxes of its own part of a matrix with a ring of STAGES slots; with MULTICAST each CTA
// loads 1/CLUSTER of a box for all, without it loads every box whole. Nothing is computed. Bytes that arrive in shared
// memory: the same. Bytes that the L2 delivers: 1/CLUSTER of them with multicast. Warp 0 loads, warp 1 waits for each box
// and hands its slot back: to the loading warps of all CTAs that send parts of it, one lane each. Those arrivals are release
// at CTA scope: they say that a box has been waited for, and publish no write. As a receipt warp 1 adds up the 32-bit words
// of its CTA's last box: sums[blockIdx.x].
//
// Macros: CLUSTER (1, 2, 4, 8), MULTICAST, BOX_ROWS (a multiple of CLUSTER), BOX_COLS (a row at most 256 elements), STAGES.
// Launch: grid a multiple of CLUSTER, block 64, dynamic shared memory STAGES boxes. Tensor map: bf16, box (BOX_ROWS /
// CLUSTER or, without MULTICAST, BOX_ROWS) x BOX_COLS; boxes: rows / BOX_ROWS, each cluster takes every (gridDim.x /
// CLUSTER)-th, `passes` times over; no more clusters than boxes. Measured in recordings/micro.json.
#include <hopperlab/fence.cuh>
#include <hopperlab/multicast.cuh>
#include <hopperlab/ring.cuh>

#ifndef CLUSTER
#define CLUSTER 2
#endif
#ifndef MULTICAST
#define MULTICAST 1
#endif
#ifndef BOX_ROWS
#define BOX_ROWS 64
#endif
#ifndef BOX_COLS
#define BOX_COLS 128
#endif
#ifndef STAGES
#define STAGES 4
#endif

constexpr int BOX_BYTES = BOX_ROWS * BOX_COLS * 2, SHARE = BOX_ROWS / CLUSTER, SHARE_BYTES = BOX_BYTES / CLUSTER;

// One arrival on an empty barrier of another CTA (or this one). [PTX ISA 9.7.13.15.13]
__device__ __forceinline__ void hand_back(unsigned cluster_address) {
    asm volatile("mbarrier.arrive.release.cta.shared::cluster.b64 _, [%0];" :: "r"(cluster_address) : "memory");
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(64)
multicast_load(const __grid_constant__ TensorMap map, unsigned* sums, int boxes, int passes) {
    extern __shared__ __align__(1024) unsigned char slots[];
    __shared__ mbarrier_t full[STAGES], empty[STAGES];
    int rank = cluster_ctarank(), cluster = blockIdx.x / CLUSTER, clusters = gridDim.x / CLUSTER, lane = threadIdx.x % 32;
    int mine = (boxes - cluster + clusters - 1) / clusters, total = mine * passes;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], MULTICAST ? CLUSTER : 1);
        }
        fence_mbarrier_init_release_cluster();
    }
    __syncwarp();
    barrier_cluster_arrive();
    barrier_cluster_wait();
    Ring<STAGES> ring;
    if (threadIdx.x == 0) {
        for (int i = 0; i < total; i++, ring.advance()) {
            int row = (cluster + i % mine * clusters) * BOX_ROWS;
            unsigned char* slot = slots + ring.slot * BOX_BYTES;
            mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
            mbarrier_arrive_expect_tx(&full[ring.slot], BOX_BYTES);
            if (MULTICAST)
                cp_async_bulk_tensor_2d_load_multicast(slot + rank * SHARE_BYTES, &map, &full[ring.slot], (1 << CLUSTER) - 1,
                                                       0, row + rank * SHARE);
            else
                cp_async_bulk_tensor_2d_load(slot, &map, &full[ring.slot], 0, row);
        }
    } else if (threadIdx.x >= 32) {
        for (int i = 0; i < total; i++, ring.advance()) {
            mbarrier_wait_parity(&full[ring.slot], ring.phase);
            __syncwarp();                                   // the whole warp has waited
            if (i + STAGES >= total) continue;              // nobody will fill this slot again
            if (MULTICAST && lane < CLUSTER) hand_back(mapa_shared_cluster(&empty[ring.slot], lane));
            if (!MULTICAST && lane == 0) mbarrier_arrive(&empty[ring.slot]);
        }
        const unsigned* words = reinterpret_cast<const unsigned*>(slots + (total - 1) % STAGES * BOX_BYTES);
        unsigned sum = 0;
        for (int i = lane; i < BOX_BYTES / 4; i += 32) sum += words[i];
        sum = __reduce_add_sync(0xffffffff, sum);
        if (lane == 0) sums[blockIdx.x] = sum;
    }
    __syncwarp();
    barrier_cluster_arrive();                               // the others may still receive from me, or tell me of a free slot
    barrier_cluster_wait();
}
// SPDX-License-Identifier: Apache-2.0
