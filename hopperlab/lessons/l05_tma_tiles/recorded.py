# SPDX-License-Identifier: Apache-2.0
"""Recorded for lesson 05: loading boxes by one thread with TMA and by 128 threads with cp.async.

The notebook passes the recording in, so that its outputs are stale when it changes.
"""
from __future__ import annotations

from typing import Any

from ...runtime.tables import text_table
from ...show import charts
from ...show.recorded import number
from ...show.style import Picture


def boxes_chart(recording: Any) -> Picture:
    """Load bandwidth against box size: one thread with TMA, 128 threads with cp.async; one block per SM, and as many as fit."""
    boxes = sorted({record.shape for record in recording}, key=lambda box: (box[0] * box[1], box[1]))
    series: dict[str, list[float | None]] = {}
    for record in recording:
        crowd = "1 block per SM" if number(record, "blocks_per_sm") == 1 else "as many blocks as fit"
        who = "TMA, 1 thread issues" if record.kernel == "tma_load" else "cp.async, 128 threads issue"
        series.setdefault(f"{who}, {crowd}", [None] * len(boxes))[boxes.index(record.shape)] = record.gb_s
    ticks = [f"{rows}x{columns}\n{rows * columns * 2 // 1024 or rows * columns * 2 / 1024:g} KiB" for rows, columns in boxes]
    return charts.lines(range(len(boxes)), dict(sorted(series.items())), "box (rows x bf16 columns, bytes)", "bandwidth (GB/s read)",
                        "Loading boxes into shared memory", recording.source, ticks=ticks)


def boxes_table(recording: Any) -> str:
    """Registers and instructions of both loaders, and the ratio of their bandwidths at the smallest box and at the largest, in words."""
    lines = [recording.source]
    for kernel, who in (("tma_load", "TMA"), ("cp_async_load", "cp.async")):
        registers = sorted({record.registers for record in recording.where(kernel=kernel)})
        lines.append(f"{who}: {' or '.join(map(str, registers))} registers in each of 128 threads")
    ordered = sorted(recording.where(kernel="tma_load"), key=lambda r: (r.shape[0] * r.shape[1], number(r, "blocks_per_sm")))
    for rows, columns in sorted({record.shape for record in (ordered[0], ordered[-1])}):
        lines.append(f"box of {rows} x {columns} bf16: {rows * columns // 8} cp.async of 16 bytes, or 1 TMA copy")
    for record in (*ordered[:2], ordered[-1]):
        blocks = number(record, "blocks_per_sm")
        lines.append(f"box of {record.shape[0]} x {record.shape[1]}, {blocks} block{'s' if blocks > 1 else ''} per SM: "
                     f"TMA loads at {record.ratio:.2f} times the bandwidth of cp.async")
    return "\n".join(lines)


CHOICES = ("none", "128B", "256B")
PITCHES = {"k 8 less": "beginning inside sectors of 32 bytes", "rows 32 bytes longer": "beginning on sectors, though inside lines of 128 bytes"}
"""Notes of the recording `pitches`, and where the rows of such a product begin."""


def promotion_table(recording: Any, size: int = 4096) -> str:
    """What L2 promotion did to products whose rows begin inside a line, by configuration: TFLOP/s with each choice, – where it was not tried.

    First rows that begin inside a sector of 32 bytes too, then rows that begin on one. recording: `pitches`. Raises LookupError where it has none at `size`.
    """
    lines = [f"TFLOP/s by L2 promotion, m = n = {size}: {recording.source}"]
    for note, where in PITCHES.items():
        found: dict[str, dict[str, float]] = {}
        for record in recording.where(note=note):
            words = dict(option.split("=", 1) for option in record.options if "=" in option)
            if record.shape[0] == size and "PROMOTION" in words:
                found.setdefault(words["TRIED"], {})[words["PROMOTION"]] = record.tflops
                pitch = int(words["A_PITCH"])
        if not found:
            raise LookupError(f"the recording has no promotion at {size}")
        rows = [(name, *(f"{rates[choice]:.0f}" if choice in rates else "–" for choice in CHOICES), f"{rates['256B'] / rates['128B']:.2f}") for name,
                rates in found.items()]
        lines += [f"rows {pitch} bytes apart, {where}:", *text_table("  {:26} {:>6} {:>8} {:>8} {:>13}", rows, ("configuration", *CHOICES, "256B / 128B"))]
    return "\n".join(lines)
