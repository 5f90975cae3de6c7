// A tile comes by TMA and is read down its columns: a warp takes the same 16 bytes (a "piece") of 32 rows, one row a lane,
// which is how ldmatrix and wgmma look at a tile.
//     out[(tile * PIECES + piece) * ROWS + row] = piece `piece` of row `row` of the tile
// The reader must look where TMA put the piece. The swizzle is one XOR on the absolute shared address; who applies it to the
// offset inside the tile instead (SWIZZLE_OFFSET) needs a tile that starts where the pattern starts: on 1024 bytes for 128B.
//
// Macros: MASK (address bits that pick the row of the pattern: 0 none, 0x080 32B, 0x180 64B, 0x380 128B), PIECES (a row),
// BOX_ROW_BYTES (of the map's box), PITCH (bytes from row to row in shared memory: the span of the swizzle, or the box's row),
// TILE_AT (where in shared memory the tile starts, from a multiple of 1024), SWIZZLE_OFFSET.
// Launch: grid tiles, block 128, dynamic shared memory TILE_AT + ROWS * PITCH. Tensor map: box ROWS x BOX_ROW_BYTES.
#include <hopperlab/bugs_by_lesson.cuh>
#include <hopperlab/tma.cuh>

#ifndef MASK
#define MASK 0x380
#endif
#ifndef PIECES
#define PIECES 8
#endif
#ifndef BOX_ROW_BYTES
#define BOX_ROW_BYTES (PIECES * 16)
#endif
#ifndef PITCH
#define PITCH BOX_ROW_BYTES
#endif
#ifndef TILE_AT
#define TILE_AT 0
#endif
#ifndef SWIZZLE_OFFSET
#define SWIZZLE_OFFSET (BUG_TILE_AT_128 || BUG_TILE_AT_64)
#endif

constexpr int ROWS = 32;
constexpr int START = BUG_TILE_AT_128 ? 128 : BUG_TILE_AT_64 ? 64 : TILE_AT;

// Bits 4, 5, 6 (which 16 bytes of the line) XOR bits 7, 8, 9 (which line), as many of them as MASK has. [PTX ISA 5.5.7]
__device__ __forceinline__ unsigned swizzled(unsigned address) { return address ^ (address & MASK) >> 3; }

extern "C" __global__ void __launch_bounds__(128)
columns(const __grid_constant__ TensorMap map, uint4* out) {
    extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ mbarrier_t full;
    unsigned char* tile = shared + START;
    if (!BUG_TILE_AT_128 && !BUG_TILE_AT_64) require_aligned(tile, SWIZZLE_OFFSET ? 1024 : 128);
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_arrive_expect_tx(&full, ROWS * BOX_ROW_BYTES);
        cp_async_bulk_tensor_2d_load(tile, &map, &full, 0, blockIdx.x * ROWS);
    }
    __syncthreads();                                        // nobody waits on the barrier before it is one
    mbarrier_wait_parity(&full, 0);                         // the tile is here, and visible to whoever waited

    unsigned start = shared_address(tile);
    int row = threadIdx.x % 32;
    for (int piece = threadIdx.x / 32; piece < PIECES; piece += 4) {        // a warp a column of pieces
        unsigned offset = row * PITCH + piece * 16;                         // where the piece would lie without a swizzle
        unsigned address = SWIZZLE_OFFSET ? start + swizzled(offset) : swizzled(start + offset);
        out[(blockIdx.x * PIECES + piece) * ROWS + row] = *reinterpret_cast<uint4*>(tile + (address - start));
    }
}
// SPDX-License-Identifier: Apache-2.0
