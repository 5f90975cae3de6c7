// One 128 x 64 tile of a K-major bf16 matrix by cp.async and 256 threads, laid out as TMA lays it out with the 128-byte swizzle:
// rows of 128 bytes, 16-byte chunk x of row y at chunk x ^ (y % 8). [PTX ISA 9.7.9.25.3] What lies outside is filled with zeros.
#pragma once
#include <cuda_bf16.h>
#include <hopperlab/cp_async.cuh>

// Rows row0 .. row0 + 127, columns k0 .. k0 + 63 of `matrix` (rows x k, k a multiple of 8): four chunks a thread, one commit
// group per call of the caller's. Eight threads bring the 128 bytes of a row; every thread stays in its column of chunks.
__device__ __forceinline__ void cp_async_tile_128x64(unsigned char* tile, const __nv_bfloat16* matrix, int rows, int k,
                                                     int row0, int k0) {
    int my_row = threadIdx.x / 8, chunk = threadIdx.x % 8;
    unsigned char* to = tile + my_row * 128 + ((chunk ^ (my_row % 8)) * 16);       // the same place in every 32nd row
    const __nv_bfloat16* from = matrix + (size_t)(row0 + my_row) * k + k0 + chunk * 8;
    bool inside = k0 + chunk * 8 < k;                                              // a chunk is in or out as a whole
    #pragma unroll
    for (int row = 0; row < 128; row += 32)
        cp_async_cg_16_zfill(to + row * 128, from + (size_t)row * k, inside && row0 + my_row + row < rows ? 16 : 0);
}
// SPDX-License-Identifier: Apache-2.0
