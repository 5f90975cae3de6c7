// Four rows of a matrix that do not lie together: what a gather4 does on later GPUs, by hand. A box of one row for each, and one
// barrier for all: it counts bytes, not boxes. Rows outside of the matrix are filled with zeros, and counted.
//
// Launch: grid 1, block 64. Tensor map: float32, box 1 row x 64 columns. wanted: four row numbers, any; out: 4 x 64.
#include <hopperlab/tma.cuh>

extern "C" __global__ void __launch_bounds__(64)
gather_rows(const __grid_constant__ TensorMap rows, const int* wanted, float* out) {
    __shared__ __align__(128) float tile[4][64];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_arrive_expect_tx(&full, sizeof(tile));         // of all four boxes
        for (int i = 0; i < 4; i++) cp_async_bulk_tensor_2d_load(tile[i], &rows, &full, 0, wanted[i]);
    }
    __syncthreads();                                            // the barrier exists before the others ask it
    mbarrier_wait_parity(&full, 0);
    for (int i = 0; i < 4; i++) out[64 * i + threadIdx.x] = tile[i][threadIdx.x];
}
// SPDX-License-Identifier: Apache-2.0
