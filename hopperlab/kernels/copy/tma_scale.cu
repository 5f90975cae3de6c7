// Multiplies a float tensor by `factor`: TMA brings a tile, the threads scale it where it lies, TMA takes it away. Here
// ordinary loads and stores (generic proxy) meet the copy engine (async proxy) in the same shared memory:
//   load -> threads    the mbarrier wait is enough (a completed load is visible to whoever waited for it);
//   threads -> store   each thread fences its own stores (fence.proxy.async), then a barrier, then one thread stores.
// Several tiles per block, two slots: the next tile loads while this one is scaled and stored.
//
// Macros: BOX_ROWS, BOX_COLS (the maps' box, float32, BOX_COLS * 4 <= the swizzle's span if there is one).
// Launch: any grid, block 128, dynamic shared memory 2 * SLOT_BYTES. rows and columns are the tensor's.
#include <hopperlab/bugs.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/tma.cuh>

#ifndef BOX_ROWS
#define BOX_ROWS 64
#endif
#ifndef BOX_COLS
#define BOX_COLS 32
#endif

constexpr int BOX_BYTES = BOX_ROWS * BOX_COLS * 4;
constexpr int SLOT_BYTES = (BOX_BYTES + 1023) / 1024 * 1024;

extern "C" __global__ void __launch_bounds__(128)
tma_scale(const __grid_constant__ TensorMap source, const __grid_constant__ TensorMap target, int rows, int columns,
          float factor) {
    extern __shared__ __align__(1024) unsigned char slots[];
    __shared__ mbarrier_t full[2];
    require_aligned(slots, 1024);
    int t = threadIdx.x;
    int across = (columns + BOX_COLS - 1) / BOX_COLS, tiles = across * ((rows + BOX_ROWS - 1) / BOX_ROWS);

    auto load = [&](int tile, int s) {                      // thread 0 only
        if (!BUG_FORGOTTEN_EXPECT_TX) mbarrier_arrive_expect_tx(&full[s], BUG_WRONG_BYTES ? BOX_BYTES + 16 : BOX_BYTES);
        cp_async_bulk_tensor_2d_load(slots + s * SLOT_BYTES, &source, &full[s],
                                     tile % across * BOX_COLS, tile / across * BOX_ROWS);
    };
    if (t == 0) {
        mbarrier_init(&full[0], 1);
        mbarrier_init(&full[1], 1);
        if (blockIdx.x < tiles) load(blockIdx.x, 0);
    }
    __syncthreads();

    int s = 0, phase = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        if (t == 0 && tile + gridDim.x < tiles) {
            // The other slot was stored from a step ago: it may be overwritten once the engine has read it.
            if (!BUG_REUSE_BEFORE_READ) cp_async_bulk_wait_group_read<0>();
            load(tile + gridDim.x, s ^ 1);
        }
        if (!BUG_NO_FULL_WAIT) mbarrier_wait_parity(&full[s], BUG_WRONG_PARITY ? phase ^ 1 : phase);
        float* values = reinterpret_cast<float*>(slots + s * SLOT_BYTES);
        for (int i = t; i < BOX_ROWS * BOX_COLS; i += 128) values[i] *= factor;   // any order: every value is scaled once
        if (!BUG_NO_PROXY_FENCE) fence_proxy_async_shared_cta();    // my stores come before the engine's reads ...
        __syncthreads();                                            // ... and everyone has fenced
        if (t == 0) {
            cp_async_bulk_tensor_2d_store(&target, values, tile % across * BOX_COLS, tile / across * BOX_ROWS);
            cp_async_bulk_commit_group();
        }
        s ^= 1;
        phase ^= s == 0;                                            // both slots were used: the next phase begins
    }
    if (t == 0) cp_async_bulk_wait_group<0>();
}
// SPDX-License-Identifier: Apache-2.0
