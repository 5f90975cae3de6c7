# SPDX-License-Identifier: Apache-2.0
"""Recorded for lesson 07: stores, reductions, and messages between CTAs, in words and a chart.

The notebook passes the recordings in, so that its outputs are stale when one changes.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...runtime.tables import text_table
from ...show import charts
from ...show.recorded import NOT_RECORDED, Words, option
from ...show.style import Picture


def store_table(recording: Any, kernels: Iterable[str]) -> str:
    """Lesson 07: kernels of a recording by rate (GB/s read plus written, or TFLOP/s), one line each, in the order given."""
    rows = []
    for kernel in kernels:
        for record in recording.where(kernel=kernel):
            rate = f"{record.gb_s:.0f} GB/s" if record.gb_s else f"{record.tflops:.0f} TFLOP/s" if record.tflops else None
            if rate:
                share = f", {record.ratio:.3f} of {record.peer}" if record.ratio else ""
                rows.append((kernel, " x ".join(map(str, record.shape)), " ".join(record.options), rate + share))
    return "\n".join([recording.source, *(text_table("  {:12} {:14} {:44} {}", rows) or [NOT_RECORDED])])


def reduction_rates(recording: Any | None) -> str:
    """Lesson 07: least and greatest rate over all operations and types, by the place the reduction writes to (GB/s of source). `recording`: 'micro', or None."""
    chosen = [record for record in recording.where(suite="reductions") if record.gb_s] if recording else []
    if not chosen:
        return "reductions:" + NOT_RECORDED
    places: dict[str, list[float]] = {}
    for record in chosen:
        places.setdefault(option(record, "into"), []).append(record.gb_s)
    lines = [recording.source, "reductions, GB/s of source data (tensor: on uint32; the others: every form of the instruction):"]
    return "\n".join(lines + text_table("  into {:34} {:2d} kinds, {:.0f} to {:.0f}", [(place, len(rates), min(rates), max(rates)) for place, rates in places.items()]))


def exchange_chart(recording: Any | None) -> Picture | Words:
    """Lesson 07: cycles of a round trip of 2 KiB between two CTAs of a cluster, by the way the message travels. `recording`: 'micro', or None."""
    chosen = [record for record in recording.where(suite="exchange") if record.value] if recording else []
    if not chosen:
        return Words("exchange between CTAs:" + NOT_RECORDED)
    ways = {option(record, "how"): record.value for record in chosen}
    return charts.bars(ways, "cycles of a round trip (128 threads x 16 bytes, there and back)", "A message to a neighbour and its answer", recording.source)
