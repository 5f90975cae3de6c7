// A broadcast: every CTA of a cluster writes a copy of its own of the same source, target[rank] = source. With MULTICAST each
// CTA loads 1/CLUSTER of a box and sends it to all of them, so that the L2 reads every byte once; without, each CTA loads the
// whole box for itself, and the L2 reads it CLUSTER times. What reaches shared memory is the same.
// Nobody may receive before its barrier exists: the cluster barrier says so. The bytes of a box count on each CTA's own barrier,
// whoever loaded them. A CTA leaves after its own wait and its own store; the others' parts of its box have then arrived,
// but its own may still be on the way to them: the cluster barrier at the end.
//
// Macros: CLUSTER (2, 4, 8), MULTICAST (1 or 0), BOX_ROWS (a multiple of CLUSTER), BOX_COLS, ELEMENT_BYTES.
// Launch: grid (CLUSTER, ceil(columns/BOX_COLS), ceil(rows/BOX_ROWS)), block 32, dynamic shared memory the bytes of a box.
// Tensor maps: source (rows, columns), box (BOX_ROWS / CLUSTER, BOX_COLS); target (CLUSTER, rows, columns), box
// (1, BOX_ROWS, BOX_COLS). A part of a box is a multiple of 128 bytes. Measured in recordings/copies.json.
#include <hopperlab/fence.cuh>
#include <hopperlab/multicast.cuh>

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
#define BOX_COLS 64
#endif
#ifndef ELEMENT_BYTES
#define ELEMENT_BYTES 2
#endif

constexpr int SHARE = BOX_ROWS / CLUSTER, BOX_BYTES = BOX_ROWS * BOX_COLS * ELEMENT_BYTES, SHARE_BYTES = BOX_BYTES / CLUSTER;
static_assert(BOX_ROWS % CLUSTER == 0 && SHARE_BYTES % 128 == 0, "each CTA loads an aligned part of the box");

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(32)
multicast_copy(const __grid_constant__ TensorMap source, const __grid_constant__ TensorMap target) {
    extern __shared__ __align__(1024) unsigned char box[];
    __shared__ mbarrier_t full;
    int rank = cluster_ctarank(), column = blockIdx.y * BOX_COLS, row = blockIdx.z * BOX_ROWS;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init_release_cluster();
    }
    __syncwarp();
    barrier_cluster_arrive();                               // nobody sends to a barrier before it is one
    barrier_cluster_wait();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(&full, BOX_BYTES);
        if (MULTICAST) {
            cp_async_bulk_tensor_2d_load_multicast(box + rank * SHARE_BYTES, &source, &full, (1 << CLUSTER) - 1,
                                                   column, row + rank * SHARE);
        } else {
            for (int part = 0; part < CLUSTER; part++)
                cp_async_bulk_tensor_2d_load(box + part * SHARE_BYTES, &source, &full, column, row + part * SHARE);
        }
        mbarrier_wait_parity(&full, 0);                     // all parts, whoever loaded them
        cp_async_bulk_tensor_3d_store(&target, box, column, row, rank);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
    __syncwarp();
    barrier_cluster_arrive();                               // my part has reached everyone when everyone has waited for it
    barrier_cluster_wait();
}
// SPDX-License-Identifier: Apache-2.0
