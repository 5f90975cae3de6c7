# SPDX-License-Identifier: Apache-2.0
"""Where one warp of a warpgroup waits for the other three: the rule that hopperlab/emulator/machine/meetings.py follows."""
import numpy as np

import hopperlab as hl

LATE = 200_000          # nanoseconds
CODE = r"""
#include <hopperlab/fence.cuh>
#include <hopperlab/wgmma.cuh>
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t) :: "memory"); return t; }
extern "C" __global__ void __launch_bounds__(128) stamps(float* out, long long* stamp, int late) {
    extern __shared__ __align__(1024) unsigned char s[];
    for (int i = threadIdx.x; i < 1024; i += 128) ((uint4*)s)[i] = make_uint4(0, 0, 0, 0);
    fence_proxy_async_shared_cta();
    __syncthreads();
    unsigned base = shared_address(s), warp = threadIdx.x / 32;
    float d[32] = {};
    long long start = now();
    if (late >> warp & 1) while (now() - start < LATE) {}
    __syncwarp();
    wgmma_fence();
    long long fenced = now();
    wgmma_m64n64k16_bf16(d, wgmma_descriptor_128B(base), wgmma_descriptor_128B(base + 8192), 1);
    long long issued = now();
    wgmma_commit_group();
    wgmma_wait_group<0>();
    for (int i = 0; i < 32; i++) out[i * 128 + threadIdx.x] = d[i];
    if (threadIdx.x % 32 == 0) stamp[warp * 2] = fenced - start, stamp[warp * 2 + 1] = issued - start;
}"""


def test_a_warp_passes_the_fence_alone_and_meets_the_others_at_the_first_wgmma(cupy):
    kernel = hl.RawModule(code=CODE, options=(f"-DLATE={LATE}",), backend="gpu").get_function("stamps")
    for late in (0b1110, 0b1000, 0b0001, 0b0110):
        out, stamp = cupy.zeros((32, 128), np.float32), cupy.zeros((4, 2), np.int64)
        for _ in range(2):                                      # the second launch finds its code in the caches
            kernel((1,), (128,), (out, stamp, np.int32(late)), shared_mem=16384)
        stamps = cupy.asnumpy(stamp)
        for warp in range(4):
            assert (stamps[warp, 0] >= LATE) == bool(late >> warp & 1)
            assert stamps[warp, 1] >= LATE * 0.99
