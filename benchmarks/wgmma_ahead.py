# SPDX-License-Identifier: Apache-2.0
"""How far a warpgroup that multiplies runs ahead of its tensor cores: the clock after each wgmma that it hands over, none waited for (a constant of the estimated clock,
estimates/boards.py: wgmma_ahead). Needs a Hopper GPU with CuPy, seconds.

    python -m benchmarks.wgmma_ahead
"""
from __future__ import annotations

from typing import Any

import numpy as np

import hopperlab as hl

COUNT = 24
SOURCE = r"""
#include <hopperlab/clock.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/wgmma.cuh>

// out: of each warpgroup, the clock before its first wgmma, after each, and when all are done.
extern "C" __global__ void __launch_bounds__(128 * WARPGROUPS, 1) ahead(long long* out, float* results) {
    extern __shared__ __align__(1024) unsigned char shared[];
    int warpgroup = threadIdx.x / 128;
    for (int i = threadIdx.x; i < BYTES / 4; i += 128 * WARPGROUPS) reinterpret_cast<unsigned*>(shared)[i] = 0x3f803f80u + i % 128 * 0x10001u;
    fence_proxy_async_shared_cta();
    unsigned a = shared_address(shared) + warpgroup * 8192, b = shared_address(shared) + WARPGROUPS * 8192;
    float d[N / 2] = {};
    unsigned r[4] = {0x3f803f80u, 0x3f813f80u, 0x3f803f82u, 0x3f833f80u};
    long long at[PRODUCTS + 2];
    unsigned long long left = wgmma_descriptor_128B(a), right = wgmma_descriptor_128B(b);
    __syncthreads();
    for (int round = 0; round < 3; round++) {                   // the first one brings the code
        __syncthreads();
        wgmma_fence();
        at[0] = clock_cycles();
        #pragma unroll
        for (int i = 0; i < PRODUCTS; i++) {
            PRODUCT(d, left + i % 4 * 2, right + i % 4 * 2);
            if (i % TOGETHER == TOGETHER - 1) wgmma_commit_group();
            at[i + 1] = clock_cycles();
        }
        wgmma_commit_group();
        wgmma_wait_group<0>();
        at[PRODUCTS + 1] = clock_cycles();
    }
    if (threadIdx.x % 128 == 0)
        for (int i = 0; i < PRODUCTS + 2; i++) out[warpgroup * (PRODUCTS + 2) + i] = at[i];
    float sum = 0;
    for (int i = 0; i < N / 2; i++) sum += d[i];
    results[threadIdx.x] = sum;
}
"""


def product(n: int, registers: bool) -> str:
    """PRODUCT(d, left, right): a wgmma of m64nNk16, its left operand in registers r or where left says."""
    sums = ", ".join(f"%{k}" for k in range(n // 2))
    operands = [f"%{n // 2 + k}" for k in range(5 if registers else 2)]
    left = f"{{{', '.join(operands[:-1])}}}" if registers else operands[0]
    outs = ", ".join(f'"+f"(d[{k}])' for k in range(n // 2))
    ins = ", ".join(f'"r"(r[{k}])' for k in range(4)) if registers else '"l"(left)'
    flags = "1, 1, 1, 0" if registers else "1, 1, 1, 0, 0"
    return (f'#define PRODUCT(d, left, right) asm volatile("wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{{sums}}}, {left}, {operands[-1]}, {flags};" '
            f': {outs} : {ins}, "l"(right) : "memory")')


def measured(n: int, warpgroups: int, registers: bool = False, group: int = 4, backend: str = "gpu") -> np.ndarray:
    """Cycles of each warpgroup since the first one began: (warpgroups, before, after each wgmma, all done)."""
    xp: Any = np
    if backend == "gpu":
        import cupy as xp
    shared = 8192 * warpgroups + 128 * n
    options = (f"-DBYTES={shared}", f"-DN={n}", f"-DWARPGROUPS={warpgroups}", f"-DPRODUCTS={COUNT}", f"-DTOGETHER={group}")
    kernel = hl.RawModule(code=SOURCE.replace("// out", product(n, registers) + "\n\n// out"), options=options, backend=backend).get_function("ahead")
    out, results = xp.zeros((warpgroups, COUNT + 2), xp.int64), xp.zeros(512, xp.float32)
    kernel((1,), (128 * warpgroups,), (out, results), shared_mem=shared)
    found = np.asarray(out.get() if hasattr(out, "get") else out)
    return found - found[:, :1].min()


def main() -> None:
    """Prints the clock."""
    for n in (16, 64, 128, 176, 256):
        for registers in (False, True):
            for warpgroups in (1, 2, 3)[:2 if n > 176 else 3]:        # more registers than there are
                for line in measured(n, warpgroups, registers):
                    print(f"n={n} {'RS' if registers else 'SS'} {warpgroups}", *line.tolist())


if __name__ == "__main__":
    main()
