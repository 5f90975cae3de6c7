"""Recorded measurements of lessons 06 to 08 in words and charts. Each carries the line that says which GPU, driver and date they came from.

The reader is `measure.load`; a notebook passes the Recording in, so that its outputs are stale when the recording changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from . import charts
from .style import Picture

NOT_RECORDED = "  (nothing recorded for this yet)"


def _swizzle(record: Any) -> str | None:
    """The swizzle among a record's options; None where it has none."""
    return next((option.split("=")[1] for option in record.options if option.startswith("swizzle=")), None)


def swizzle_cost(recording: Any) -> str:
    """Lesson 06: the same TMA copy with and without a swizzle, in GB/s read plus written, and their ratio."""
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
                lines.append(f"  {kernel:12s} {' x '.join(map(str, record.shape)):14s} {' '.join(record.options):44s} {rate}{share}")
    return "\n".join(lines if len(lines) > 1 else [*lines, NOT_RECORDED])


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


def _number(record: Any, name: str) -> str:
    return next((option.split("=")[1] for option in record.options if option.startswith(name + "=")), "")


def wgmma_rates(recording: Any | None) -> Picture | Words:
    """Lesson 08: multiply-adds a cycle and multiprocessor by N (bf16, A and B in shared memory), for one and two warpgroups. `recording`: 'micro', or None."""
    chosen = [record for record in recording.where(suite="wgmma_rate") if _number(record, "A") == "SS" and record.value] if recording else []
    if not chosen:
        return Words("wgmma by N:" + NOT_RECORDED)
    widths = sorted({record.shape[1] for record in chosen})
    series: dict[str, list[float | None]] = {}
    for record in chosen:
        many = _number(record, "warpgroups")
        row = series.setdefault(f"{many} warpgroup{'s' if many != '1' else ''}", [None] * len(widths))
        row[widths.index(record.shape[1])] = record.shape[0] * record.shape[1] * record.shape[2] / record.value
    return charts.lines(range(len(widths)), series, "N of the instruction (columns of D)", "multiply-adds a cycle and multiprocessor",
                        "Rate of bf16 wgmma by its width", recording.source, ticks=[str(n) for n in widths])


def wgmma_groups(recording: Any | None) -> str:
    """Lesson 08: the rate by N and by groups in flight, one warpgroup, in words. `recording`: 'micro', or None."""
    chosen = [record for record in recording.where(suite="wgmma_groups") if record.value] if recording else []
    if not chosen:
        return "wgmma by groups in flight:" + NOT_RECORDED
    lines = [recording.source, "multiply-adds a cycle and multiprocessor, by groups in flight when the next is issued:"]
    for record in chosen:
        rate = record.shape[0] * record.shape[1] * record.shape[2] / record.value
        lines.append(f"  N = {record.shape[1]:3d}, {_number(record, 'warpgroups')} warpgroup(s), {_number(record, 'IN_FLIGHT')} in flight: {rate:5.0f}")
    return "\n".join(lines)


def swizzle_reads(recording: Any | None) -> str:
    """Lesson 06: cycles that shared memory is busy with one warp's read, by layout (row) and access (column). `recording`: 'micro', or None."""
    chosen = recording.where(suite="swizzled_reads") if recording else []
    if not chosen:
        return "reads of a swizzled tile:" + NOT_RECORDED
    table: dict[str, dict[str, float]] = {}
    for record in chosen:
        padding = _number(record, "PAD")
        layout = f"swizzle {_swizzle(record)}, {_number(record, 'ROW_BYTES')}-byte rows" + (f" + {padding}" if padding not in ("", "0") else "")
        table.setdefault(layout, {})[_number(record, "access").replace("column, ", "")] = record.value
    columns = ("2 bytes", "4 bytes", "16 bytes", "ldmatrix")
    lines = [recording.source, "cycles of one warp's read down a column of 32 rows:", f"{'':32s}" + "".join(f"{name:>10s}" for name in columns)]
    for layout, values in table.items():
        lines.append(f"{layout:32s}" + "".join(f"{values[name]:10.1f}" if name in values else f"{'–':>10s}" for name in columns))
    return "\n".join(lines)


def reduction_rates(recording: Any | None) -> str:
    """Lesson 07: least and greatest rate over all operations and types, by the place the reduction writes to (GB/s of source). `recording`: 'micro', or None."""
    chosen = [record for record in recording.where(suite="reductions") if record.gb_s] if recording else []
    if not chosen:
        return "reductions:" + NOT_RECORDED
    places: dict[str, list[float]] = {}
    for record in chosen:
        places.setdefault(_number(record, "into"), []).append(record.gb_s)
    lines = [recording.source, "reductions, GB/s of source data (tensor: on uint32; the others: every operation and type that exists):"]
    return "\n".join(lines + [f"  into {place:34s} {len(rates):2d} kinds, {min(rates):.0f} to {max(rates):.0f}" for place, rates in places.items()])


def exchange_chart(recording: Any | None) -> Picture | Words:
    """Lesson 07: cycles of a round trip of 2 KiB between two CTAs of a cluster, by the way the message travels. `recording`: 'micro', or None."""
    chosen = [record for record in recording.where(suite="exchange") if record.value] if recording else []
    if not chosen:
        return Words("exchange between CTAs:" + NOT_RECORDED)
    ways = {_number(record, "how"): record.value for record in chosen}
    return charts.bars(ways, "cycles of a round trip (128 threads x 16 bytes, there and back)", "A message to a neighbour and its answer", recording.source)
