// Stream-K's fix-up: a block writes its partial tile to a workspace and raises a flag; the tile's owner waits for it and adds.
//! plain
//! launch block=64 grid=4
//! args f32[256] f32[256] u32[4] f32[128]
//! check np.array_equal(a[3], (a[0].reshape(2, 2, 64).sum(axis=1)).reshape(-1))
//! mutate flag_before_all_have_written race
//! mutate relaxed_flag race
//! mutate all_do_not_wait race
extern "C" __global__ void k(const float* x, float* workspace, unsigned* flag, float* y) {
    int tile = blockIdx.x / 2, part = blockIdx.x % 2;
    if (part == 1) {
        workspace[64 * tile + threadIdx.x] = x[64 * blockIdx.x + threadIdx.x]; //@ flag_before_all_have_written relaxed_flag all_do_not_wait
        __syncthreads(); //~ flag_before_all_have_written:
        if (threadIdx.x == 0) asm volatile("st.global.release.gpu.b32 [%0], %1;" :: "l"(flag + tile), "r"(77) : "memory"); //~ relaxed_flag: if (threadIdx.x == 0) asm volatile("st.global.relaxed.gpu.b32 [%0], %1;" :: "l"(flag + tile), "r"(77) : "memory");
    } else {
        float mine = x[64 * blockIdx.x + threadIdx.x];
        if (threadIdx.x == 0) {
            unsigned seen;
            do asm volatile("ld.global.acquire.gpu.b32 %0, [%1];" : "=r"(seen) : "l"(flag + tile) : "memory"); //~: do asm volatile("ld.global.relaxed.gpu.b32 %0, [%1];" : "=r"(seen) : "l"(flag + tile) : "memory");
            while (seen != 77);
        }
        __syncthreads(); //~ all_do_not_wait:
        y[64 * tile + threadIdx.x] = mine + __ldcg(&workspace[64 * tile + threadIdx.x]); //@ flag_before_all_have_written relaxed_flag all_do_not_wait
        if (threadIdx.x == 0) flag[tile] = 0;
    }
}
// SPDX-License-Identifier: Apache-2.0
