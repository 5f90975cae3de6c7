# SPDX-License-Identifier: Apache-2.0
"""Recorded for lesson 08: the rate of wgmma by its width and by groups in flight.

The notebook passes the recording in, so that its outputs are stale when it changes.
"""
from __future__ import annotations

from typing import Any

from ...show import charts
from ...show.recorded import NOT_RECORDED, Words, option
from ...show.style import Picture


def wgmma_rates(recording: Any | None) -> Picture | Words:
    """Lesson 08: multiply-adds per cycle and multiprocessor by N (bf16, A and B in shared memory), for one and two warpgroups. `recording`: 'micro', or None."""
    chosen = [record for record in recording.where(suite="wgmma_rate") if option(record, "A") == "SS" and record.value] if recording else []
    if not chosen:
        return Words("wgmma by N:" + NOT_RECORDED)
    widths = sorted({record.shape[1] for record in chosen})
    series: dict[str, list[float | None]] = {}
    for record in chosen:
        many = option(record, "warpgroups")
        row = series.setdefault(f"{many} warpgroup{'s' if many != '1' else ''}", [None] * len(widths))
        row[widths.index(record.shape[1])] = record.shape[0] * record.shape[1] * record.shape[2] / record.value
    return charts.lines(range(len(widths)), series, "N of the instruction (columns of D)", "multiply-adds per cycle and multiprocessor",
                        f"Rate of bf16 wgmma by its width, {option(chosen[0], 'IN_FLIGHT')} groups in flight", recording.source, ticks=[str(n) for n in widths])


def wgmma_groups(recording: Any | None) -> str:
    """Lesson 08: the rate by N and by groups in flight, one warpgroup, in words. `recording`: 'micro', or None."""
    chosen = [record for record in recording.where(suite="wgmma_groups") if record.value] if recording else []
    if not chosen:
        return "wgmma by groups in flight:" + NOT_RECORDED
    lines = [recording.source, "multiply-adds per cycle and multiprocessor, by groups in flight when the next is issued:"]
    for record in chosen:
        rate = record.shape[0] * record.shape[1] * record.shape[2] / record.value
        lines.append(f"  N = {record.shape[1]:3d}, {option(record, 'warpgroups')} warpgroup(s), {option(record, 'IN_FLIGHT')} in flight: {rate:5.0f}")
    return "\n".join(lines)
