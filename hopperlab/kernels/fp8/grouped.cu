// C[r,n] = sum over k-blocks of (A scale * B scale) * (A block * B[g] block^T) for the rows r of group g: many products in one
// launch, as in a mixture-of-experts layer. The rows of all groups lie one behind the other in A and C; group g has its own B,
// n x k, and as many rows as the router gave it, which the host need not know. e4m3 in, bf16 out.
//
// fp8/block_scaled.cu with one part and no cluster, and two changes:
// - both roles walk the groups: a tile's number leads to its group, and to its row and column there;
// - the last tile of a group reads rows of the next one, which hurts nobody, but must not write them. So each consumer keeps a
//   tensor map of its own for C: at a new group it edits address and height, publishes the map and acquires it, and the engine
//   clips the last box. Before it edits, its stores by the old map must be done.
// A box of scales must begin at a multiple of 16 bytes, and a group begins anywhere: so it begins up to 3 rows earlier, and is 4 longer.
//
// Macros: STAGES. Launch: grid at most the SMs, block 384, dynamic shared memory STAGES * 33408 + 16384 + 256 + 128.
// Tensor maps: A box 128 rows x 128 columns, B (all groups, one behind the other: groups * n rows) box 128 x 128, both uint8,
// swizzle 128B, fill zero; c_map box 64 x 64 bf16, swizzle 128B, of all of C; a_scales (k-blocks x rows floats) box 1 x 132.
// b_scales: groups x ceil(n / 128) x k-blocks floats. first: groups + 1 row numbers, where each group begins and the last ends.
// maps: room for 2 maps a CTA. k a multiple of 16, n of 8. Measured in recordings/fp8.json (`grouped`).
#include <cuda_bf16.h>
#include <hopperlab/epilogue.cuh>
#include <hopperlab/fp8.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/ring_barriers.cuh>
#include <hopperlab/setmaxnreg.cuh>
#include <hopperlab/tensormap.cuh>

#ifndef STAGES
#define STAGES 5
#endif

constexpr int BM = 128, BN = 128, A_BYTES = BM * FP8_BK, TILE_BYTES = (BM + BN) * FP8_BK, SLOT_BYTES = 8192;
constexpr int SCALE_BYTES = (BM + 4) * 4, SCALE_SLOT = 640;      // a box of scales, and its place: a multiple of 128

// Where tile number `index` of all groups lies. Numbers only grow, so the walk goes on from where it stood.
struct Walk {
    const int* first;
    int cols, group = 0, before = 0;                            // before: tiles of the groups left behind

    __device__ Walk(const int* first, int cols) : first(first), cols(cols) {}
    __device__ int rows() const { return (first[group + 1] - first[group] + BM - 1) / BM; }       // of tiles
    __device__ bool reach(int index, int groups) {
        while (group < groups && index >= before + rows() * cols) before += rows() * cols, group++;
        return group < groups;
    }
    __device__ int row(int index) const { return (index - before) % rows(); }                     // down a column: its B is read once
    __device__ int col(int index) const { return (index - before) / rows(); }
};

// A warp makes the map of C's rows first .. first + rows - 1 from `like`, through `edited` in shared memory, and publishes it.
__device__ __forceinline__ void publish_map(TensorMap* map, TensorMap* edited, const TensorMap& like, __nv_bfloat16* c, int rows) {
    int lane = threadIdx.x % 32;
    if (lane == 0) cp_async_bulk_wait_group<0>();               // stores by the old map are done
    __syncwarp();
    if (lane < 16) edited->words[lane] = like.words[lane];
    __syncwarp();
    if (lane == 0) {
        tensormap_replace_global_address(edited, c);
        tensormap_replace_global_dim_1(edited, rows);
    }
    __syncwarp();                                               // the edit comes before the warp's copy of it
    tensormap_cp_fenceproxy(map, edited);
    if (lane == 0) fence_proxy_tensormap_acquire(map);          // the lane that will store by it
}

