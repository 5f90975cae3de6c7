// A barrier of the whole grid by one atomic counter, between two phases of one kernel (as cooperative launches do by hand).
//! plain
//! launch block=64 grid=4
//! args f32[256] f32[256] u32[1]
//! check np.array_equal(a[1], (a[0] * 2)[::-1])
//! mutate writes_not_fenced race
//! mutate others_not_held race
//! mutate arrives_before_its_block race
__device__ float between[256];
extern "C" __global__ void k(const float* x, float* y, unsigned* arrived) {

    int i = blockIdx.x * 64 + threadIdx.x;
    between[i] = 2 * x[i]; //@ writes_not_fenced others_not_held arrives_before_its_block
    __syncthreads(); //~ arrives_before_its_block:
    if (threadIdx.x == 0) {
        __threadfence(); //~ writes_not_fenced:
        atomicAdd(arrived, 1);
        while (atomicAdd(arrived, 0) < 4) __nanosleep(20);
        __threadfence();
    }
    __syncthreads(); //~ others_not_held:
    y[i] = __ldcg(&between[255 - i]); //@ writes_not_fenced others_not_held arrives_before_its_block
}
// SPDX-License-Identifier: Apache-2.0
