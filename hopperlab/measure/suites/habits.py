# SPDX-License-Identifier: Apache-2.0
"""Ways to time one copy, the first of them wrong: the recording `timing` (lesson 00). Needs a Hopper GPU and CuPy."""
from __future__ import annotations

import time
from collections.abc import Callable

from ..launches.launch import vector_copy
from ..machine.timing import Sample, interleaved
from ..recordings import Record
from .fields import facts, gb_s, times, wait


def _host_times(run: Callable[[], None], ended: Callable[[], None], rounds: int) -> Sample:
    """Times by the host's clock from before `run` to after `ended`; the GPU is idle before."""
    taken = []
    for _ in range(rounds):
        wait()
        began = time.perf_counter()
        run()
        ended()
        taken.append(1e3 * (time.perf_counter() - began))
    return Sample(tuple(taken))


def habits(rounds: int = 21) -> list[Record]:
    """One copy of 16 MiB timed in four ways, the first of them wrong (lesson 00)."""
    import cupy
    source = cupy.random.default_rng(5).integers(0, 256, size=1 << 24, dtype=cupy.uint8)
    launch = vector_copy(source, cupy.empty_like(source))
    run = launch.bound()
    ways = {"host clock, no synchronise": _host_times(run, lambda: None, rounds),
            "host clock, synchronised": _host_times(run, wait, rounds),
            "events, warm L2": interleaved({"x": run}, rounds, 3, cold=False)["x"],
            "events, cold L2": interleaved({"x": run}, rounds, 3)["x"]}
    return [Record("timing", "vector_copy", (way,), (source.nbytes,), "bytes", gb_s=gb_s(2 * source.nbytes, sample),
                   **times(sample), **facts(launch)) for way, sample in ways.items()]
