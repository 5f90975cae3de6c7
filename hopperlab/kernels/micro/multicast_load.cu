// What multicast saves: the CTAs of a cluster all need the same boxes, as the CTAs of a row of tiles need the same part of A.
// Each cluster walks over the boxes of its own part of a matrix with a ring of STAGES slots; with MULTICAST each CTA loads
// 1/CLUSTER of a box for all, without it loads every box whole. Nothing is computed. Bytes that arrive in shared memory: the same.
// Bytes that the L2 delivers: 1/CLUSTER of them with multicast.
// A slot may be refilled when every CTA that receives it has waited for it: thread 0 of each tells all the others (empty).
// As a receipt every CTA adds up the 32-bit words of its last box: sums[blockIdx.x].
//
// Macros: CLUSTER (1, 2, 4, 8), MULTICAST, BOX_ROWS (a multiple of CLUSTER), BOX_COLS (a row at most 256 elements), STAGES.
// Launch: grid a multiple of CLUSTER, block 32, dynamic shared memory STAGES boxes. Tensor map: bf16, box (BOX_ROWS / CLUSTER or, without
// MULTICAST, BOX_ROWS) x BOX_COLS; boxes: rows / BOX_ROWS, each cluster takes every (gridDim.x / CLUSTER)-th,
// `passes` times over; no more clusters than boxes.
// Measured in recordings/micro.json.
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

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(32)
multicast_load(const __grid_constant__ TensorMap map, unsigned* sums, int boxes, int passes) {
    extern __shared__ __align__(1024) unsigned char slots[];
    __shared__ mbarrier_t full[STAGES], empty[STAGES];
    int rank = cluster_ctarank(), cluster = blockIdx.x / CLUSTER, clusters = gridDim.x / CLUSTER;
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
    if (threadIdx.x == 0) {
        Ring<STAGES> load, take;
        for (int i = 0; i < total + STAGES - 1; i++) {
            if (i < total) {                                // box i goes where box i - STAGES was
                int row = (cluster + i % mine * clusters) * BOX_ROWS;
                unsigned char* slot = slots + load.slot * BOX_BYTES;
                mbarrier_wait_parity_cluster(&empty[load.slot], load.phase ^ 1);
                mbarrier_arrive_expect_tx(&full[load.slot], BOX_BYTES);
                if (MULTICAST)
                    cp_async_bulk_tensor_2d_load_multicast(slot + rank * SHARE_BYTES, &map, &full[load.slot], (1 << CLUSTER) - 1,
                                                           0, row + rank * SHARE);
                else
                    cp_async_bulk_tensor_2d_load(slot, &map, &full[load.slot], 0, row);
                load.advance();
            }
            if (i >= STAGES - 1) {                          // box i - (STAGES - 1) has landed: hand its slot back
                mbarrier_wait_parity(&full[take.slot], take.phase);
                if (i + 1 < total + STAGES - 1 && i - (STAGES - 1) + STAGES < total) {
                    if (!MULTICAST) mbarrier_arrive(&empty[take.slot]);
                    for (int r = 0; r < CLUSTER && MULTICAST; r++) mbarrier_arrive_remote(mapa_shared_cluster(&empty[take.slot], r));
                }
                take.advance();
            }
        }
    }
    __syncwarp();                                           // passes on what thread 0 waited for
    const unsigned* words = reinterpret_cast<const unsigned*>(slots + (total - 1) % STAGES * BOX_BYTES);
    unsigned sum = 0;
    for (int i = threadIdx.x; i < BOX_BYTES / 4; i += 32) sum += words[i];
    sum = __reduce_add_sync(0xffffffff, sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
    barrier_cluster_arrive();                               // the others may still receive from me, or tell me of a free slot
    barrier_cluster_wait();
}
