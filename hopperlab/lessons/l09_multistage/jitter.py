# SPDX-License-Identifier: Apache-2.0
"""Lesson 09: the ring when loads differ. Each load of the model draws its time between the least and the largest that were recorded."""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...runtime.tables import text_table
from .overlap import Times, stage_times

TILES = 4000            # of a simulated ring: shares are steady to a per cent


class Spread(NamedTuple):
    """Cycles that a load of one size took: the least, the median and the largest recorded."""

    least: float
    median: float
    most: float

    def draw(self, count: int, seed: int = 0) -> np.ndarray:
        """`count` times: half of them even between least and median, half between median and most. float64, cycles."""
        random = np.random.default_rng(seed)
        low, high = random.uniform(self.least, self.median, count), random.uniform(self.median, self.most, count)
        return np.where(random.random(count) < 0.5, low, high)


def load_spread(micro: Any, bk: int, source: str) -> Spread:
    """Of a tensor copy of a whole stage, 128 x bk of A and of B in bf16, from `source` ('L2' or 'memory'). micro: the recording of that name. Raises LookupError."""
    for record in micro.where(suite="tma_latency"):
        if {"HOW=tensor", f"from={source}"} <= set(record.options) and 2 * record.shape[0] * record.shape[1] == 512 * bk:
            return Spread(record.value_min, record.value, record.value_max)
    raise LookupError(f"no latency of {512 * bk} bytes from {source}")


def busy_with(loads: np.ndarray, stages: int, times: Times) -> float:
    """The part of the time in which the tensor core multiplies, when tile i takes loads[i] cycles; the ring of `overlap.ring_plan` with one product in flight.

    A load is issued when the product after that of its slot's last tile has started, loads land in their order and at least `times.behind` apart.
    """
    starts, ends, landed = np.zeros(len(loads)), np.zeros(len(loads)), 0.0
    for i, load in enumerate(loads):
        issued = starts[i - stages + 1] if i >= stages else 0.0
        landed = max(issued + load, landed + times.behind if i else 0.0)
        starts[i] = max(landed, ends[i - 1] if i else 0.0)
        ends[i] = starts[i] + times.product
    half = len(loads) // 2                                       # the second half: the start of the ring is not the steady state
    return float(times.product * (len(loads) - half) / (ends[-1] - ends[half - 1]))


def jitter_table(micro: Any, depths: tuple[int, ...] = (2, 3, 4, 5)) -> str:
    """For BK 64 and 128, from the L2 and from memory: how busy the tensor core is with each depth, all loads alike (the median) and each with a time of its own."""
    rows = []
    for bk in (64, 128):
        for source in ("L2", "memory"):
            times, spread = stage_times(micro, bk, source), load_spread(micro, bk, source)
            alike, drawn = (tuple(f"{100 * busy_with(loads, stages, times):.0f} %" for stages in depths) for loads in (np.full(TILES, spread.median), spread.draw(TILES)))
            rows.append((bk, source, f"{spread.least:.0f} / {spread.median:.0f} / {spread.most:.0f}", times.product, *alike, *drawn))
    shares = " ".join(["{:>5}"] * len(depths))
    head = ("", "", "least / median / most", "product", *(str(depth) for depth in depths), *(str(depth) for depth in depths))
    body = text_table("{:>3}  {:6}  {:>22} {:>8.0f}   " + shares + "    " + shares, rows, head)
    wide = len(depths) * 6
    above = f"{'BK':>3}  {'from':6}  {'cycles of a load':>22} {'':8}   {'alike, stages':<{wide}}   drawn, stages"
    return "\n".join([f"tensor core busy: {micro.source}", above, *body])
