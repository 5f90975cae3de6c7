// Double-buffered cp.async, Ampere's manner.
//! plain
//! launch block=64
//! args f32[2048] f32[256]
//! check np.array_equal(a[1], a[0].reshape(8, 256).sum(axis=0))
//! mutate waits_for_too_few read-before-arrival
//! mutate no_barrier_after_wait read-before-arrival
//! mutate no_barrier_before_refill overwrite-in-flight
#include <cuda_pipeline_primitives.h>
extern "C" __global__ void k(const float4* x, float* y) {
    __shared__ float4 tile[2][64];
    float sum[4] = {};
    __pipeline_memcpy_async(&tile[0][threadIdx.x], &x[threadIdx.x], 16);
    __pipeline_commit();
    for (int step = 0; step < 8; step++) {
        if (step + 1 < 8) __pipeline_memcpy_async(&tile[(step + 1) & 1][threadIdx.x], &x[(step + 1) * 64 + threadIdx.x], 16); //@ waits_for_too_few no_barrier_after_wait no_barrier_before_refill
        __pipeline_commit();
        __pipeline_wait_prior(1); //~ waits_for_too_few: __pipeline_wait_prior(2);
        __syncthreads(); //~ no_barrier_after_wait:
        const float* t = (const float*)tile[step & 1];
        for (int i = 0; i < 4; i++) sum[i] += t[threadIdx.x + 64 * i]; //@ waits_for_too_few no_barrier_after_wait no_barrier_before_refill
        __syncthreads(); //~ no_barrier_before_refill:
    }
    for (int i = 0; i < 4; i++) y[threadIdx.x + 64 * i] = sum[i];
}
// SPDX-License-Identifier: Apache-2.0
