// The tile of an operand in a stage, whichever of its two dimensions lies along memory: its bytes, the loads that fill it, and where wgmma
// finds it. TMA writes both kinds in the 128-byte swizzle.
//   K-major    (rows of k: A as m x k, B as n x k)  one box of ROWS rows of 64 columns of k: 128 bytes per row
//   MN-major   (B as k x n, or a transposed A)      panels of 64 columns, 64 rows of k each, 8192 bytes a panel; a load per panel
// SHARERS CTAs of a cluster need the same tile: each loads a part and multicasts it. Of a K-major tile that is ROWS / SHARERS of the
// rows, of an MN-major one 64 / SHARERS of the k rows of each panel, so that every box is as wide as a swizzled line.
// Tensor map's box: 64 columns of k x ROWS / SHARERS rows, or 64 columns x 64 / SHARERS rows of k.
#pragma once
#include <hopperlab/multicast.cuh>

template <int ROWS, bool MN_MAJOR, int SHARERS>
struct OperandTile {
    static constexpr int BK = 64, BYTES = ROWS * BK * 2, PANEL = 64 * BK * 2;
    static_assert(MN_MAJOR ? ROWS % 64 == 0 && BK / SHARERS % 8 == 0 : ROWS % (8 * SHARERS) == 0);

    // Part `share` of the tile whose corner is at row, k of the operand; its bytes count on `full`, of every CTA in `mask`.
    static __device__ __forceinline__ void load(unsigned char* tile, const TensorMap* map, mbarrier_t* full, int row, int k, int share, unsigned short mask) {
        if (MN_MAJOR) {
            constexpr int DEEP = BK / SHARERS;
            #pragma unroll
            for (int panel = 0; panel < ROWS / 64; panel++)
                load_box(tile + panel * PANEL + share * DEEP * 128, map, full, mask, row + panel * 64, k + share * DEEP);
        } else {
            constexpr int HIGH = ROWS / SHARERS;
            load_box(tile + share * HIGH * 128, map, full, mask, k, row + share * HIGH);
        }
    }

    static __device__ __forceinline__ void load_box(unsigned char* to, const TensorMap* map, mbarrier_t* full, unsigned short mask, int x, int y) {
        if (SHARERS == 1) cp_async_bulk_tensor_2d_load(to, map, full, x, y);
        else cp_async_bulk_tensor_2d_load_multicast(to, map, full, mask, x, y);
    }
};
// SPDX-License-Identifier: Apache-2.0
