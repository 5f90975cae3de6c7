# SPDX-License-Identifier: Apache-2.0
"""Launches whose kernels write marks of the clock, timed in turn (benchmarks/marked_products.py, marked_attention.py)."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hopperlab.measure.launches.launch import Launch


def timed(launches: Sequence[tuple[Launch, Sequence[Any]]], rounds: int, kept: int) -> list[tuple[list[float], list[list[np.ndarray]]]]:
    """Of each launch: microseconds of the last rounds (`kept`) and, of each of the arrays that it marks, what stood there. Interleaved, the L2 cold."""
    import cupy

    flush = cupy.empty(1 << 27, cupy.uint32)
    found: list[tuple[list[float], list[list[np.ndarray]]]] = [([], [[] for _ in arrays]) for _, arrays in launches]
    for turn in range(rounds):
        for (launch, arrays), (us, marks) in zip(launches, found, strict=True):
            for array in arrays:
                array.fill(0)
            flush.fill(turn)
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            start.record()
            launch()
            end.record()
            end.synchronize()
            if turn >= rounds - kept:
                us.append(1e3 * cupy.cuda.get_elapsed_time(start, end))
                for stood, array in zip(marks, arrays, strict=True):
                    stood.append(array.get())
    return found
