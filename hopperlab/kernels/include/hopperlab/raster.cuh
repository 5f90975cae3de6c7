// In which order a persistent kernel takes the tiles of C. All CTAs work at about the same place of the order, so what
// they read together should be little: a block of tiles about as high as wide, not a long row of them.
#pragma once

struct Tile { int row, col; };                                  // in tiles

// Tile number `index` of rows x cols tiles, in groups of HEIGHT rows: down the rows of a group, then one column on.
// The last group may have fewer rows. index: 0 .. rows * cols - 1.
template <int HEIGHT>
__device__ __forceinline__ Tile grouped_tile(int index, int rows, int cols) {
    int group = index / (HEIGHT * cols), inside = index % (HEIGHT * cols);
    int height = min(HEIGHT, rows - group * HEIGHT);
    return {group * HEIGHT + inside % height, inside / height};
}
// SPDX-License-Identifier: Apache-2.0
