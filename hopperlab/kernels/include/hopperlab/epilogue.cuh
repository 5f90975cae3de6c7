// From wgmma accumulators to C: plain stores guarded at the edges, or bf16 tiles in shared memory for a TMA store.
// A warpgroup's accumulator of 64 rows x 2 * COUNT columns holds in d[i] of thread t (w = t / 32, g = t % 32 / 4,
// q = t % 4) row 16w + g + 8 (i / 2 % 2), column 8 (i / 4) + 2q + i % 2. [PTX ISA 9.7.15.5.2]
#pragma once
#include <hopperlab/fence.cuh>
#include <hopperlab/stmatrix.cuh>
#include <hopperlab/tma.cuh>

// The accumulator to C (m x n, row-major), its corner at row0, col0. Any n: pairs are stored as one word where 4 bytes
// are aligned. Of the 32 bytes of a sector a warp writes 16 at once, the other half with a later instruction.
template <int COUNT>
__device__ __forceinline__ void store_accumulator(__nv_bfloat16* c, const float (&d)[COUNT], int row0, int col0, int m, int n) {
    int thread = threadIdx.x % 128, lane = thread % 32;
    int row = row0 + 16 * (thread / 32) + lane / 4, col = col0 + 2 * (lane % 4);
    #pragma unroll
    for (int i = 0; i < COUNT; i += 2) {                        // d[i], d[i+1] are neighbours in a row
        int y = row + 8 * (i / 2 % 2), x = col + 8 * (i / 4);
        __nv_bfloat16* out = c + (size_t)y * n + x;
        if (y < m && x + 1 < n && n % 2 == 0) {
            *reinterpret_cast<__nv_bfloat162*>(out) = __floats2bfloat162_rn(d[i], d[i + 1]);
        } else if (y < m) {
            if (x < n) out[0] = __float2bfloat16(d[i]);
            if (x + 1 < n) out[1] = __float2bfloat16(d[i + 1]);
        }
    }
}

// Columns 64 * chunk .. + WIDTH - 1 of the accumulator as a bf16 tile of 64 rows x 128 bytes at `tile` (1024-byte aligned), in
// the 128-byte swizzle, as a tensor map with a 64 x 64 box and that swizzle stores it. Each stmatrix writes 16 rows x 16
// columns of a warp; the swizzle spreads the 8 rows of a matrix over all banks.
template <int WIDTH = 64, int COUNT>
__device__ __forceinline__ void stage_chunk(unsigned tile, const float (&d)[COUNT], int chunk) {
    int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane % 16;
    unsigned row_address = tile + row * 128;
    #pragma unroll
    for (int x = 0; x < WIDTH; x += 16) {                       // lanes 0-15: columns x .. x + 7; lanes 16-31: the next 8
        const float* e = d + (64 * chunk + x) / 2;
        unsigned column16 = (x / 8 + lane / 16) ^ (row % 8);    // which 16 bytes of the row
        stmatrix_x4(row_address + column16 * 16, pack_bf16x2(e[0], e[1]), pack_bf16x2(e[2], e[3]),
                    pack_bf16x2(e[4], e[5]), pack_bf16x2(e[6], e[7]));
    }
}

// The accumulators of a warpgroup, BLOCKS x 64 rows, to C through TMA: SLOTS chunks of 64x64 at a time into `slots` (SLOTS x
// 8192 bytes, 1024-byte aligned), handed over by the warpgroup's first thread, which does not wait for the copies. Order:
// stmatrix (generic proxy), fence.proxy.async by every thread that wrote, named barrier `barrier` of the warpgroup, store. The
// slots are written again only after the first thread saw, by wait_group.read, that they have been read, and a barrier.
template <int SLOTS, int BLOCKS, int COUNT>
__device__ __forceinline__ void store_accumulators_tma(const TensorMap* map, const float (&d)[BLOCKS][COUNT], unsigned char* slots,
                                                       int barrier, int row0, int col0, int m, int n) {
    constexpr int CHUNKS = COUNT / 32;                          // in a row of chunks
    int thread = threadIdx.x % 128;
    #pragma unroll
    for (int first = 0; first < BLOCKS * CHUNKS; first += SLOTS) {
        if (thread == 0) cp_async_bulk_wait_group_read<0>();
        bar_sync(barrier, 128);                                 // the slots are free
        #pragma unroll
        for (int i = first; i < first + SLOTS; i++)
            stage_chunk(shared_address(slots + (i - first) * 8192), d[i / CHUNKS], i % CHUNKS);
        fence_proxy_async_shared_cta();
        bar_sync(barrier, 128);                                 // the slots are complete
        if (thread == 0) {
            #pragma unroll
            for (int i = first; i < first + SLOTS; i++) {
                int row = row0 + i / CHUNKS * 64, col = col0 + i % CHUNKS * 64;
                if (row < m && col < n) cp_async_bulk_tensor_2d_store(map, slots + (i - first) * 8192, col, row);
            }
            cp_async_bulk_commit_group();
        }
    }
}

// The accumulator to the rows of C before row m, by way of `slot` (8192 bytes that a TMA store may still be reading): eight lanes write 128 bytes of a
// row at once. n a multiple of 8.
template <int COUNT>
__device__ __forceinline__ void store_accumulator_rows(__nv_bfloat16* c, const float (&d)[COUNT], unsigned char* slot, int barrier, int row0, int col0, int m, int n) {
    int thread = threadIdx.x % 128, unit = thread % 8;          // which 8 columns of a chunk
    if (thread == 0) cp_async_bulk_wait_group_read<0>();
    #pragma unroll
    for (int chunk = 0; chunk * 32 < COUNT; chunk++) {
        bar_sync(barrier, 128);                                 // the slot is free
        if (chunk < COUNT / 32) stage_chunk(shared_address(slot), d, chunk);
        else stage_chunk<2 * COUNT % 64>(shared_address(slot), d, chunk);         // what is left: half a chunk of 96 columns
        bar_sync(barrier, 128);                                 // the slot is complete
        int in_tile = chunk * 64 + unit * 8, col = col0 + in_tile;
        for (int row = thread / 8; row < 64 && row0 + row < m; row += 16)
            if (in_tile < 2 * COUNT && col < n)
                *reinterpret_cast<uint4*>(c + (size_t)(row0 + row) * n + col) = *reinterpret_cast<const uint4*>(slot + row * 128 + (unit ^ row % 8) * 16);
    }
}
// SPDX-License-Identifier: Apache-2.0
