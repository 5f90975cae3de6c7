// From wgmma accumulators to C where TMA cannot store it: rows that are no multiple of 16 bytes. By way of shared memory, so
// that a warp writes 128 bytes of a row at once; straight from the registers it would write 16 bytes of each of 8 rows.
#pragma once
#include <hopperlab/epilogue.cuh>

// The accumulators of a warpgroup, BLOCKS x 64 rows, to C (m x n, row-major), their corner at row0, col0: SLOTS chunks of 64x64
// at a time through `slots` (SLOTS x 8192 bytes, 1024-byte aligned). A warp stages 16 rows of a chunk and writes the same 16 to
// C, so it waits for its own lanes only. Lane l holds columns 2l and 2l + 1; where n is odd they are stored one by one.
template <int SLOTS, int BLOCKS, int COUNT>
__device__ __forceinline__ void store_accumulators_rows(__nv_bfloat16* c, const float (&d)[BLOCKS][COUNT], unsigned char* slots,
                                                        int row0, int col0, int m, int n) {
    constexpr int CHUNKS = COUNT / 32;                          // in a row of chunks
    int lane = threadIdx.x % 32, top = threadIdx.x % 128 / 32 * 16;
    #pragma unroll
    for (int first = 0; first < BLOCKS * CHUNKS; first += SLOTS) {
        __syncwarp();                                           // every lane has read what lay in the slots
        #pragma unroll
        for (int i = first; i < first + SLOTS; i++)
            stage_chunk(shared_address(slots + (i - first) * 8192), d[i / CHUNKS], i % CHUNKS);
        __syncwarp();                                           // the warp's rows are complete
        #pragma unroll
        for (int i = first; i < first + SLOTS; i++) {
            int y = row0 + i / CHUNKS * 64 + top, x = col0 + i % CHUNKS * 64 + 2 * lane;
            const unsigned char* tile = slots + (i - first) * 8192 + top * 128;
            auto staged = [&](int r) {                          // top is a multiple of 8: row r of the warp swizzles as r % 8
                return *reinterpret_cast<const __nv_bfloat162*>(tile + r * 128 + ((lane / 4) ^ (r % 8)) * 16 + lane % 4 * 4);
            };
            __nv_bfloat16* out = c + (size_t)y * n + x;
            if (n % 2 == 0) {
                __nv_bfloat162 pair[16];                        // all rows on their way before the first is stored
                #pragma unroll
                for (int r = 0; r < 16; r++) pair[r] = staged(r);
                #pragma unroll
                for (int r = 0; r < 16; r++)
                    if (y + r < m && x < n) *reinterpret_cast<__nv_bfloat162*>(out + (size_t)r * n) = pair[r];
            } else {
                for (int r = 0; r < 16 && y + r < m; r++, out += n) {
                    __nv_bfloat162 pair = staged(r);
                    if (x < n) out[0] = pair.x;
                    if (x + 1 < n) out[1] = pair.y;
                }
            }
        }
    }
}
// SPDX-License-Identifier: Apache-2.0
