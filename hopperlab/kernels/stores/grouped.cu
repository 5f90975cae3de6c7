// Many problems, one launch: `groups` matrices of 32 columns and different numbers of rows lie one behind the other; block g
// writes the number g + 1 into every element of matrix g by TMA. The host made one tensor map for all (`like`). Each block
// edits a copy of it: where the matrix starts and how many rows it has. The engine clips the last box at *that* number.
// Order: edit in shared memory (one thread) -> the warp copies the map to global memory and releases it to the tensormap
// proxy -> the thread that uses it acquires.
//
// Launch: grid groups, block 32. first: groups + 1 row numbers, where each matrix begins and the last ends.
// maps: room for `groups` maps (128 bytes each). Tensor map: box 16 rows x 32 columns, float32.
#include <hopperlab/fence.cuh>
#include <hopperlab/tensormap.cuh>

extern "C" __global__ void __launch_bounds__(32)
grouped(const __grid_constant__ TensorMap like, TensorMap* maps, float* matrices, const int* first) {
    __shared__ __align__(128) TensorMap map;
    __shared__ __align__(128) float tile[16 * 32];
    int g = blockIdx.x, lane = threadIdx.x, rows = first[g + 1] - first[g];
    for (int i = lane; i < 16 * 32; i += 32) tile[i] = g + 1;
    if (lane < 16) map.words[lane] = like.words[lane];
    fence_proxy_async_shared_cta();                         // the tile is for the engine
    __syncwarp();
    if (lane == 0) {
        tensormap_replace_global_address(&map, matrices + first[g] * 32);
        tensormap_replace_global_dim_1(&map, rows);
    }
    __syncwarp();                                           // the edit comes before the warp's copy of it
    tensormap_cp_fenceproxy(maps + g, &map);
    if (lane == 0) {
        fence_proxy_tensormap_acquire(maps + g);
        for (int row = 0; row < rows; row += 16) cp_async_bulk_tensor_2d_store(maps + g, tile, 0, row);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group_read<0>();
    }
}
// SPDX-License-Identifier: Apache-2.0
