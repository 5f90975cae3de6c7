// A listing as an article might print it: "a TMA + wgmma pipeline in 60 lines". Our own text, with the errors that such texts
// usually commit. It compiles, and in each of the places marked FIX_… something is wrong or idle; lesson 17 finds and repairs
// them one by one (-DFIX_BYTES=1 …). With all of them 1 the kernel is right.
//
// One CTA multiplies a 64 x 64 tile: C = A * B^T, A and B bf16, K-major, k a multiple of 64. What the comments say is the article's.
// Launch: grid 1, block 256 (warpgroup 0 produces, warpgroup 1 consumes), dynamic shared memory STAGES * 16384 + 1024 bytes.
// Tensor maps: boxes of 64 rows x 64 columns, swizzle 128B.
#include <cuda_bf16.h>
#include <hopperlab/fence.cuh>
#include <hopperlab/mbarrier.cuh>
#include <hopperlab/tma.cuh>
#include <hopperlab/wgmma.cuh>

#ifndef FIX_BYTES               // the barrier is told how many bytes come
#define FIX_BYTES 0
#endif
#ifndef FIX_PARITY              // the consumer waits for the phase of its own pass
#define FIX_PARITY 0
#endif
#ifndef FIX_OWN_WAIT            // the producer does not wait for its own load
#define FIX_OWN_WAIT 0
#endif
#ifndef FIX_WGMMA_FENCE         // wgmma.fence before the accumulators are used
#define FIX_WGMMA_FENCE 0
#endif
#ifndef FIX_RELEASE             // a stage is handed back after wait_group, not right after the issue
#define FIX_RELEASE 0
#endif
#ifndef FIX_EMPTY_WAIT          // the producer waits until the stage is free
#define FIX_EMPTY_WAIT 0
#endif
#ifndef FIX_PROXY_FENCE         // ordinary stores are fenced before the bulk store reads them
#define FIX_PROXY_FENCE 0
#endif
#ifndef FIX_READ_WAIT           // the kernel does not end while the bulk store reads its shared memory
#define FIX_READ_WAIT 0
#endif

constexpr int STAGES = 2, TILE_BYTES = 64 * 128, STAGE_BYTES = 2 * TILE_BYTES;

extern "C" __global__ void __launch_bounds__(256)
pipeline(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* c, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(shared + STAGES * STAGE_BYTES);
    mbarrier_t* empty = full + STAGES;
    int k_tiles = k / 64, thread = threadIdx.x % 128;
    if (threadIdx.x == 0)
        for (int s = 0; s < STAGES; s++) mbarrier_init(&full[s], 1), mbarrier_init(&empty[s], 1);
    __syncthreads();

    if (threadIdx.x == 0) {                                     // "TMA is asynchronous: one thread does it all"
        for (int i = 0; i < k_tiles; i++) {
            int s = i % STAGES, phase = i / STAGES % 2;
            unsigned char* stage = shared + s * STAGE_BYTES;
            if (FIX_EMPTY_WAIT) mbarrier_wait_parity(&empty[s], phase ^ 1);
            mbarrier_arrive_expect_tx(&full[s], FIX_BYTES ? STAGE_BYTES : TILE_BYTES);     // "expect one tile"
            cp_async_bulk_tensor_2d_load(stage, &a, &full[s], i * 64, 0);
            cp_async_bulk_tensor_2d_load(stage + TILE_BYTES, &b, &full[s], i * 64, 0);
            if (!FIX_OWN_WAIT) mbarrier_wait_parity(&full[s], phase);                      // "make sure it has arrived"
        }
    } else if (threadIdx.x >= 128) {
        float d[32] = {};
        for (int i = 0; i < k_tiles; i++) {
            int s = i % STAGES, phase = i / STAGES % 2;
            unsigned stage = shared_address(shared + s * STAGE_BYTES);
            mbarrier_wait_parity(&full[s], FIX_PARITY ? phase : 0);                        // "wait for the barrier"
            if (FIX_WGMMA_FENCE) wgmma_fence();
            #pragma unroll
            for (int step = 0; step < 4; step++)
                wgmma_m64n64k16_bf16(d, wgmma_descriptor_128B(stage + step * 32), wgmma_descriptor_128B(stage + TILE_BYTES + step * 32), 1);
            wgmma_commit_group();
            if (!FIX_RELEASE && thread == 0) mbarrier_arrive(&empty[s]);                   // "the tensor core has it: release"
            if (FIX_RELEASE) {
                wgmma_wait_group<0>();
                if (thread == 0) mbarrier_arrive(&empty[s]);
            }
        }
        wgmma_wait_group<0>();                                                             // "one wait after the loop is enough"
        float* tile = reinterpret_cast<float*>(shared);                                    // "reuse a stage for the result"
        int row = 16 * (thread / 32) + thread % 32 / 4, column = 2 * (thread % 4);
        for (int e = 0; e < 32; e++) tile[(row + 8 * (e / 2 % 2)) * 64 + column + 8 * (e / 4) + e % 2] = d[e];
        if (FIX_PROXY_FENCE) fence_proxy_async_shared_cta();
        asm volatile("bar.sync 1, 128;" ::: "memory");                                     // "all have written"
        if (thread == 0) {
            cp_async_bulk_store(c, tile, 64 * 64 * 4);
            cp_async_bulk_commit_group();
            if (FIX_READ_WAIT) cp_async_bulk_wait_group_read<0>();                         // "the copy engine does the rest"
        }
    }
}
// SPDX-License-Identifier: Apache-2.0
