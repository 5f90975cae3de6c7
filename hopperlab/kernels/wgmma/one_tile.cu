// One tile by one warpgroup: D[64 x N] = A[64 x k] * B[N x k]^T, bf16 in, fp32 out. All of k lies in shared memory at once, in
// BLOCKS blocks of ROW_BYTES bytes, so that nothing is left of a product but wgmma: descriptors, fence, commit, wait.
// Each block is one group; IN_FLIGHT of them may be unfinished while the next is issued.
// out[thread * N / 2 + i] = d[i]: the accumulator as the threads hold it; fragments.wgmma_d(N) says which element that is.
//
// `layout` is a matrix descriptor without its start address: leading and stride offset and swizzle, as the tensor maps' box and
// swizzle make them. One value serves A and B.
// Macros: N (8, 16, 32, 64, 128, 256), BLOCKS, ROW_BYTES (32, 64 or 128: the box's row and the swizzle's span), IN_FLIGHT.
// Launch: grid 1, block 128, dynamic shared memory BLOCKS * (64 + N) * ROW_BYTES + 64. Tensor maps: A box 64 rows, B box N
// rows, of ROW_BYTES each, swizzled to match.
#include <hopperlab/bugs_by_lesson.cuh>
#include <hopperlab/tma.cuh>
#include <hopperlab/wgmma_small.cuh>

#ifndef N
#define N 64
#endif
#ifndef BLOCKS
#define BLOCKS 1
#endif
#ifndef ROW_BYTES
#define ROW_BYTES 128
#endif
#ifndef IN_FLIGHT
#define IN_FLIGHT 0
#endif

constexpr int A_BYTES = 64 * ROW_BYTES, BLOCK_BYTES = A_BYTES + N * ROW_BYTES, BK = ROW_BYTES / 2;

extern "C" __global__ void __launch_bounds__(128, 1)
one_tile(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* out, unsigned long long layout) {
    extern __shared__ __align__(1024) unsigned char shared[];   // BLOCKS x (A rows, B rows), then the barriers
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(shared + BLOCKS * BLOCK_BYTES);
    require_aligned(shared, 1024);
    if (threadIdx.x == 0) {
        for (int s = 0; s < BLOCKS; s++) {
            unsigned char* block = shared + s * BLOCK_BYTES;
            mbarrier_init(&full[s], 1);
            mbarrier_arrive_expect_tx(&full[s], BLOCK_BYTES);
            cp_async_bulk_tensor_2d_load(block, &a, &full[s], s * BK, 0);
            cp_async_bulk_tensor_2d_load(block + A_BYTES, &b, &full[s], s * BK, 0);
        }
    }
    __syncthreads();                                            // nobody waits on a barrier before it is one
    if (BUG_DESCRIPTOR_SWIZZLE) layout ^= 3ull << 62;           // 1 (128B) becomes 2 (64B)

    float d[N / 2];
    #pragma unroll
    for (int s = 0; s < BLOCKS; s++) {
        unsigned a_tile = shared_address(shared) + s * BLOCK_BYTES, b_tile = a_tile + A_BYTES;
        mbarrier_wait_parity(&full[s], 0);                      // TMA wrote, wgmma reads: one proxy, no fence between them
        wgmma_fence();                                          // the accumulator's registers are wgmma's from here on
        #pragma unroll
        for (int k = 0; k < ROW_BYTES; k += 32)                 // 16 columns of k are 32 bytes of every row
            wgmma_m64k16_bf16(d, layout | (a_tile + k) >> 4, layout | (b_tile + k) >> 4, s + k > 0);
        wgmma_commit_group();
        wgmma_wait_group<IN_FLIGHT>();                          // all blocks but the last IN_FLIGHT are done
    }
    if (!BUG_READ_BEFORE_WAIT) wgmma_wait_group<0>();           // now the registers are ours again
    #pragma unroll
    for (int i = 0; i < N / 2; i++) out[threadIdx.x * (N / 2) + i] = d[i];
    if (BUG_READ_BEFORE_WAIT) wgmma_wait_group<0>();            // too late
}
// SPDX-License-Identifier: Apache-2.0
