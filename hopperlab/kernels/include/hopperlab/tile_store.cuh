// From the sums of a warpgroup to C, whatever the tile's width, C's rows or columns first, by TMA or by plain stores: one
// function, whose policies are template parameters.
//   PER_SLOT   columns of D in a slot: 64, 32 or 16; with TURNED any multiple of 16 that divides COLUMNS
//   TURNED     the product was made the other way round, D = B * A^T: rows of D are columns of C (few rows of C then cost
//              few columns of D: wgmma has at least 64 rows, but as few as 16 columns here). stmatrix.trans turns it back
//   BY_TMA     a slot leaves by a tensor map; else each warp stores rows of it (for rows of C that are no multiple of 16 bytes)
// A slot is SLOT_ROWS rows of SLOT_COLUMNS columns of C, in the swizzle of its width: 128, 64 or 32 bytes per row.
#pragma once
#include <hopperlab/fence.cuh>
#include <hopperlab/stmatrix_trans.cuh>
#include <hopperlab/tma.cuh>

template <int PER_SLOT, bool TURNED, bool BY_TMA, int COLUMNS>
struct TileStore {
    static constexpr int SLOT_ROWS = TURNED ? PER_SLOT : 64, SLOT_COLUMNS = TURNED ? 64 : PER_SLOT, SLOT_BYTES = (SLOT_ROWS * SLOT_COLUMNS * 2 + 1023) / 1024 * 1024;
    static constexpr int PER_BLOCK = COLUMNS / PER_SLOT;                                   // slots of 64 rows of D
    static_assert(COLUMNS % PER_SLOT == 0 && (TURNED ? PER_SLOT % 16 == 0 : PER_SLOT == 64 || PER_SLOT == 32 || PER_SLOT == 16));

    // Byte offset of 8 columns (unit: which 8) of a row: the swizzle exchanges them by the number of the 128-byte line.
    static __device__ __forceinline__ unsigned offset(int row, int unit) {
        return row * SLOT_COLUMNS * 2 + ((unit ^ (row * SLOT_COLUMNS / 64 % (SLOT_COLUMNS / 8))) * 16);
    }

    // Slot number `piece` of a block's sums, as bf16. Each stmatrix writes four 8x8 matrices: 16 rows x 16 columns of D.
    template <int COUNT>
    static __device__ __forceinline__ void stage(unsigned slot, const float (&d)[COUNT], int piece) {
        int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
        #pragma unroll
        for (int x = 0; x < PER_SLOT; x += 16) {
            const float* e = d + (piece * PER_SLOT + x) / 2;
            unsigned low = pack_bf16x2(e[0], e[1]), low8 = pack_bf16x2(e[2], e[3]), high = pack_bf16x2(e[4], e[5]), high8 = pack_bf16x2(e[6], e[7]);
            if (TURNED) stmatrix_x4_trans(slot + offset(x + lane / 16 * 8 + lane % 8, warp * 2 + lane / 8 % 2), low, low8, high, high8);
            else stmatrix_x4(slot + offset(warp * 16 + lane % 16, x / 8 + lane / 16), low, low8, high, high8);
        }
    }

    // A complete slot to C by plain stores, its corner at row, col: a warp takes every fourth group of rows.
    static __device__ __forceinline__ void store_rows(__nv_bfloat16* c, const unsigned char* slot, int row, int col, int m, int n) {
        constexpr int PAIRS = SLOT_COLUMNS / 2, ROWS_EACH = 128 / PAIRS;
        int thread = threadIdx.x % 128, pair = thread % PAIRS, x = col + 2 * pair;
        for (int y = thread / PAIRS; y < SLOT_ROWS && row + y < m; y += ROWS_EACH) {
            __nv_bfloat162 two = *reinterpret_cast<const __nv_bfloat162*>(slot + offset(y, pair / 4) + pair % 4 * 4);
            __nv_bfloat16* out = c + (size_t)(row + y) * n + x;
            if (x + 1 < n && n % 2 == 0) {
                *reinterpret_cast<__nv_bfloat162*>(out) = two;
            } else {
                if (x < n) out[0] = two.x;
                if (x + 1 < n) out[1] = two.y;
            }
        }
    }

    // The sums of a warpgroup, BLOCKS x 64 rows of D whose corner is at row0, col0 of D, to C (m x n): SLOTS slots at a time, handed
    // over by the warpgroup's first thread, which does not wait for the copies. Order by TMA: stmatrix (generic proxy),
    // fence.proxy.async by every thread that wrote, named barrier `barrier`, store; the slots are written again only after the
    // first thread saw, by wait_group.read, that they have been read, and a barrier.
    template <int SLOTS, int BLOCKS, int COUNT>
    static __device__ __forceinline__ void store(const TensorMap* map, __nv_bfloat16* c, const float (&d)[BLOCKS][COUNT], unsigned char* slots,
                                                 int barrier, int row0, int col0, int m, int n) {
        int thread = threadIdx.x % 128;
        constexpr int PIECES = BLOCKS * PER_BLOCK;
        #pragma unroll
        for (int first = 0; first < PIECES; first += SLOTS) {
            if (BY_TMA && thread == 0) cp_async_bulk_wait_group_read<0>();
            bar_sync(barrier, 128);                             // the slots are free
            #pragma unroll
            for (int i = first; i < first + SLOTS && i < PIECES; i++) stage(shared_address(slots + (i - first) * SLOT_BYTES), d[i / PER_BLOCK], i % PER_BLOCK);
            if (BY_TMA) fence_proxy_async_shared_cta();
            bar_sync(barrier, 128);                             // the slots are complete
            #pragma unroll
            for (int i = first; i < first + SLOTS && i < PIECES; i++) {
                int down = row0 + i / PER_BLOCK * 64, right = col0 + i % PER_BLOCK * PER_SLOT;
                int row = TURNED ? right : down, col = TURNED ? down : right;
                if (!BY_TMA) store_rows(c, slots + (i - first) * SLOT_BYTES, row, col, m, n);
                else if (thread == 0 && row < m && col < n) cp_async_bulk_tensor_2d_store(map, slots + (i - first) * SLOT_BYTES, col, row);
            }
            if (BY_TMA && thread == 0) cp_async_bulk_commit_group();
        }
    }
};
// SPDX-License-Identifier: Apache-2.0
