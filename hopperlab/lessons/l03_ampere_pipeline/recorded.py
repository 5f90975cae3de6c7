# SPDX-License-Identifier: Apache-2.0
"""Recorded for lesson 03: the rate by the number of stages of the ring.

The notebook passes the recording in, so that its outputs are stale when it changes.
"""
from __future__ import annotations

from typing import Any

from ...show import charts
from ...show.recorded import NAMES, number
from ...show.style import Picture


def _label(record: Any) -> str:
    name = NAMES.get(record.kernel, record.kernel)
    return f"{name}, {number(record, 'BM')}x{number(record, 'BN')}" if number(record, "BN") else name


def stages_chart(recording: Any, kernels: tuple[str, ...] = ("mma_multistage",)) -> Picture:
    """Rate against the number of stages for each kernel and tile, with cuBLAS in the same run as a level line."""
    chosen = [record for record in recording if record.kernel in kernels]
    depths = sorted({number(record, "STAGES") for record in chosen})
    series: dict[str, list[float | None]] = {}
    for record in chosen:
        row = series.setdefault(_label(record), [None] * len(depths))
        row[depths.index(number(record, "STAGES"))] = record.tflops
    for record in recording.where(kernel="cuBLAS"):
        series["cuBLAS"] = [record.tflops] * len(depths)
    shape = chosen[0].shape
    return charts.lines(depths, series, "stages in the ring", "rate (TFLOP/s)", f"bf16 product of {shape[0]}³ by depth of the ring", recording.source)


def best_depth(recording: Any, kernel: str = "mma_multistage") -> str:
    """For each tile of `kernel`: the depth with the highest rate, and the least depth within 2 % of it, in words."""
    lines = []
    labels = list(dict.fromkeys(_label(record) for record in recording.where(kernel=kernel)))
    for label in labels:
        rates = {number(r, "STAGES"): r.tflops for r in recording.where(kernel=kernel) if _label(r) == label}
        best = max(rates, key=rates.__getitem__)
        enough = min(depth for depth, rate in rates.items() if rate >= 0.98 * rates[best])
        least = f"the fewest stages within 2 % of that: {enough}" if enough < best else "with fewer it loses more than 2 %"
        lines.append(f"{label}: fastest with {best} stages; {least}")
    return "\n".join(lines)
