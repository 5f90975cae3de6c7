// CUTLASS's Semaphore: blocks of one tile take turns; thread 0 waits for the turn, the block adds to the result, then hands on.
//! plain
//! launch block=64 grid=4
//! args f32[256] f32[64] u32[1]
//! check np.array_equal(a[1], a[0].reshape(4, 64).sum(axis=0) + np.arange(64) % 7)
//! mutate others_do_not_wait race
//! mutate handed_on_before_all_have_written race
//! mutate handed_on_without_release race
struct Semaphore {
    unsigned* lock; int state = -1;
    __device__ void fetch() { if (threadIdx.x == 0) asm volatile("ld.global.acquire.gpu.b32 %0, [%1];" : "=r"(state) : "l"(lock) : "memory"); }
};
extern "C" __global__ void k(const float* x, float* y, unsigned* lock) {
    Semaphore semaphore{lock};
    if (threadIdx.x == 0) do semaphore.fetch(); while (semaphore.state != blockIdx.x);
    __syncthreads(); //~ others_do_not_wait:
    y[threadIdx.x] += x[64 * blockIdx.x + threadIdx.x]; //@ others_do_not_wait handed_on_before_all_have_written handed_on_without_release
    __syncthreads(); //~ handed_on_before_all_have_written:
    unsigned next = blockIdx.x + 1;
    if (threadIdx.x == 0) asm volatile("st.global.release.gpu.b32 [%0], %1;" :: "l"(lock), "r"(next) : "memory"); //~ handed_on_without_release: if (threadIdx.x == 0) asm volatile("st.global.relaxed.gpu.b32 [%0], %1;" :: "l"(lock), "r"(next) : "memory");
}
// SPDX-License-Identifier: Apache-2.0
