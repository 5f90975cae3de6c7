// From block to block through global memory: block 0 doubles 512 numbers and stores them by TMA; block 1 waits for a flag and
// adds them up, sum[0]. What block 1 reads was written by the async proxy of another block. The path to it:
//   engine writes -> wait_group in block 0 (complete, and visible to the waiting thread) -> release of the flag at GPU scope
//   -> acquire of the flag at GPU scope in block 1 -> its barrier -> its loads.
//
// Macros: CTA_SCOPE 1 releases and acquires at the scope of a block, which does not reach from one block to another.
// Launch: grid 2, block 128. flag: zero before.
#include <hopperlab/fence.cuh>
#include <hopperlab/tma.cuh>

#ifndef CTA_SCOPE
#define CTA_SCOPE 0
#endif

extern "C" __global__ void __launch_bounds__(128)
handover(const float* in, float* middle, int* flag, float* sum) {
    __shared__ __align__(128) float tile[512];
    if (blockIdx.x == 0) {
        for (int i = threadIdx.x; i < 512; i += 128) tile[i] = 2 * in[i];
        fence_proxy_async_shared_cta();
        __syncthreads();
        if (threadIdx.x == 0) {
            cp_async_bulk_store(middle, tile, 2048);
            cp_async_bulk_commit_group();
            cp_async_bulk_wait_group<0>();                  // the numbers are in global memory, and I may say so
            if (CTA_SCOPE) asm volatile("st.release.cta.global.b32 [%0], 1;" :: "l"(flag) : "memory");
            else asm volatile("st.release.gpu.global.b32 [%0], 1;" :: "l"(flag) : "memory");
        }
    } else {
        if (threadIdx.x == 0) {
            int set = 0;
            while (!set) {
                if (CTA_SCOPE) asm volatile("ld.acquire.cta.global.b32 %0, [%1];" : "=r"(set) : "l"(flag) : "memory");
                else asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(set) : "l"(flag) : "memory");
            }
        }
        __syncthreads();                                    // what thread 0 has acquired, the others now know too
        float part = 0;
        for (int i = threadIdx.x; i < 512; i += 128) part += middle[i];
        atomicAdd(sum, part);
    }
}
// SPDX-License-Identifier: Apache-2.0
