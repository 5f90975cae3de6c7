// Single-pass scan with decoupled look-back: aggregates and prefixes in global memory behind volatile flags and __threadfence.
//! plain
//! launch block=64 grid=4
//! args u32[256] u32[256] u32[4] u32[4] u32[4]
//! check np.array_equal(a[1], np.cumsum(np.arange(256) % 7))
//! mutate value_not_fenced race
//! mutate prefix_not_fenced race
//! mutate no_barrier_before_use race
//! mutate scan_without_syncwarp race
extern "C" __global__ void k(const unsigned* x, unsigned* y, volatile unsigned* flag, unsigned* aggregate, unsigned* prefix) {
    __shared__ unsigned tile[64], exclusive;
    unsigned lane = threadIdx.x & 31, v = x[blockIdx.x * 64 + threadIdx.x];
    tile[threadIdx.x] = v;
    __syncwarp();
    for (unsigned d = 1; d < 32; d *= 2) {
        unsigned add = lane >= d ? tile[threadIdx.x - d] : 0; //@ scan_without_syncwarp
        __syncwarp(); //~ scan_without_syncwarp:
        tile[threadIdx.x] += add; //@ scan_without_syncwarp
        __syncwarp();
    }
    __syncthreads();
    unsigned mine = tile[threadIdx.x] + (threadIdx.x >= 32 ? tile[31] : 0), total = tile[31] + tile[63];
    if (threadIdx.x == 0) {
        aggregate[blockIdx.x] = total; //@ value_not_fenced
        __threadfence(); //~ value_not_fenced:
        flag[blockIdx.x] = 101;
        unsigned sum = 0;
        for (int b = (int)blockIdx.x - 1; b >= 0; b--) {
            unsigned state;
            do state = flag[b]; while (state < 101);
            __threadfence();
            if (state == 102) { sum += __ldcg(&prefix[b]); break; } //@ prefix_not_fenced
            sum += __ldcg(&aggregate[b]); //@ value_not_fenced
        }
        prefix[blockIdx.x] = sum + total; //@ prefix_not_fenced
        __threadfence(); //~ prefix_not_fenced:
        flag[blockIdx.x] = 102;
        exclusive = sum; //@ no_barrier_before_use
    }
    __syncthreads(); //~ no_barrier_before_use:
    y[blockIdx.x * 64 + threadIdx.x] = exclusive + mine; //@ no_barrier_before_use
}
// SPDX-License-Identifier: Apache-2.0
