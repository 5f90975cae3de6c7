// cuda::barrier and cuda::memcpy_async, double-buffered (CUDA programming guide's manner).
//! plain
//! launch block=64
//! args f32[1024] f32[64]
//! check np.array_equal(a[1], a[0].reshape(16, 64).sum(axis=0))
//! mutate data_not_awaited read-before-arrival
//! mutate buffer_not_given_back overwrite-in-flight|race
//! mutate barrier_not_published barrier-misuse
#include <cuda/barrier>
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ alignas(16) float tile[2][64];
    #pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ cuda::barrier<cuda::thread_scope_block> ready[2];
    if (threadIdx.x == 0) { init(&ready[0], blockDim.x); init(&ready[1], blockDim.x); } //@ barrier_not_published
    __syncthreads(); //~ barrier_not_published:
    float sum = 0;
    cuda::memcpy_async(&tile[0][threadIdx.x], &x[threadIdx.x], sizeof(float), ready[0]); //@ barrier_not_published
    for (int step = 0; step < 16; step++) {
        int now = step & 1;
        if (step + 1 < 16) cuda::memcpy_async(&tile[now ^ 1][threadIdx.x], &x[(step + 1) * 64 + threadIdx.x], sizeof(float), ready[now ^ 1]); //@ buffer_not_given_back data_not_awaited
        ready[now].arrive_and_wait(); //~ data_not_awaited: (void)ready[now].arrive(); //@ barrier_not_published
        sum += tile[now][63 - threadIdx.x]; //@ data_not_awaited buffer_not_given_back
        __syncthreads(); //~ buffer_not_given_back:
    }
    y[63 - threadIdx.x] = sum;
}
// SPDX-License-Identifier: Apache-2.0
