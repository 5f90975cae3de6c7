# SPDX-License-Identifier: Apache-2.0
"""In which order the tensor cores do products that two warpgroups hand over at the same time: whether one's group is done before the other's, or both go on by turns.
Needs a Hopper GPU with CuPy, seconds.

    python -m benchmarks.products_in_turn

On an H100 (80 GB HBM3, driver 580.159), of groups of 8 and of 16 products of 64 x 128 x 16 (64 cycles each) that both hand over at once: the one warpgroup's are
done after 966 and 1931 cycles, the other's after 1104 and 2135. So they go on by turns, product by product, as in estimates/sm.py; one group after the other would
be done after 512 and 1024. A warpgroup has handed over its last product some 460 cycles before its group is done.
"""
from __future__ import annotations

import numpy as np

from hopperlab.measure.machine import command

COUNTS = (1, 2, 4, 8, 16)
PROBE = r"""
#include <hopperlab/wgmma.cuh>
extern "C" __global__ void __launch_bounds__(256) probe(long long* out, float* sink, int groups) {
    extern __shared__ __align__(1024) unsigned char shared[];
    for (int i = threadIdx.x; i < 32768 / 4; i += 256) reinterpret_cast<int*>(shared)[i] = 0;
    float d[64] = {};
    unsigned a = shared_address(shared), b = a + 16384;
    for (int g = 0; g < groups; g++) {
        asm volatile("fence.proxy.async;" ::: "memory");
        __syncthreads();
        long long begin = clock64();
        wgmma_fence();
        #pragma unroll
        for (int i = 0; i < COUNT; i++) wgmma_m64n128k16_bf16(d, wgmma_descriptor_128B(a), wgmma_descriptor_128B(b), 1);
        wgmma_commit_group();
        long long handed = clock64();
        wgmma_wait_group<0>();
        long long done = clock64();
        if (threadIdx.x % 128 == 0) { long long* mine = out + (g * 2 + threadIdx.x / 128) * 3; mine[0] = begin; mine[1] = handed; mine[2] = done; }
    }
    float sum = 0;
    for (int i = 0; i < 64; i++) sum += d[i];
    sink[threadIdx.x] = sum;
}"""


def main() -> None:
    """Print cycles from the first start, of each warpgroup's hand-over and end: the middle of 64 groups."""
    command.begin(__doc__, "benchmarks.products_in_turn")
    import cupy

    import hopperlab as hl

    groups = 64
    for count in COUNTS:
        kernel = hl.RawModule(code=PROBE, options=(f"-DCOUNT={count}",)).get_function("probe")
        out, sink = cupy.zeros((groups, 2, 3), cupy.int64), cupy.zeros(256, cupy.float32)
        for _ in range(2):
            kernel((1,), (256,), (out, sink, np.int32(groups)), shared_mem=32768)
        times = out.get()
        times -= times[:, :, :1].min(axis=1, keepdims=True)
        first = times[:, :, 2].argmin(axis=1)
        ends = np.sort(times[:, :, 2], axis=1)
        handed = np.median(times[:, :, 1], axis=0)
        print(f"{count:2} products of 64 x 128 x 16 each: handed over after {handed[0]:.0f} and {handed[1]:.0f}, the one done after {np.median(ends[:, 0]):.0f}, "
              f"the other after {np.median(ends[:, 1]):.0f}; warpgroup 0 first in {np.mean(first == 0):.0%}")


if __name__ == "__main__":
    main()
