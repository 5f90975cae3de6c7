# SPDX-License-Identifier: Apache-2.0
"""What a warp pays for an mbarrier whose phase is over, for a proxy fence and for arrivals: constants of the estimated clock (estimates/boards.py: mbarrier_look,
mbarrier_told). Needs a Hopper GPU with CuPy, seconds.

    python -m benchmarks.waits

Cycles of a turn of a loop that does nothing else, one warp on each of three schedulers, on an H200 (two runs alike), alone and beside eight warps of exponentials and
sums:

    turn                                              alone   beside others
    a wait for a phase that is over                   117.0      140.0
    an arrival                                         27.0       38.4
    fence.proxy.async                                  31.2       38.9
    st.shared, the fence                               30.1       41.8
    st.shared, the fence, __syncwarp, two arrivals     62.0       79
    the same, then two such waits                     213.0      250.7

The last one is what warps do between two blocks of values that they transpose (attention/forward_fp8.cu): 130 are estimated of their instructions there, 190 with these
constants.
"""
from __future__ import annotations

from typing import Any

import hopperlab as hl
from hopperlab.measure.machine import command

TURNS, WARPS = 1000, 4
STORE = "*reinterpret_cast<volatile int*>(bytes + warp * 1024 + lane * 4) = turn;"
FENCE, ARRIVE, WAIT = "fence_proxy_async_shared_cta();", "if (lane == 0) mbarrier_arrive(&barriers[{}]);", "mbarrier_wait_parity(&barriers[0], 0);"
HANDS_OVER = f"{STORE} {FENCE} __syncwarp(); {ARRIVE.format(1)} {ARRIVE.format(2)}"
TURN = {
    "a wait for a phase that is over": WAIT,
    "an arrival": ARRIVE.format(1),
    "fence.proxy.async": FENCE,
    "st.shared, the fence": f"{STORE} {FENCE}",
    "st.shared, the fence, __syncwarp, two arrivals": HANDS_OVER,
    "the same, then two such waits": f"{HANDS_OVER} {WAIT} {WAIT}",
}
SOURCE = r"""
#include <hopperlab/clock.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/mbarrier.cuh>

// out: cycles of the loops of warps 1 to 3; warps from 4 on compute until these are done.
extern "C" __global__ void waits(long long* out, float* results) {
    __shared__ unsigned char bytes[4096];
    __shared__ mbarrier_t barriers[3];
    __shared__ volatile int done[4];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        mbarrier_init(&barriers[0], 1), mbarrier_init(&barriers[1], 1 << 16), mbarrier_init(&barriers[2], 1 << 16);
        mbarrier_arrive(&barriers[0]);                          // its phase is over
    }
    if (threadIdx.x < 4) done[threadIdx.x] = 0;
    __syncthreads();
    if (warp >= 4) {
        float x = threadIdx.x, sum = 0, most = 0;
        while (!(done[1] && done[2] && done[3])) {
            #pragma unroll
            for (int i = 0; i < 16; i++) x = fmaf(x, 0.5f, 0.1f), sum = fmaf(sum, 0.5f, exp2f(x)), most = fmaxf(most, sum);
        }
        results[threadIdx.x] = sum + most;
    } else if (warp) {
        long long start = clock_cycles();
        #pragma unroll 1
        for (int turn = 0; turn < TURNS; turn++) { BODY }
        out[warp] = clock_cycles() - start;
        __syncwarp();
        done[warp] = 1;
    }
}
"""


def measured(backend: str = "gpu", turns: int = TURNS) -> dict[str, tuple[float, float]]:
    """Cycles of a turn, by what it does: alone and beside other warps."""
    import numpy as np
    xp: Any = np
    if backend == "gpu":
        import cupy as xp
    found = {}
    for name, text in TURN.items():
        kernel = hl.RawModule(code=SOURCE.replace("BODY", text), options=(f"-DTURNS={turns}",), backend=backend).get_function("waits")
        cycles = []
        for beside in (0, 256):
            out, results = xp.zeros(WARPS, xp.int64), xp.zeros(512, xp.float32)
            for _ in range(3):                                  # the first launch brings the code
                kernel((1,), (32 * WARPS + beside,), (out, results))
            cycles.append(float(out[1:].mean()) / turns)
        found[name] = cycles[0], cycles[1]
    return found


def main() -> None:
    """Prints the table."""
    command.begin(__doc__, "benchmarks.waits")
    print(f"{'turn':50} alone  beside others")
    for name, (alone, beside) in measured().items():
        print(f"{name:50} {alone:5.1f}  {beside:5.1f}")


if __name__ == "__main__":
    main()
