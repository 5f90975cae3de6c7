// What a cluster of a persistent kernel works on, one piece after the other.
#pragma once

// A stretch of k-blocks of one tile.
struct Piece { int tile, first, count; };

// DEALS: the cluster's even share of the k-blocks of the first `dealt` tiles, which would be the last wave and the one before it;
// then every clusters-th of the other tiles, whole. Else whole tiles only.
template <bool DEALS>
struct Schedule {
    int k_blocks, clusters, tiles, dealt, unit, end, tile;

    __device__ __forceinline__ Schedule(int k_blocks, int clusters, int me, int tiles) : k_blocks(k_blocks), clusters(clusters), tiles(tiles) {
        int rest = tiles % clusters;
        dealt = !DEALS || rest == 0 ? 0 : min(tiles, rest + clusters);
        unit = begin_of(me), end = begin_of(me + 1), tile = dealt + me;
    }
    // The first of a cluster's k-blocks, counted through all dealt tiles.
    __device__ __forceinline__ int begin_of(int cluster) const {
        return static_cast<int>(static_cast<long long>(dealt) * k_blocks * cluster / clusters);
    }
    __device__ __forceinline__ bool next(Piece& piece) {
        if (DEALS && unit < end) {
            int first = unit % k_blocks;
            piece = {unit / k_blocks, first, min(k_blocks - first, end - unit)};
            unit += piece.count;
            return true;
        }
        piece = {tile, 0, k_blocks};
        tile += clusters;
        return piece.tile < tiles;
    }
};
// SPDX-License-Identifier: Apache-2.0
