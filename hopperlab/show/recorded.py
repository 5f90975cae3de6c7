# SPDX-License-Identifier: Apache-2.0
"""Recorded measurements as pictures and tables. Each carries the line that says which GPU, driver and date they came from.

The reader is `measure.load`; a notebook passes the Recording in, so that its outputs are stale when the recording changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..runtime.tables import text_table
from . import charts
from .style import Picture

NAMES = {"mma_multistage": "cp.async + mma.sync", "tma_wgmma": "TMA + wgmma", "warp_specialized": "TMA + wgmma, warp-specialised", "cuBLAS": "cuBLAS"}
PEAKS = {"bfloat16": "bf16 tensor core", "float16": "fp16 tensor core", "tf32": "tf32 tensor core", "float32": "fp32"}
NOT_RECORDED = "  (nothing recorded for this yet)"


def ceilings(recording: Any, dtypes: tuple[str, ...] = ("bfloat16", "float32")) -> tuple[dict[str, float], float]:
    """(name -> TFLOP/s of the best product, TB/s of the best copy) from the recording `ceilings`."""
    products = {record.dtype: record.tflops for record in recording.where(kernel="cuBLAS product")}
    copied = recording.one(kernel="device copy").gb_s / 1000
    return {PEAKS[dtype]: products[dtype] for dtype in dtypes if dtype in products}, copied


def highest_clock(recording: Any) -> list[str]:
    """The board's highest SM clock in words, from a recording's header: one line, or none where the header has no clocks."""
    clocks = recording.header.get("clocks")
    return [f"the board's highest clock: {clocks['sm_max_mhz']:.0f} MHz"] if isinstance(clocks, dict) else []


def microseconds(record: Any) -> str:
    """The record's time in microseconds: median (least to greatest)."""
    return f"{1e3 * record.ms:.1f} ({1e3 * record.ms_min:.1f} to {1e3 * record.ms_max:.1f})"


def option(record: Any, name: str) -> str:
    """What stands after `name=` in the record's options; '' where it has no such option."""
    return next((words.split("=")[1] for words in record.options if words.startswith(name + "=")), "")


def number(record: Any, name: str) -> int:
    """The number after `name=` in the record's options; 0 where it has none."""
    return int(option(record, name) or 0)


def gemm_bars(recording: Any, shape: tuple[int, int, int] = (8192, 8192, 8192)) -> Picture:
    """One bar a kernel (its best variant) at one shape."""
    best: dict[str, float] = {}
    for record in recording.where(shape=shape):
        name = NAMES.get(record.kernel, record.kernel)
        best[name] = max(best.get(name, 0.0), record.tflops)
    ordered = dict(sorted(best.items(), key=lambda item: item[1]))
    return charts.bars(ordered, "rate (TFLOP/s)", f"bf16 product {' x '.join(map(str, shape))}", recording.source, best="cuBLAS")


def percent_of_peer(recording: Any, kernel: str, shape: tuple[int, int, int] = (8192, 8192, 8192)) -> float:
    """The best variant of `kernel` at `shape` as per cent of its peer's speed in the same interleaved rounds."""
    return 100 * max(record.ratio for record in recording.where(kernel=kernel, shape=shape))


def bugs_table(recording: Any, kernel: str) -> str:
    """What the GPU did with each planted bug of `kernel`: how many launches were wrong, and the largest share of wrong elements."""
    rows = []
    for record in recording.where(kernel=kernel, suite="bugs"):
        count = f"{record.wrong} of {record.runs} wrong" if record.wrong is not None else record.note
        share = f", up to {100 * record.worst:.3g} % of the elements" if record.wrong else ""
        rows.append((record.options[0], record.outcome, count + share))
    return "\n".join([recording.source, *text_table("{:28} {:16} {}", rows, ("planted bug", "outcome", "launches"))])


class Words:
    """Text that stands where a picture would: a notebook shows it as it is."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def if_recorded(load: Callable[[], Any]) -> Any | None:
    """The recording that `load()` gives, or None where this copy has no such recording."""
    try:
        return load()
    except FileNotFoundError:
        return None
