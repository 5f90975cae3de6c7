// The epilogue that reads C: a tile of C that lies in shared memory is replaced by alpha * sums + beta * itself.
// The fragment of a warp is that of epilogue.cuh; ldmatrix gives each thread the old elements at the places of its sums.
#pragma once
#include <hopperlab/epilogue.cuh>
#include <hopperlab/mma.cuh>

// alpha * d + beta * old for two neighbours in a row, in fp32; `old` and the result are bf16 pairs.
__device__ __forceinline__ unsigned add_pair(float d0, float d1, unsigned old, float alpha, float beta) {
    float2 c = __bfloat1622float2(*reinterpret_cast<__nv_bfloat162*>(&old));
    return pack_bf16x2(fmaf(beta, c.x, alpha * d0), fmaf(beta, c.y, alpha * d1));
}

// Columns 64 * chunk .. + 63 of the accumulator onto the bf16 tile of 64 rows x 128 bytes at `tile` (1024-byte aligned, 128-byte
// swizzle), in place. A warp reads and writes its own 16 rows only, each 16 x 16 elements by one ldmatrix and then one stmatrix:
// both are instructions of the whole warp (.sync), so no lane writes before all have read, and no other barrier is needed.
template <int COUNT>
__device__ __forceinline__ void add_to_chunk(unsigned tile, const float (&d)[COUNT], int chunk, float alpha, float beta) {
    int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane % 16;
    unsigned row_address = tile + row * 128;
    #pragma unroll
    for (int x = 0; x < 64; x += 16) {                          // lanes 0-15: columns x .. x + 7; lanes 16-31: the next 8
        const float* e = d + (64 * chunk + x) / 2;
        unsigned at = row_address + ((x / 8 + lane / 16) ^ (row % 8)) * 16, old[4];
        ldmatrix_x4(old, at);
        stmatrix_x4(at, add_pair(e[0], e[1], old[0], alpha, beta), add_pair(e[2], e[3], old[1], alpha, beta),
                    add_pair(e[4], e[5], old[2], alpha, beta), add_pair(e[6], e[7], old[3], alpha, beta));
    }
}
// SPDX-License-Identifier: Apache-2.0
