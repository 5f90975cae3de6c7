// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// cp_async_mma in C++: cuda::pipeline and cuda::memcpy_async instead of cp.async and its groups. The same ring, the same tiles,
// the same products; what changes is who writes the instructions:
//   SCOPE 0  a pipeline of each thread's own: memcpy_async is cp.async, producer_commit a commit_group, waiting a wait_group;
//            it makes a thread's own copies visible to that thread, so a __syncthreads must follow, as with the instructions
//   SCOPE 1  one pipeline of the block: producer_commit is an arrival on a cuda::barrier (an mbarrier) when the copies have
//            landed (cp.async.mbarrier.arrive), and acquire and release count on a second one; no __syncthreads at all
// What lies outside the matrices is written as zeros by ordinary stores: memcpy_async has no zero fill.
// cuda::pipeline drives cp.async only, never TMA: that is what mbarriers with expect_tx are for.
//
// Switches for the "break it" cells, 0 unless the compiler is told otherwise:
//   BUG_NO_ACQUIRE  tiles are copied and committed without producer_acquire; SCOPE 1: race (SCOPE 0: nothing, it is empty there)
//   BUG_NO_RELEASE  slots are never handed back; SCOPE 1: deadlock (SCOPE 0: nothing, it is empty there)
//
// Macros: SCOPE, STAGES (2 to 7), COPY_AFTER (1: the next tile is asked for after the product, as SCOPE 1 does unless told
// otherwise), BLOCKS_PER_SM (what the registers are budgeted for; 0: left to the compiler), WHOLE_TILES (1: m, n and k are
// multiples of the tile's, nothing is compared). Launch: grid (ceil(n/128), ceil(m/128)), block 256, dynamic shared memory
// STAGES * 32768 bytes. k a multiple of 8. Measured in recordings/variants.json and, by cause, in pipelines.json.
#include <cooperative_groups.h>
#include <cuda/pipeline>
#include <hopperlab/mma_tile.cuh>

#ifndef SCOPE
#define SCOPE 0
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef COPY_AFTER
#define COPY_AFTER SCOPE
#endif
#ifndef BLOCKS_PER_SM
#define BLOCKS_PER_SM 0
#endif
#ifndef WHOLE_TILES
#define WHOLE_TILES 0
#endif
#ifndef BUG_NO_ACQUIRE
#define BUG_NO_ACQUIRE 0
#endif
#ifndef BUG_NO_RELEASE
#define BUG_NO_RELEASE 0
#endif

constexpr int BM = 128, BN = 128, BK = 64, A_BYTES = BM * BK * 2, STAGE_BYTES = A_BYTES + BN * BK * 2;

// Rows row0 .. + 127, columns k0 .. + 63 of a matrix of rows x k as a swizzled tile; four 16-byte copies per thread.
template <class Pipeline>
__device__ __forceinline__ void copy_tile(unsigned char* tile, const __nv_bfloat16* matrix, int rows, int k, int row0, int k0,
                                          Pipeline& pipeline) {
    int my_row = threadIdx.x / 8, chunk = threadIdx.x % 8;
    #pragma unroll
    for (int row = my_row; row < 128; row += 32) {
        unsigned char* to = tile + swizzled_128(row, chunk);
        const __nv_bfloat16* from = matrix + (size_t)(row0 + row) * k + k0 + chunk * 8;
        bool inside = WHOLE_TILES || (row0 + row < rows && k0 + chunk * 8 < k);
        if (inside) cuda::memcpy_async(to, from, cuda::aligned_size_t<16>(16), pipeline);
        else *reinterpret_cast<uint4*>(to) = make_uint4(0, 0, 0, 0);
    }
}

extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM)
gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile)
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, k_tiles = (k + BK - 1) / BK;
#if SCOPE == 0
    auto pipeline = cuda::make_pipeline();
#else
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
    auto pipeline = cuda::make_pipeline(cooperative_groups::this_thread_block(), &state);
#endif
    auto copy = [&](int i) {                                    // tile i into its slot
        unsigned char* stage = shared + i % STAGES * STAGE_BYTES;
        if (!BUG_NO_ACQUIRE) pipeline.producer_acquire();       // SCOPE 1: until everyone has released the slot
        if (i < k_tiles) {
            copy_tile(stage, a, m, k, row0, i * BK, pipeline);
            copy_tile(stage + A_BYTES, b, n, k, col0, i * BK, pipeline);
        }
        pipeline.producer_commit();
    };
    for (int i = 0; i < STAGES - 1; i++) copy(i);
    float d[4][4][4] = {};
    for (int i = 0; i < k_tiles; i++) {
#if SCOPE == 0
        cuda::pipeline_consumer_wait_prior<STAGES - 2>(pipeline);   // my part of tile i has landed;
        __syncthreads();                                        // so has everyone's, and all have read tile i - 1
#else
        pipeline.consumer_wait();                               // everyone's part of tile i has landed
#endif
        unsigned stage = shared_address(shared) + i % STAGES * STAGE_BYTES;
        if (!COPY_AFTER) copy(i + STAGES - 1);                  // into the slot of tile i - 1
        mma_k_block_128(d, stage, stage + A_BYTES);
#if SCOPE == 1
        if (!BUG_NO_RELEASE) pipeline.consumer_release();       // I have read tile i
#endif
        if (COPY_AFTER) copy(i + STAGES - 1);
    }
#if SCOPE == 0
    pipeline.consumer_release();
#else
    for (int i = 0; i < STAGES - 1; i++) {                      // the empty groups past the end: leave the pipeline as it began
        pipeline.consumer_wait();
        pipeline.consumer_release();
    }
#endif
    store_mma_tile(c, d, row0, col0, m, n);
}
// SPDX-License-Identifier: Apache-2.0
