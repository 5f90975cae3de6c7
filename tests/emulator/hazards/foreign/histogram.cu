// Histogram with shared bins, merged by global atomics (CUDA samples' manner).
//! plain
//! launch block=128 grid=4
//! args u32[4096] u32[16]
//! check (a[1] - np.arange(16) % 7 == np.bincount(np.arange(4096) % 7, minlength=16)).all()
//! mutate bins_not_zeroed_yet race
//! mutate merged_too_early race
//! mutate plain_increment race
//! mutate plain_merge race
extern "C" __global__ void k(const unsigned* data, unsigned* total) {
    __shared__ unsigned bins[16];
    for (int i = threadIdx.x; i < 16; i += blockDim.x) bins[i] = 0; //@ bins_not_zeroed_yet
    __syncthreads(); //~ bins_not_zeroed_yet:
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < 4096; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[data[i]], 1u); //~ plain_increment: bins[data[i]] += 1; //@ bins_not_zeroed_yet merged_too_early plain_increment
    __syncthreads(); //~ merged_too_early:
    if (threadIdx.x < 16) atomicAdd(&total[threadIdx.x], bins[threadIdx.x]); //~ plain_merge: if (threadIdx.x < 16) total[threadIdx.x] += bins[threadIdx.x]; //@ merged_too_early plain_merge
}
// SPDX-License-Identifier: Apache-2.0
