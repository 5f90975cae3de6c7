# SPDX-License-Identifier: Apache-2.0
"""Recorded for lesson 00: how often its four kernels were wrong, and one copy timed four ways (here, where there is a GPU).

The notebook passes the recordings in, so that its outputs are stale when a recording changes.
"""
from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from ...runtime.tables import text_table
from ...show.recorded import number

FOLDS = ("kernel_1", "kernel_2", "kernel_3", "kernel_4")


def folds_table(recording: Any) -> str:
    """How often the four kernels of lesson 00 were wrong on the GPU, by number of blocks."""
    rows = []
    for kernel in FOLDS:
        for record in recording.where(kernel=kernel, suite="start_here"):
            count = f"{record.wrong} of {record.runs}" if record.wrong is not None else record.note
            rows.append((kernel.replace("_", " "), number(record, "blocks"), count))
    return "\n".join([recording.source, *text_table("{:10} {:7d}  {}", rows, ("", "blocks", "wrong launches"))])


def timing_lesson(recording: Any) -> str:
    """Lesson 00: one copy timed four ways on this GPU, or, without one, the spread of the recorded copies."""
    import hopperlab as hl

    if hl.backend() == "gpu":
        return _timed_here()
    lines = ["No GPU here, so no launch to time. " + recording.source + ":", "median, least and greatest time of single launches, cold L2, copying 1 GiB:"]
    rows = [(f"{r.kernel} {' '.join(r.options)}".strip(), r.ms, r.ms_min, r.ms_max, r.gb_s) for r in recording]
    return "\n".join([*lines, *text_table("  {:58} {:.4f} ms ({:.4f} to {:.4f}) {:5.0f} GB/s", rows)])


def _timed_here() -> str:
    import cupy

    from ...measure.launches import launch
    from ...measure.machine import timing

    source = cupy.zeros(1 << 24, dtype=cupy.uint8)
    run = launch.vector_copy(source, cupy.empty_like(source)).bound()
    wait = cupy.cuda.runtime.deviceSynchronize
    wait()
    ways = {"host clock, no synchronise (the bug)": _host(run, lambda: None), "host clock, synchronised": _host(run, wait),
            "events, warm L2": timing.interleaved({"x": run}, 21, 3, cold=False)["x"].ms,
            "events, cold L2": timing.interleaved({"x": run}, 21, 3)["x"].ms}
    wait()
    lines = ["copying 16 MiB on this GPU, median of 21 launches:"]
    return "\n".join(lines + text_table("  {:38} {:.4f} ms = {:8.0f} GB/s", [(name, ms, 2 * source.nbytes / ms / 1e6) for name, ms in ways.items()]))


def _host(run: Callable[[], None], wait: Callable[[], Any]) -> float:
    times = []
    for _ in range(21):
        began = time.perf_counter()
        run()
        wait()
        times.append(1e3 * (time.perf_counter() - began))
    return statistics.median(times)
