// Copies by tensor maps: a tile comes into shared memory by TMA and leaves by TMA; no thread touches its bytes.
//
// Three kernels:
//   tma_copy         one tile a block: one thread loads, waits, stores. Any swizzle, the same in both maps: the store
//                    undoes what the load did.
//   tma_copy_ring    the same, persistent: each block walks over tiles with STAGES of them in flight.
//   tma_landing      loads one box of 1 to 5 dimensions and writes shared memory byte for byte to global memory, so that
//                    one sees what landed where; untouched bytes show 0xEE.
// Both ends are the async proxy, so the load's barrier orders the store and no proxy fence is needed.
//
// Macros: BOX_ROWS, BOX_COLS, ELEMENT_BYTES (the maps' box), ROW_PITCH (bytes between rows in shared memory; differs from
// the box's row only where a swizzle is wider than the box), STAGES, RANK. Measured in recordings/copy.json.
#include <hopperlab/bugs.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/mbarrier.cuh>
#include <hopperlab/tma.cuh>

#ifndef BOX_ROWS
#define BOX_ROWS 64
#endif
#ifndef BOX_COLS
#define BOX_COLS 64
#endif
#ifndef ELEMENT_BYTES
#define ELEMENT_BYTES 2
#endif
#ifndef ROW_PITCH
#define ROW_PITCH (BOX_COLS * ELEMENT_BYTES)
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef RANK
#define RANK 2
#endif

constexpr int BOX_BYTES = BOX_ROWS * BOX_COLS * ELEMENT_BYTES;                      // what the barrier counts
constexpr int SLOT_BYTES = (BOX_ROWS * ROW_PITCH + 1023) / 1024 * 1024;             // what a tile takes in shared memory

// Launch: grid (ceil(columns/BOX_COLS), ceil(rows/BOX_ROWS)), block 32, dynamic shared memory SLOT_BYTES.
extern "C" __global__ void __launch_bounds__(32)
tma_copy(const __grid_constant__ TensorMap source, const __grid_constant__ TensorMap target) {
    extern __shared__ __align__(1024) unsigned char tile[];
    __shared__ mbarrier_t full;
    require_aligned(tile, 1024);
    if (threadIdx.x != 0) return;

    int column = blockIdx.x * BOX_COLS, row = blockIdx.y * BOX_ROWS;
    mbarrier_init(&full, 1);
    if (!BUG_FORGOTTEN_EXPECT_TX) mbarrier_arrive_expect_tx(&full, BUG_WRONG_BYTES ? BOX_BYTES + 16 : BOX_BYTES);
    cp_async_bulk_tensor_2d_load(tile, &source, &full, column, row);
    if (!BUG_NO_FULL_WAIT) mbarrier_wait_parity(&full, BUG_WRONG_PARITY ? 1 : 0);
    cp_async_bulk_tensor_2d_store(&target, tile, column, row);
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group<0>();                          // a block must not end while its tile is still being read
}

// Launch: any grid, block 32, dynamic shared memory STAGES * SLOT_BYTES. rows and columns are the tensor's.
extern "C" __global__ void __launch_bounds__(32)
tma_copy_ring(const __grid_constant__ TensorMap source, const __grid_constant__ TensorMap target, int rows, int columns) {
    extern __shared__ __align__(1024) unsigned char tiles[];
    __shared__ mbarrier_t full[STAGES];
    require_aligned(tiles, 1024);
    if (threadIdx.x != 0) return;

    int across = (columns + BOX_COLS - 1) / BOX_COLS, down = (rows + BOX_ROWS - 1) / BOX_ROWS;
    int mine = (across * down - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;   // tiles of this block
    for (int s = 0; s < STAGES; s++) mbarrier_init(&full[s], 1);
    // Step i loads tile i and stores tile i - AHEAD; AHEAD loads are under way, and STAGES - AHEAD stores.
    constexpr int AHEAD = STAGES / 2;
    static_assert(STAGES >= 2, "a ring needs two slots");
    for (int i = 0; i < mine + AHEAD; i++) {
        if (i < mine) {
            int tile = blockIdx.x + i * gridDim.x, s = i % STAGES;
            // Stores 0 .. i-1-AHEAD are issued; that of tile i - STAGES, which lay in this slot, must have been read.
            if (!BUG_REUSE_BEFORE_READ) cp_async_bulk_wait_group_read<STAGES - 1 - AHEAD>();
            mbarrier_arrive_expect_tx(&full[s], BOX_BYTES);
            cp_async_bulk_tensor_2d_load(tiles + s * SLOT_BYTES, &source, &full[s],
                                         tile % across * BOX_COLS, tile / across * BOX_ROWS);
        }
        int j = i - AHEAD;
        if (j >= 0) {
            int tile = blockIdx.x + j * gridDim.x, s = j % STAGES;
            mbarrier_wait_parity(&full[s], j / STAGES % 2);
            cp_async_bulk_tensor_2d_store(&target, tiles + s * SLOT_BYTES,
                                          tile % across * BOX_COLS, tile / across * BOX_ROWS);
            cp_async_bulk_commit_group();
        }
    }
    cp_async_bulk_wait_group<0>();
}

// Launch: grid 1, block 128, dynamic shared memory `bytes` (a multiple of 16). `box_bytes` is what the barrier counts,
// out-of-bounds bytes included; (c0 .. c4) the coordinates, innermost first, the first RANK of them used.
extern "C" __global__ void __launch_bounds__(128)
tma_landing(const __grid_constant__ TensorMap source, unsigned char* out, int bytes, int box_bytes,
            int c0, int c1, int c2, int c3, int c4) {
    extern __shared__ __align__(1024) unsigned char tile[];
    __shared__ mbarrier_t full;
    require_aligned(tile, 1024);
    for (int i = threadIdx.x; i < bytes; i += 128) tile[i] = 0xEE;
    fence_proxy_async_shared_cta();                         // the bytes just stored come before what TMA writes over them
    if (threadIdx.x == 0) mbarrier_init(&full, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(&full, box_bytes);
        if (RANK == 1) cp_async_bulk_tensor_1d_load(tile, &source, &full, c0);
        if (RANK == 2) cp_async_bulk_tensor_2d_load(tile, &source, &full, c0, c1);
        if (RANK == 3) cp_async_bulk_tensor_3d_load(tile, &source, &full, c0, c1, c2);
        if (RANK == 4) cp_async_bulk_tensor_4d_load(tile, &source, &full, c0, c1, c2, c3);
        if (RANK == 5) cp_async_bulk_tensor_5d_load(tile, &source, &full, c0, c1, c2, c3, c4);
    }
    mbarrier_wait_parity(&full, 0);
    for (int i = threadIdx.x; i < bytes; i += 128) out[i] = tile[i];
}
// SPDX-License-Identifier: Apache-2.0
