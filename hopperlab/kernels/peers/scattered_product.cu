// Product under a reduce-scatter: every device has its own part of k, so its own A (m x k) and B (n x k), and the sum over devices of all
// A * B^T is wanted, m / devices rows of it on each device. Every tile is added to the C of the device that its rows belong to, by
// TMA, straight out of shared memory and over the link: cp.reduce.async.bulk.tensor with a tensor map of that device's memory.
//
// C += sum: what is there already, the residual of a model or zeros, is kept. Each addition is rounded to bf16, and their order is
// free. The order of tiles begins at row `start`.
//
// Who waits for whom:
//   OPEN      device d tells the others that its C may be added to; a consumer waits for that before its first addition there
//   done      a warpgroup tells its own device that its additions have been made
//   ADDED     a device all of whose additions have been made tells the others; a kernel ends when all others have told
// All three count steps: `step` is 1 at the first launch on these flags, 2 at the next.
//
// Macros: those of wide_product.cuh, IN_TURNS (1: rows of all devices in turns). Launch: grid a multiple of CLUSTER_M, block 384, dynamic shared memory RING_BYTES + C_BYTES + 16 * STAGES. Tensor
// maps: left of A, box BM x 64; right of B, box BN / CLUSTER_M x 64; c_maps: of each device's C, m / devices x n, box 64 x 64; swizzle 128B. flags: every
// device's, 2 * MOST_DEVICES words; done: one word. All 0 before step 1. m / devices a multiple of BM * CLUSTER_M. Measured in recordings/two_gpus.json.
#include <hopperlab/grid_flag.cuh>
#include <hopperlab/peers.cuh>
#include <hopperlab/wide_product.cuh>

#ifndef IN_TURNS
#define IN_TURNS 0
#endif

enum { OPEN = 0, ADDED = MOST_DEVICES };                        // where the flags of device d begin: [OPEN + d], [ADDED + d]
struct PeerMaps { TensorMap of[MOST_DEVICES]; };

extern "C" __global__ void IN_CLUSTERS __launch_bounds__(THREADS, 1)
scattered_product(const __grid_constant__ TensorMap left, const __grid_constant__ TensorMap right, const __grid_constant__ PeerMaps c_maps,
                  const __grid_constant__ Peers flags, unsigned* done, int rank, int devices, int m, int n, int k, int start, unsigned step) {
    extern __shared__ __align__(1024) unsigned char shared[];
    require_aligned(shared, 1024);
    int k_blocks = (k + BK - 1) / BK, down = m / (CLUSTER_M * BM), right_of = (n + BN - 1) / BN, tiles = down * right_of;
    int clusters = gridDim.x / CLUSTER_M, first = blockIdx.x / CLUSTER_M, warpgroup = threadIdx.x / 128, shard_rows = m / devices;
    unsigned* here = flags.of<unsigned>(rank);
    auto tile_of = [&](int index) {
        return IN_TURNS ? alternating_tile(index, down, right_of, start, devices) : rotated_tile(index, down, right_of, start);
    };
    WideProduct product; product.begin(shared);
    Ring<STAGES> ring;

    if (warpgroup == 0) {
        if (SHIFT) setmaxnreg_dec<40>();
        if (threadIdx.x == 0) {                                 // the producer
            for (int index = first; index < tiles; index += clusters) {
                Tile tile = tile_of(index);
                product.load(ring, left, right, (tile.row * CLUSTER_M + product.up) * BM, tile.col * BN, k_blocks);
            }
            product.drain(ring);
        } else if (threadIdx.x == 64 && blockIdx.x == 0) {      // who speaks for this device
            for (int other = 1; other < devices; other++) raise_flag(flags.of<unsigned>((rank + other) % devices) + OPEN + rank, step);
            wait_for_count(done, step * tiles * CLUSTER_M * CONSUMERS);
            for (int other = 1; other < devices; other++) raise_flag(flags.of<unsigned>((rank + other) % devices) + ADDED + rank, step);
            for (int other = 1; other < devices; other++) await_flag(here + ADDED + (rank + other) % devices, step);
        }
    } else {
        if (SHIFT) setmaxnreg_inc<232>();
        float d[BLOCKS][BN / 2];
        int consumer = __shfl_sync(0xffffffff, warpgroup - 1, 0), thread = threadIdx.x % 128, open = 1 << rank, count = 0;
        unsigned char* slots = shared + RING_BYTES + consumer * C_SLOTS * Store::SLOT_BYTES;
        bool late = consumer == 0;
        if (consumer == 1 && first < tiles) bar_sync(SECOND, 256);
        for (int index = first; index < tiles; index += clusters, count++) {
            Tile tile = tile_of(index);
            product.multiply(ring, d, consumer, late, k_blocks);
            int row0 = (tile.row * CLUSTER_M + product.up) * BM + consumer * WM, owner = row0 / shard_rows;
            if (!BUG_OVERWRITTEN && thread == 0 && !(open >> owner & 1)) {
                await_flag(here + OPEN + owner, step);
                fence_proxy_async();                            // what was written there before, for TMA
                open |= 1 << owner;
            }
            add_tile(&c_maps.of[owner], d, slots, 1 + consumer, row0 - owner * shard_rows, tile.col * BN, n);
        }
        if (thread == 0) {
            cp_async_bulk_wait_group_read<0>();                 // shared memory outlives its readers
            if (!BUG_FLAG_BEFORE_DATA) cp_async_bulk_wait_group<0>();           // and the additions have been made
            red_release_gpu_add(done, count);
        }
    }
}
// SPDX-License-Identifier: Apache-2.0
