# SPDX-License-Identifier: Apache-2.0
"""How far warpgroups that multiply run ahead of the tensor cores: the clock after each wgmma that they hand over, none waited for (a constant of the estimated clock,
estimates/boards.py: wgmma_ahead). Needs a Hopper GPU with CuPy, seconds.

    python -m benchmarks.wgmma_ahead

On an H200, of 24 products of m64nNk16 handed over one after the other by each warpgroup, the left operand in shared memory (SS) or in registers (RS): from when the
last one is handed over until all are done, in cycles, and how many products that is the time of. Three runs, alike to the cycle with one warpgroup:

           one warpgroup       two
    n      SS       RS         SS                  RS
    64     244 7.6  244 7.6    231 7.2             226 to 257 7.1 to 8.0
    128    468 7.3  468 7.3    423 6.6             433 to 499 6.8 to 7.8
    176    636 7.2  636 7.2    567 to 582 6.4, 6.6 577 to 661 6.6 to 7.5
    256    916 7.2  916 7.2    807 to 929 6.3, 7.3 802 to 929 6.3 to 7.3

With one warpgroup these are seven products and 20 cycles each time: a product is taken when the seventh before it is done. So what is under way is counted in products,
not in cycles, and two warpgroups share the seven.
"""
from __future__ import annotations

from typing import Any

import numpy as np

import hopperlab as hl
from hopperlab.measure.machine import command

COUNT, TOGETHER = 24, 4
SOURCE = r"""
#include <hopperlab/clock.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/wgmma.cuh>

// out: of each warpgroup, the clock before its first product, after each, and when all are done.
extern "C" __global__ void __launch_bounds__(128 * WARPGROUPS, 1) ahead(long long* out, float* results) {
    extern __shared__ __align__(1024) unsigned char shared[];
    int warpgroup = threadIdx.x / 128;
    for (int i = threadIdx.x; i < BYTES / 4; i += 128 * WARPGROUPS) reinterpret_cast<unsigned*>(shared)[i] = 0x3f803f80u + i % 128 * 0x10001u;
    fence_proxy_async_shared_cta();
    unsigned long long left = wgmma_descriptor_128B(shared_address(shared) + warpgroup * 8192);
    unsigned long long right = wgmma_descriptor_128B(shared_address(shared) + WARPGROUPS * 8192);
    unsigned r[4] = {0x3f803f80u, 0x3f813f80u, 0x3f803f82u, 0x3f833f80u};
    float d[N / 2] = {};
    long long at[COUNT + 2];
    for (int round = 0; round < 3; round++) {                   // the first one brings the code
        __syncthreads();
        wgmma_fence();
        at[0] = clock_cycles();
        #pragma unroll
        for (int i = 0; i < COUNT; i++) {
            PRODUCT(d, left + i % 4 * 2, right + i % 4 * 2);
            if (i % TOGETHER == TOGETHER - 1) wgmma_commit_group();
            at[i + 1] = clock_cycles();
        }
        wgmma_commit_group();
        wgmma_wait_group<0>();
        at[COUNT + 1] = clock_cycles();
    }
    if (threadIdx.x % 128 == 0)
        for (int i = 0; i < COUNT + 2; i++) out[warpgroup * (COUNT + 2) + i] = at[i];
    float sum = 0;
    for (int i = 0; i < N / 2; i++) sum += d[i];
    results[threadIdx.x] = sum;
}
"""


def product(n: int, registers: bool) -> str:
    """PRODUCT(d, left, right): a wgmma of m64nNk16, its left operand in registers r or where `left` says."""
    operands = [f"%{n // 2 + k}" for k in range(5 if registers else 2)]
    left = f"{{{', '.join(operands[:-1])}}}" if registers else operands[0]
    sums, out = (", ".join(text.format(k) for k in range(n // 2)) for text in ("%{}", '"+f"(d[{}])'))
    given = '"r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])' if registers else '"l"(left)'
    return (f'#define PRODUCT(d, left, right) asm volatile("wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{{sums}}}, {left}, {operands[-1]}, '
            f'{"1, 1, 1, 0" if registers else "1, 1, 1, 0, 0"};" : {out} : {given}, "l"(right) : "memory")\n')


def measured(n: int, warpgroups: int, registers: bool = False, backend: str = "gpu") -> np.ndarray:
    """Cycles of each warpgroup since the first one began: (warpgroups, before, after each product, all done)."""
    xp: Any = np
    if backend == "gpu":
        import cupy as xp
    shared = 8192 * warpgroups + 128 * n
    options = (f"-DN={n}", f"-DWARPGROUPS={warpgroups}", f"-DBYTES={shared}", f"-DCOUNT={COUNT}", f"-DTOGETHER={TOGETHER}")
    kernel = hl.RawModule(code=product(n, registers) + SOURCE, options=options, backend=backend).get_function("ahead")
    out, results = xp.zeros((warpgroups, COUNT + 2), xp.int64), xp.zeros(128 * warpgroups, xp.float32)
    kernel((1,), (128 * warpgroups,), (out, results), shared_mem=shared)
    found = np.asarray(out.get() if backend == "gpu" else out)
    return found - found[:, :1].min()


def main() -> None:
    """Prints the table."""
    command.begin(__doc__, "benchmarks.wgmma_ahead")
    print("n    warpgroups  operand  cycles  products")
    for n in (64, 128, 176, 256):
        for warpgroups in (1, 2):
            for registers in (False, True):
                found = measured(n, warpgroups, registers)
                last = int(found[:, -1].max() - found[:, -2].max())
                print(f"{n:<4d} {warpgroups:<11d} {'RS' if registers else 'SS':7} {last:7d} {last / (n / 2):9.1f}")


if __name__ == "__main__":
    main()
