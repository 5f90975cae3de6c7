# SPDX-License-Identifier: Apache-2.0
"""Lesson 09x: the estimate (hl.estimate, hl.emulate(clock=...)) beside what Nsight Compute counted and what marks in a kernel said on an H200:
where it is right, and where it is wrong.
"""
from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

import numpy as np

from ...estimates import boards, emulating, estimating, sample
from ...measure.launches.launch import warp_specialized
from ...runtime.tables import text_table
from .profiling import CYCLES, ISSUED, PIPE, TWO_BY_TWO, profiled

BOARD = "h200"
SIZE = 4096                                  # of the four products that were profiled
TIMELINE = 2048, 2048, 1024                  # m, n, k of the product whose timeline was recorded
MEMORY = "traffic: memory read", "traffic: memory written"


def _zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.uint16)


def estimate_table(products: Any) -> str:
    """The four products, each number twice: Nsight Compute's and the estimate's. Cycles, how busy the tensor pipe and the issue slots were, and megabytes that memory
    read and wrote. products: the recording `profiles_products`."""
    rows = []
    for pair, values in profiled(products).items():
        launch = TWO_BY_TWO[pair](_zeros(SIZE, SIZE), _zeros(SIZE, SIZE), _zeros(SIZE, SIZE), stages=3, backend="emulator")
        planned, _arrays = sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)
        found, run = estimating.simulated(estimating.sampled(planned, launch.kernel.name), launch.kernel.name, boards.board(BOARD))
        rows.append((" + ".join(pair), f"{values[CYCLES] / 1e3:.0f} k  {found.cycles / 1e3:.0f} k", f"{found.cycles / values[CYCLES] - 1:+.0%}",
                     f"{values[PIPE]:.0f} %  {100 * max(found.tensor, found.mma):.0f} %", f"{values[ISSUED]:.0f} %  {100 * found.issue:.0f} %",
                     f"{sum(values[name] for name in MEMORY):.0f} MB  {run.traffic.memory / 1e6:.0f} MB"))
    head = ("", "cycles", "off", "pipe busy", "issue slots", "memory")
    return "\n".join([f"{products.source}; second of each pair: estimated for an H200, not measured",
                      *text_table("{:<*}  {:>*}  {:>*}  {:>*}  {:>*}  {:>*}", rows, head)])


def estimated_block() -> Any:
    """The estimated times of the first block of the product whose timeline was recorded (estimates/launch_times.py)."""
    m, n, k = TIMELINE
    return emulating.times_of(warp_specialized(_zeros(m, k), _zeros(n, k), _zeros(m, n), backend="emulator"), BOARD)


def _lengths(rows: Sequence[Any], scale: float) -> dict[str, float]:
    """What a block took for, in nanoseconds: its first product since the first load was issued, a k-block, a consumer's products of one, and its stores."""
    mma, store = ([row for row in rows if row.warp == 4 and row.event == event] for event in ("mma", "store"))
    issued = min(row.start for row in rows if row.event == "issue")
    later = mma[len(mma) // 3:]                                       # the ring is full, and nobody waits for the first tile any more
    return {"first product after the first load's issue": scale * (mma[0].start - issued),
            "one k-block": scale * (later[-1].start - later[0].start) / (len(later) - 1),
            "a consumer's products of a k-block": scale * mean(row.end - row.start for row in later),
            "stores of the tile": scale * (store[-1].end - store[0].start)}


def timelines_beside(recorded: Any, times: Any) -> str:
    """Four lengths of a block, as marks in the kernel told them on a GPU and as the estimate tells them of the kernel without marks, in nanoseconds.

    recorded: measure.timelines.load(); times: `estimated_block()`.
    """
    block = recorded[0].block
    measured, found = _lengths([row for row in recorded if row.block == block], 1.0), _lengths(times.timeline("us"), 1e3)
    rows = [(name, f"{measured[name]:.0f}", f"{found[name]:.0f}", f"{found[name] / measured[name] - 1:+.0%}") for name in found]
    head = ("ns", "recorded, with marks", "estimated, without", "off")
    return "\n".join([recorded.source, times.source, *text_table("{:<*}  {:>*}  {:>*}  {:>*}", rows, head)])
