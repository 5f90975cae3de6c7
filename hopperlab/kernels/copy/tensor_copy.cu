// Copies a tensor of one to five dimensions box by box through shared memory: tma_copy for every rank, swizzle and interleave.
// A block copies one box: it loads through one tensor map and stores through another of the same kind. A store mirrors the
// load, so any swizzle or interleave is undone on the way out; what lies outside comes in as zeros and does not go out.
// Both ends are the async proxy: the load's barrier orders the store, and no proxy fence is needed.
//
// Macros: RANK (1 to 5; an interleaved map has 3 to 5 dimensions, pixels inside them not counted).
// Launch: grid (all boxes), block 32, dynamic shared memory as much as a box takes there (in swizzled maps rows are as far
// apart as the swizzle is wide). step0 … step4: how far neighbouring boxes lie apart along each dimension, innermost first;
// boxes0 … boxes4: boxes along it (1 past RANK). box_bytes: what the barrier counts. Measured in recordings/micro.json.
#include <hopperlab/tma.cuh>

#ifndef RANK
#define RANK 2
#endif

extern "C" __global__ void __launch_bounds__(32)
tensor_copy(const __grid_constant__ TensorMap source, const __grid_constant__ TensorMap target, int box_bytes,
            int step0, int step1, int step2, int step3, int step4, int boxes0, int boxes1, int boxes2, int boxes3) {
    extern __shared__ __align__(1024) unsigned char box[];
    __shared__ mbarrier_t full;
    require_aligned(box, 1024);
    if (threadIdx.x != 0) return;

    int rest = blockIdx.x;                                  // this block's box, dimension by dimension
    int c0 = rest % boxes0 * step0; rest /= boxes0;
    int c1 = rest % boxes1 * step1; rest /= boxes1;
    int c2 = rest % boxes2 * step2; rest /= boxes2;
    int c3 = rest % boxes3 * step3; rest /= boxes3;
    int c4 = rest * step4;

    mbarrier_init(&full, 1);
    mbarrier_arrive_expect_tx(&full, box_bytes);
    if (RANK == 1) cp_async_bulk_tensor_1d_load(box, &source, &full, c0);
    if (RANK == 2) cp_async_bulk_tensor_2d_load(box, &source, &full, c0, c1);
    if (RANK == 3) cp_async_bulk_tensor_3d_load(box, &source, &full, c0, c1, c2);
    if (RANK == 4) cp_async_bulk_tensor_4d_load(box, &source, &full, c0, c1, c2, c3);
    if (RANK == 5) cp_async_bulk_tensor_5d_load(box, &source, &full, c0, c1, c2, c3, c4);
    mbarrier_wait_parity(&full, 0);
    if (RANK == 1) cp_async_bulk_tensor_1d_store(&target, box, c0);
    if (RANK == 2) cp_async_bulk_tensor_2d_store(&target, box, c0, c1);
    if (RANK == 3) cp_async_bulk_tensor_3d_store(&target, box, c0, c1, c2);
    if (RANK == 4) cp_async_bulk_tensor_4d_store(&target, box, c0, c1, c2, c3);
    if (RANK == 5) cp_async_bulk_tensor_5d_store(&target, box, c0, c1, c2, c3, c4);
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group<0>();                          // a block must not end while its box is still being read
}
// SPDX-License-Identifier: Apache-2.0
