// target = target REDUCE source, element by element in the maps' data type, through TMA: a box comes into shared memory by a
// tensor load and leaves by a reducing tensor store. The arithmetic happens where the target lies, in the L2: no thread reads
// the old value, and boxes that several blocks reduce into need no lock.
//
// Macros: REDUCE (add, min, max, inc, dec, and, or, xor; inc and dec wrap at the source's element), BOX_ROWS, BOX_COLS,
// ELEMENT_BYTES (the maps' box; a multiple of 128 bytes).
// Launch: grid (ceil(columns/BOX_COLS), ceil(rows/BOX_ROWS)), block 32, dynamic shared memory the bytes of a box.
// Measured in recordings/micro.json.
#include <hopperlab/tma_reduce.cuh>

#ifndef REDUCE
#define REDUCE add
#endif
#ifndef BOX_ROWS
#define BOX_ROWS 32
#endif
#ifndef BOX_COLS
#define BOX_COLS 64
#endif
#ifndef ELEMENT_BYTES
#define ELEMENT_BYTES 4
#endif

#define JOIN_NAMES(a, b) a##b
#define JOIN(a, b) JOIN_NAMES(a, b)                         // cp_reduce_async_bulk_tensor_2d_ and what REDUCE stands for

extern "C" __global__ void __launch_bounds__(32)
tma_reduce(const __grid_constant__ TensorMap source, const __grid_constant__ TensorMap target) {
    extern __shared__ __align__(128) unsigned char box[];
    __shared__ mbarrier_t full;
    if (threadIdx.x != 0) return;

    int column = blockIdx.x * BOX_COLS, row = blockIdx.y * BOX_ROWS;
    mbarrier_init(&full, 1);
    mbarrier_arrive_expect_tx(&full, BOX_ROWS * BOX_COLS * ELEMENT_BYTES);
    cp_async_bulk_tensor_2d_load(box, &source, &full, column, row);
    mbarrier_wait_parity(&full, 0);
    JOIN(cp_reduce_async_bulk_tensor_2d_, REDUCE)(&target, box, column, row);
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group<0>();                          // a block must not end while its box is still being read
}
// SPDX-License-Identifier: Apache-2.0
