"""Recorded measurements of lessons 06 to 08 in words and charts. Each carries the line that says which GPU, driver and date they came from.

The reader is `measure.load`; a notebook passes the Recording in, so that its outputs are stale when the recording changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

NOT_RECORDED = "  (nothing recorded for this yet)"


def _swizzle(record: Any) -> str | None:
    """The swizzle among a record's options; None where it has none."""
    return next((option.split("=")[1] for option in record.options if option.startswith("swizzle=")), None)


def swizzle_cost(recording: Any) -> str:
    """Lesson 06: the same TMA copy with and without a swizzle, in GB/s read plus written, and their ratio (time order: interleaved)."""
    rates: dict[tuple, dict[str, float]] = {}
    for record in recording.where(kernel="tma_copy"):
        mode = _swizzle(record)
        if mode is not None and record.gb_s:
            box = tuple(option for option in record.options if not option.startswith("swizzle="))
            rates.setdefault((record.shape, record.dtype, box), {})[mode] = record.gb_s
    pairs = {key: modes for key, modes in rates.items() if "none" in modes and len(modes) > 1}
    lines = [recording.source]
    for (shape, dtype, box), modes in pairs.items():
        lines.append(f"TMA copy of {' x '.join(map(str, shape))} {dtype}, {', '.join(box)}:")
        lines += [f"  swizzle {mode:4s}: {rate:.0f} GB/s, {rate / modes['none']:.3f} of the plain one" for mode, rate in modes.items()]
    return "\n".join(lines if pairs else [*lines, NOT_RECORDED])


def store_table(recording: Any, kernels: Iterable[str]) -> str:
    """Lesson 07: kernels of a recording by rate (GB/s read plus written, or TFLOP/s), one line each, in the order given."""
    lines = [recording.source]
    for kernel in kernels:
        for record in recording.where(kernel=kernel):
            rate = f"{record.gb_s:.0f} GB/s" if record.gb_s else f"{record.tflops:.0f} TFLOP/s" if record.tflops else None
            if rate:
                share = f", {record.ratio:.3f} of {record.peer}" if record.ratio else ""
                lines.append(f"  {kernel:18s} {' '.join(record.options):52s} {rate}{share}")
    return "\n".join(lines if len(lines) > 1 else [*lines, NOT_RECORDED])
