// Transposes a 32 x 32 tile of floats through shared memory: a warp writes a row of the tile and reads a column of it. How the
// rows lie decides how often the column's 32 numbers meet in one bank.
//   PITCH     floats from one row to the next: 32 is dense, 33 is padded by one
//   SWIZZLE   1: column x of row y lies at column x ^ y instead (one XOR, and no memory lost)
//
// Launch: grid 1, block (32, 32), no dynamic shared memory. Its accesses are those of the kernels transpose_* in
// recordings/counters.json, where Nsight Compute counted them on a GPU.
#include <hopperlab/bugs_by_lesson.cuh>

#ifndef PITCH
#define PITCH 32
#endif
#ifndef SWIZZLE
#define SWIZZLE 0
#endif

__device__ __forceinline__ int place(int row, int column, bool swizzle) {
    return row * PITCH + (swizzle ? column ^ row : column);
}

extern "C" __global__ void __launch_bounds__(1024) transpose(const float* in, float* out) {
    __shared__ float tile[32 * PITCH];
    int x = threadIdx.x, y = threadIdx.y;                       // a warp is one y, its lanes are x
    tile[place(y, x, SWIZZLE)] = in[y * 32 + x];                // row y: the 32 lanes write neighbours
    __syncthreads();
    out[y * 32 + x] = tile[place(x, y, SWIZZLE && !BUG_SWIZZLE_MISMATCH)];      // column y: the lanes read down the rows
}
// SPDX-License-Identifier: Apache-2.0
