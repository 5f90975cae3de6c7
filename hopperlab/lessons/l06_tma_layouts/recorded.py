# SPDX-License-Identifier: Apache-2.0
"""Recorded for lesson 06: copies with and without a swizzle, and reads of a swizzled tile, in words.

The notebook passes the recordings in, so that its outputs are stale when one changes.
"""
from __future__ import annotations

from typing import Any

from ...runtime.tables import text_table
from ...show.recorded import NOT_RECORDED, option


def swizzle_cost(recording: Any) -> str:
    """Lesson 06: the same TMA copy with and without a swizzle, in GB/s read plus written, and their ratio."""
    rates: dict[tuple, dict[str, float]] = {}
    for record in recording.where(kernel="tma_copy"):
        mode = option(record, "swizzle")
        if mode and record.gb_s:
            box = tuple(option for option in record.options if not option.startswith("swizzle="))
            rates.setdefault((record.shape, record.dtype, box), {})[mode] = record.gb_s
    pairs = {key: modes for key, modes in rates.items() if "none" in modes and len(modes) > 1}
    lines = [recording.source]
    for (shape, dtype, box), modes in pairs.items():
        lines.append(f"TMA copy of {' x '.join(map(str, shape))} {dtype}, {', '.join(box)}:")
        lines += [f"  swizzle {mode:4s}: {rate:.0f} GB/s, {rate / modes['none']:.3f} of the plain one" for mode, rate in modes.items()]
    return "\n".join(lines if pairs else [*lines, NOT_RECORDED])


def swizzle_reads(recording: Any | None) -> str:
    """Lesson 06: cycles that shared memory is busy with one warp's read, by layout (row) and access (column). `recording`: 'micro', or None."""
    chosen = recording.where(suite="swizzled_reads") if recording else []
    if not chosen:
        return "reads of a swizzled tile:" + NOT_RECORDED
    table: dict[str, dict[str, float]] = {}
    for record in chosen:
        padding = option(record, "PAD")
        layout = f"swizzle {option(record, 'swizzle')}, {option(record, 'ROW_BYTES')}-byte rows" + (f" + {padding}" if padding not in ("", "0") else "")
        table.setdefault(layout, {})[option(record, "access").replace("column, ", "")] = record.value
    columns = ("2 bytes", "4 bytes", "16 bytes", "ldmatrix")
    rows = [(layout, *(values.get(name, "–") for name in columns)) for layout, values in table.items()]
    return "\n".join([recording.source, "cycles of one warp's read down a column of 32 rows:", *text_table("{:32}" + "{:10.1f}" * len(columns), rows, ("", *columns))])
