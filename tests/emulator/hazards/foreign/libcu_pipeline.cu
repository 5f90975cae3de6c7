// cuda::pipeline of the block with two stages.
//! plain
//! launch block=64
//! args f32[2048] f32[256]
//! check np.array_equal(a[1], a[0].reshape(8, 256).sum(axis=0))
//! mutate not_awaited read-before-arrival
//! mutate stage_released_early overwrite-in-flight
#include <cooperative_groups.h>
#include <cuda/pipeline>
namespace cg = cooperative_groups;
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ alignas(16) float tile[2][256];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    float sum[4] = {};
    for (int next = 0, step = 0; step < 8; step++) {
        for (; next < 8 && next < step + 2; next++) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, tile[next & 1], x + next * 256, cuda::aligned_size_t<16>(1024), pipe); //@ not_awaited stage_released_early
            pipe.producer_commit();
        }
        pipe.consumer_wait(); //~ not_awaited:
        for (int i = 0; i < 4; i++) sum[i] += tile[step & 1][255 - threadIdx.x - 64 * i]; //@ not_awaited
        pipe.consumer_release(); //~ stage_released_early: pipe.consumer_release(); if (step < 7) sum[0] += 0 * tile[step & 1][255 - threadIdx.x]; //@ stage_released_early
    }
    for (int i = 0; i < 4; i++) y[255 - threadIdx.x - 64 * i] = sum[i];
}
// SPDX-License-Identifier: Apache-2.0
