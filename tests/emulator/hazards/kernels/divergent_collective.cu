// Collective instructions without all the threads they need.
//! case wgmma_by_three_warps
//! launch block=128 shared=16384
//! args bf16[64x64] f32[4096]
KERNEL(128) k(const void* x, float* y) {
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {};
    if (!BUG || threadIdx.x < 96) {
        wgmma_fence();
        multiply(d, s, s + 8192);                               // HAZARD
        wgmma_commit_group();
        wgmma_wait_group<0>();
    }
    __syncthreads();
    put(y, d);
}
//! case barrier_at_two_places
//! launch block=64
//! args i32[64]
//! ptx more bar.sync
KERNEL(64) k(int* y) {
    __shared__ int s[64];
#if BUG
    if (threadIdx.x % 2) { s[threadIdx.x] = 1; asm volatile("bar.sync 0;" ::: "memory"); y[threadIdx.x] = 3; }  // HAZARD OTHER
    else { s[threadIdx.x] = 2; asm volatile("bar.sync 0;" ::: "memory"); y[threadIdx.x] = 4; }  // OTHER HAZARD
#else
    s[threadIdx.x] = threadIdx.x % 2 ? 1 : 2;
    asm volatile("bar.sync 0;" ::: "memory");
    y[threadIdx.x] = 1;
#endif
    y[threadIdx.x] += s[threadIdx.x ^ 1];
}
//! case mask_that_does_not_name_its_caller
//! launch block=32
//! args i32[32] i32[32]
KERNEL(32) k(const int* x, int* y) {
    y[threadIdx.x] = __shfl_sync(BUG ? 0x0000ffff : 0xffffffff, x[threadIdx.x], 3);  // HAZARD
}
//! case wgmma_in_a_block_of_two_warps
//! launch block=64 shared=16384
//! args bf16[64x64] f32[4096]
KERNEL(128) k(const void* x, float* y) {
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {};
    if (BUG) {
        wgmma_fence();
        multiply(d, s, s + 8192);                               // HAZARD
        wgmma_commit_group();
        wgmma_wait_group<0>();
    }
    put(y, d);
}
//! case half_a_warp_with_its_mask
//! clean
//! launch block=32
//! args i32[32] i32[32]
KERNEL(32) k(const int* x, int* y) {
    int v = x[threadIdx.x];
    if (threadIdx.x < 16) v += __shfl_xor_sync(0x0000ffff, v, 1);
    else { v -= __shfl_xor_sync(0xffff0000, v, 2); __syncwarp(0xffff0000); }
    y[threadIdx.x] = v;
}
//! case setmaxnreg_by_three_warps
//! launch block=128
//! args i32[128]
extern "C" __global__ void __launch_bounds__(128, 1) k(int* y) {
    if (!BUG || threadIdx.x < 96) setmaxnreg_dec<40>();         // HAZARD
    y[threadIdx.x] = 1;
}
//! case setmaxnreg_by_the_producer_warp_alone
//! launch block=256
//! args i32[256]
extern "C" __global__ void __launch_bounds__(256, 1) k(int* y) {
    int warp = threadIdx.x / 32;
    if (warp < 4) {
        if (!BUG || warp == 0) setmaxnreg_dec<40>();            // HAZARD
    } else {
        y[threadIdx.x] = 1;
    }
    y[threadIdx.x] += 1;
}
//! case syncwarp_in_both_branches
//! clean
//! launch block=64 grid=2
//! args i32[128] i32[128]
KERNEL(64) k(const int* x, int* y) {                            // lanes 0 to 15 produce, 16 to 31 consume: two instructions, one mask
    __shared__ int s[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    for (int round = 0; round < 3; round++) {
        if (t % 32 < 16) { s[t] = x[i] + round; __syncwarp(); y[i] = round; __syncwarp(); }
        else { __syncwarp(); y[i] = s[t - 16]; __syncwarp(); }
    }
}
//! case syncwarp_in_one_branch_with_another_mask
//! launch block=32
//! args i32[32] i32[32]
//! also race
KERNEL(32) k(const int* x, int* y) {
    __shared__ int s[32];
    int t = threadIdx.x;
    s[t] = 0;
    __syncwarp();
    if (t < 16) {
        s[t] = x[t];
        __syncwarp();                                           // HAZARD
        y[t] = 1;
    } else {
        __syncwarp(BUG ? 0xffff0000 : 0xffffffff);
        y[t] = s[t - 16];
    }
}
//! case syncwarp_in_both_branches_with_masks_that_overlap
//! launch block=32
//! args i32[32] i32[32]
//! also race
KERNEL(32) k(const int* x, int* y) {
    __shared__ int s[32];
    int t = threadIdx.x;
    if (t < 16) {
        s[t] = x[t];
        __syncwarp();                                           // HAZARD OTHER
        y[t] = 1;
    } else {
        __syncwarp(BUG ? 0xffffff00 : 0xffffffff);              // HAZARD OTHER
        y[t] = s[t - 16];                                       // OTHER
    }
}
// SPDX-License-Identifier: Apache-2.0
