// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// For few tiles: 28 tiles on 132 SMs leave 104 idle, however deep k is. New against persistent: not tiles are dealt out but
// k-blocks. All k-blocks of all tiles stand in one row, tile after tile; each CTA takes an equal stretch of it. Where a
// stretch holds a whole tile, it is stored as always. Where it holds a part, the warpgroup adds its fp32 sums to a
// workspace by TMA (cp.reduce.async.bulk.tensor add: the L2 adds) and counts the k-blocks done; who completes the count
// reads the sums, rounds them into C, and leaves workspace and counter zero for the next launch.
// Order: reduce complete (wait_group, not .read) -> __threadfence -> atomicAdd by one thread; whoever reaches the full
// count -> __threadfence -> barrier -> the warpgroup's loads. The order of the additions differs from run to run, and with
// it the last bit of real-valued sums.
//
// Macros: BN (64, 128 or 256), STAGES. Launch: grid (CTAs), at most the SMs; block 384, dynamic shared memory
// STAGES * (128 + BN) * 128 + 32768 + 128. Tensor maps: A box 128 rows x 64 columns, B box BN x 64, both 128B, fill zero;
// workspace (fp32, ceil(m/128)*128 x ceil(n/BN)*BN, zero before the first launch) box 64 x 32, 128B. counters: two ints a
// tile, zero before the first launch. k a multiple of 8. Measured in recordings/ladder.json.
#include <cuda_bf16.h>
#include <hopperlab/epilogue.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/setmaxnreg.cuh>
#include <hopperlab/tma_reduce.cuh>
#include <hopperlab/wgmma_tile.cuh>

#ifndef BN
#define BN 256
#endif
#ifndef STAGES
#define STAGES 4
#endif

constexpr int BM = 128, BK = 64;
constexpr int A_BYTES = BM * BK * 2, B_BYTES = BN * BK * 2, STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int SLOT_BYTES = 64 * 64 * 4;                         // 64 rows x 64 fp32 sums: two boxes of 32 columns

// This CTA's next stretch of k-blocks inside one tile: tile, k-blocks first .. first + count - 1.
struct Stretch { int tile, first, count; };
__device__ __forceinline__ Stretch stretch_at(int unit, int end, int k_tiles) {
    int first = unit % k_tiles;
    return {unit / k_tiles, first, min(k_tiles - first, end - unit)};
}

// Columns 64 * chunk .. + 63 of the accumulator as fp32, two boxes of 64 rows x 128 bytes in the 128-byte swizzle.
template <int COUNT>
__device__ __forceinline__ void stage_sums(unsigned char* slot, const float (&d)[COUNT], int chunk) {
    int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane / 4;
    #pragma unroll
    for (int i = 0; i < 32; i += 2) {                           // see epilogue.cuh for what d[i] is
        int y = row + 8 * (i / 2 % 2), x = 8 * (i / 4) + 2 * (lane % 4);
        unsigned column16 = (x % 32 / 4) ^ (y % 8);
        float2* to = reinterpret_cast<float2*>(slot + x / 32 * 8192 + y * 128 + column16 * 16 + x % 4 * 4);
        *to = make_float2(d[32 * chunk + i], d[32 * chunk + i + 1]);
    }
}

// The warpgroup's 64 x BN sums from the workspace to C, and zeros in their place.
__device__ __forceinline__ void finish_tile(float* workspace, __nv_bfloat16* c, int row0, int col0, int pitch, int m, int n) {
    for (int i = threadIdx.x % 128; i < 64 * BN / 4; i += 128) {
        int row = row0 + i / (BN / 4), col = col0 + i % (BN / 4) * 4;
        float4* from = reinterpret_cast<float4*>(workspace + (size_t)row * pitch + col);
        float4 sums = __ldcg(from);
        *from = make_float4(0, 0, 0, 0);
        float values[4] = {sums.x, sums.y, sums.z, sums.w};
        #pragma unroll
        for (int j = 0; j < 4; j++)
            if (row < m && col + j < n) c[(size_t)row * n + col + j] = __float2bfloat16(values[j]);
    }
}

