// Block reduction by shuffles, used twice with one scratch array (the classic that lacks its first barrier).
//! plain
//! launch block=256
//! args f32[256] f32[2]
//! check a[1][0] == a[0].sum() and a[1][1] == a[0].max()
//! mutate no_barrier_before_reuse race
//! mutate no_barrier_after_store race
//! mutate half_a_mask divergent-collective
template <class F> __device__ float reduce(float* shared, float v, F f) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int o = 16; o; o >>= 1) v = f(v, __shfl_down_sync(0xffffffffu, v, o));
    __syncthreads(); //~ no_barrier_before_reuse:
    if (lane == 0) shared[warp] = v; //@ no_barrier_before_reuse no_barrier_after_store
    __syncthreads(); //~ no_barrier_after_store:
    v = threadIdx.x < blockDim.x / 32 ? shared[lane] : f(-1e30f, -2e30f); //@ no_barrier_after_store no_barrier_before_reuse
    if (warp == 0) for (int o = 4; o; o >>= 1) v = f(v, __shfl_down_sync(0xffffffffu, v, o)); //~ half_a_mask: if (threadIdx.x < 16) for (int o = 4; o; o >>= 1) v = f(v, __shfl_down_sync(0xffffffffu, v, o)); else if (lane == 20) { __nanosleep(1); shared[31] = v; __syncwarp(); } //@ half_a_mask
    return v;
}
struct Sum { __device__ float operator()(float a, float b) const { return a + b; } };
struct Max { __device__ float operator()(float a, float b) const { return fmaxf(a, b); } };
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float scratch[32];
    float s = reduce(scratch, x[threadIdx.x], Sum()); //@ no_barrier_before_reuse no_barrier_after_store half_a_mask
    float m = reduce(scratch, x[threadIdx.x], Max()); //@ no_barrier_before_reuse no_barrier_after_store half_a_mask
    if (threadIdx.x == 0) { y[0] = s; y[1] = m; }
}
// SPDX-License-Identifier: Apache-2.0
