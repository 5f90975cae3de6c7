# SPDX-License-Identifier: Apache-2.0
"""Lesson 10: how one thread of a warp is chosen, and what the machine code makes of it: threadIdx.x == 0 against elect.sync."""
from __future__ import annotations

from functools import partial

from ..machine_facts import fact

CHOICES = {"threadIdx.x == 0": "threadIdx.x == 0", "elect.sync in warp 0": "threadIdx.x / 32 == 0 && elect_sync()"}

SOURCE = """
#include <hopperlab/fence.cuh>
#include <hopperlab/tma.cuh>
extern "C" __global__ void __launch_bounds__(128) one_load(const __grid_constant__ TensorMap map, float* out) {
    extern __shared__ __align__(1024) float tile[];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) mbarrier_init(&full, 1);
    __syncthreads();
    if (CHOSEN) {
        mbarrier_arrive_expect_tx(&full, 64 * 128);
        cp_async_bulk_tensor_2d_load(tile, &map, &full, 0, 0);
    }
    mbarrier_wait_parity(&full, 0);
    out[threadIdx.x] = tile[threadIdx.x];
}"""
"""A kernel with one load; CHOSEN is the condition of the thread that issues it."""


def issuing_lines(choice: str) -> list[str]:
    """The machine code around the load, from its ELECT or arrival to the branch or instruction behind it. choice: one of CHOICES."""
    import hopperlab as hl

    module = hl.RawModule(code=SOURCE, options=(f"-DCHOSEN={CHOICES[choice]}",), name="one_load.cu", backend="emulator")
    lines = [str(instruction) for instruction in hl.sass(module, "one_load").instructions]
    load = next(at for at, line in enumerate(lines) if "UTMALDG" in line)
    kept = [at for at, line in enumerate(lines) if load - 24 <= at <= load + 5 and any(word in line for word in ("ELECT", "SYNCS.ARRIVE", "UTMALDG", "BRA", "PLOP3"))]
    return [lines[at].strip() for at in kept if "BAR.SYNC" not in lines[at]]


def elected_table() -> str:
    """For each way of choosing the thread: the instructions that choose and issue, and whether a loop stands around the load."""
    blocks: list[str] = []
    for choice in CHOICES:
        lines, kept = fact(f"one_load: {choice}", partial(issuing_lines, choice))
        loop = any("BRA.U.ANY" in line for line in lines)
        blocks += [f"{choice}: {'the load stands in a loop over the lanes' if loop else 'no loop'}", *(f"    {line}" for line in lines)]
    return "\n".join([*blocks, *([f"({kept})"] if kept else [])])
