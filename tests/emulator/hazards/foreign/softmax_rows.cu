// Softmax of rows of 64, a warp a row, in shared memory: maximum and sum by warp-synchronous trees (the kind that lacks __syncwarp).
//! plain
//! launch block=128
//! args f32[256] f32[256]
//! check np.allclose(a[1].reshape(4, 64), np.exp(a[0].reshape(4, 64)) / np.exp(a[0].reshape(4, 64)).sum(axis=1, keepdims=True), atol=1e-5)
//! mutate tree_in_step race
//! mutate result_read_too_early race
//! mutate scratch_reused_too_early race
__device__ float tree(float* s, float v, bool sum) {
    int lane = threadIdx.x & 31;
    s[lane] = v; //@ tree_in_step scratch_reused_too_early
    __syncwarp();
    #pragma unroll
    for (int d = 16; d; d >>= 1) {
        float other = s[lane ^ d]; //@ tree_in_step
        __syncwarp(); //~ tree_in_step:
        v = sum ? v + other : fmaxf(v, other);
        s[lane] = v; //@ tree_in_step result_read_too_early
        __syncwarp(); //~ result_read_too_early: if (d > 1) __syncwarp();
    }
    float result = s[0]; //@ result_read_too_early scratch_reused_too_early
    __syncwarp(); //~ scratch_reused_too_early:
    return result;
}
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float scratch[4][32];
    int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    const float* row = x + 64 * warp;
    float a = row[lane], b = row[lane + 32];
    float top = tree(scratch[warp], fmaxf(a, b), false); //@ tree_in_step result_read_too_early scratch_reused_too_early
    a = __expf(a - top); b = __expf(b - top);
    float all = tree(scratch[warp], a + b, true); //@ tree_in_step result_read_too_early scratch_reused_too_early
    y[64 * warp + lane] = a / all; y[64 * warp + lane + 32] = b / all;
}
// SPDX-License-Identifier: Apache-2.0