extern "C" __global__ void __launch_bounds__(384, 1)
gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap c_map,
     const __grid_constant__ TensorMap a_scales, const float* b_scales, const int* first, TensorMap* maps, __nv_bfloat16* c,
     int groups, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile), slots of C, STAGES x scales, maps, barriers
    unsigned char* slots = shared + STAGES * TILE_BYTES;
    unsigned char* scales = slots + 2 * SLOT_BYTES;
    TensorMap* edited = reinterpret_cast<TensorMap*>(scales + STAGES * SCALE_SLOT);
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(edited + 2);
    mbarrier_t* empty = full + STAGES;
    require_aligned(shared, 1024);
    int k_tiles = (k + FP8_BK - 1) / FP8_BK, cols = (n + BN - 1) / BN, warpgroup = threadIdx.x / 128;
    if (threadIdx.x == 0) ring_barriers_init<STAGES>(full, 1, empty, 8);        // the producer, and the bytes; a lane of each consumer warp
    __syncthreads();

    Ring<STAGES> ring;
    Walk walk(first, cols);
    if (warpgroup == 0) {
        setmaxnreg_dec<40>();
        if (threadIdx.x == 0) {
            for (int index = blockIdx.x; walk.reach(index, groups); index += gridDim.x) {
                int row0 = first[walk.group] + walk.row(index) * BM, b_row = walk.group * n + walk.col(index) * BN;
                for (int i = 0; i < k_tiles; i++, ring.advance()) {
                    unsigned char* stage = shared + ring.slot * TILE_BYTES;
                    mbarrier_t* arrived = &full[ring.slot];
                    mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1), fence_proxy_async_shared_cta();      // scales were read by ordinary loads
                    mbarrier_arrive_expect_tx(arrived, TILE_BYTES + SCALE_BYTES);
                    cp_async_bulk_tensor_2d_load(stage, &a, arrived, i * FP8_BK, row0);
                    cp_async_bulk_tensor_2d_load(scales + ring.slot * SCALE_SLOT, &a_scales, arrived, row0 / 4 * 4, i);
                    cp_async_bulk_tensor_2d_load(stage + A_BYTES, &b, arrived, i * FP8_BK, b_row);
                }
            }
        }
        return;
    }
    setmaxnreg_inc<232>();
    int me = __shfl_sync(0xffffffff, warpgroup - 1, 0), thread = threadIdx.x % 128, lane = thread % 32;
    int row = me * 64 + thread / 32 * 16 + lane / 4;            // this thread's upper row in the tile; the lower one is 8 below
    TensorMap* map = maps + 2 * blockIdx.x + me;
    int published = -1;                                         // the group that `map` describes
    float part[BN / 2], sum[1][BN / 2];
    for (int index = blockIdx.x; walk.reach(index, groups); index += gridDim.x) {
        #pragma unroll
        for (int i = 0; i < BN / 2; i++) sum[0][i] = 0;
        int first_scale = first[walk.group] % 4;                // where this tile's scales begin in their box
        const float* of_b = b_scales + (walk.group * cols + walk.col(index)) * k_tiles;
        for (int i = 0; i < k_tiles; i++, ring.advance()) {
            unsigned stage = shared_address(shared) + ring.slot * TILE_BYTES;
            float b_scale = of_b[i];
            mbarrier_wait_parity(&full[ring.slot], ring.phase);
            const float* a_scale = reinterpret_cast<const float*>(scales + ring.slot * SCALE_SLOT) + first_scale;
            float upper = a_scale[row] * b_scale, lower = a_scale[row + 8] * b_scale;
            wgmma_fence();
            wgmma_k_block_e4m3(part, stage + me * 64 * FP8_BK, stage + A_BYTES, 0);
            wgmma_commit_group();
            wgmma_wait_group<0>();
            __syncwarp();                                       // all lanes have read their scales
            if (lane == 0) mbarrier_arrive(&empty[ring.slot]);
            promote(sum[0], 0, part, upper, lower);
        }
        int rows = first[walk.group + 1] - first[walk.group];
        if (walk.group != published && thread < 32)
            publish_map(map, edited + me, c_map, c + static_cast<size_t>(first[walk.group]) * n, rows);
        published = walk.group;
        store_accumulators_tma<1>(map, sum, slots + me * SLOT_BYTES, 1 + me, walk.row(index) * BM + me * 64, walk.col(index) * BN, rows, n);
    }
    if (thread == 0) cp_async_bulk_wait_group<0>();             // shared memory and map outlive their readers
}
// SPDX-License-Identifier: Apache-2.0
