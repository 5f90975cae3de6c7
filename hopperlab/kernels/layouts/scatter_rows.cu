// Four rows to a matrix in which they do not lie together: what a scatter4 does on later GPUs, by hand. The threads make a tile
// of four rows, and one of them stores a box of one row for each. Rows outside of the matrix are left out.
//
//   each thread's fence -> __syncthreads() -> the stores: the engine reads what ordinary instructions wrote (lesson 07)
//   the wait for the bulk group: no mbarrier counts a store, and the tile must last until it was read
//
// Launch: grid 1, block 64. Tensor map: float32, box 1 row x 64 columns. wanted: four row numbers, different from each other and
// not negative; in: 4 x 64, of which twice the values go out.
#include <hopperlab/fence.cuh>
#include <hopperlab/tma.cuh>

extern "C" __global__ void __launch_bounds__(64)
scatter_rows(const __grid_constant__ TensorMap rows, const int* wanted, const float* in) {
    __shared__ __align__(128) float tile[4][64];
    for (int i = 0; i < 4; i++) tile[i][threadIdx.x] = 2 * in[64 * i + threadIdx.x];
    fence_proxy_async_shared_cta();                             // what I wrote is there for the engine,
    __syncthreads();                                            // and what the others wrote
    if (threadIdx.x == 0) {
        for (int i = 0; i < 4; i++) cp_async_bulk_tensor_2d_store(&rows, tile[i], 0, wanted[i]);
        cp_async_bulk_commit_group();                           // one group for all four
        cp_async_bulk_wait_group_read<0>();
    }
}
// SPDX-License-Identifier: Apache-2.0