extern "C" __global__ void __launch_bounds__(384, 1)
gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap sums,
     float* workspace, int* counters, __nv_bfloat16* c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile), 2 slots of sums, barriers
    unsigned char* slots = shared + STAGES * STAGE_BYTES;
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(slots + 2 * SLOT_BYTES);
    mbarrier_t* empty = full + STAGES;
    int* done = reinterpret_cast<int*>(empty + STAGES);         // a word a consumer: is my part of the tile complete?
    require_aligned(shared, 1024);
    int k_tiles = (k + BK - 1) / BK, rows = (m + BM - 1) / BM, cols = (n + BN - 1) / BN;
    long long units = (long long)rows * cols * k_tiles;
    int begin = units * blockIdx.x / gridDim.x, end = units * (blockIdx.x + 1) / gridDim.x;
    int warpgroup = threadIdx.x / 128;

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 2);
        }
    }
    __syncthreads();                                            // nobody touches a barrier before it is one

    Ring<STAGES> ring;
    if (warpgroup == 0) {
        setmaxnreg_dec<40>();
        if (threadIdx.x == 0) {
            for (int unit = begin; unit < end; unit++, ring.advance()) {
                int tile = unit / k_tiles, i = unit % k_tiles;
                unsigned char* stage = shared + ring.slot * STAGE_BYTES;
                mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
                mbarrier_arrive_expect_tx(&full[ring.slot], STAGE_BYTES);
                cp_async_bulk_tensor_2d_load(stage, &a, &full[ring.slot], i * BK, tile % rows * BM);
                cp_async_bulk_tensor_2d_load(stage + A_BYTES, &b, &full[ring.slot], i * BK, tile / rows * BN);
            }
        }
    } else {
        setmaxnreg_inc<232>();
        float d[BN / 2];
        int me = warpgroup - 1, thread = threadIdx.x % 128;
        unsigned char* slot = slots + me * SLOT_BYTES;
        for (int unit = begin; unit < end;) {
            Stretch part = stretch_at(unit, end, k_tiles);
            for (int i = 0; i < part.count; i++, ring.advance()) {
                unsigned stage = shared_address(shared) + ring.slot * STAGE_BYTES;
                mbarrier_wait_parity(&full[ring.slot], ring.phase);
                wgmma_fence();
                wgmma_k_block(d, stage + me * 64 * BK * 2, stage + A_BYTES, i > 0);
                wgmma_commit_group();
                wgmma_wait_group<0>();
                if (thread == 0) mbarrier_arrive(&empty[ring.slot]);
            }
            unit += part.count;
            int row0 = part.tile % rows * BM + me * 64, col0 = part.tile / rows * BN;
            if (part.count == k_tiles) {
                store_accumulator(c, d, row0, col0, m, n);
                continue;
            }
            #pragma unroll
            for (int chunk = 0; chunk < BN / 64; chunk++) {
                stage_sums(slot, d, chunk);
                fence_proxy_async_shared_cta();
                bar_sync(warpgroup, 128);                       // the sums are there, for the copy engine too
                if (thread == 0) {
                    cp_reduce_async_bulk_tensor_2d_add(&sums, slot, col0 + chunk * 64, row0);
                    cp_reduce_async_bulk_tensor_2d_add(&sums, slot + 8192, col0 + chunk * 64 + 32, row0);
                    cp_async_bulk_commit_group();
                    cp_async_bulk_wait_group_read<0>();
                }
                bar_sync(warpgroup, 128);                       // the slot may be written again
            }
            if (thread == 0) {
                cp_async_bulk_wait_group<0>();                  // the sums have arrived, not only left
                __threadfence();
                int* counter = &counters[2 * part.tile + me];
                done[me] = atomicAdd(counter, part.count) + part.count == k_tiles;
                __threadfence();
                if (done[me]) *counter = 0;
            }
            bar_sync(warpgroup, 128);                           // all know whether the tile is complete
            if (done[me]) finish_tile(workspace, c, row0, col0, cols * BN, m, n);
            bar_sync(warpgroup, 128);                           // all have read the answer
        }
    }
}
// SPDX-License-Identifier: Apache-2.0
