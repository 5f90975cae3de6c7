# SPDX-License-Identifier: Apache-2.0
"""Recorded for lesson 15x: the recording `mixed` as tables and charts. Each takes the recording, or None where this copy has none, and says so."""
from __future__ import annotations

from typing import Any

from ...runtime.tables import text_table
from ...show import charts, recorded, style


class Note(str):
    """A sentence in place of a picture: a notebook shows it without quotes."""

    def __repr__(self) -> str:
        return str(self)


NONE = Note("Nothing is recorded for this yet: `hopperlab bench mixed --out hopperlab/recordings` on a Hopper GPU measures it.")
OURS = ("int_weights", "sparse")
CLEAN = "clean L2"


def _kind(record: Any) -> str:
    names = {"int4": "4 bits", "int8": "8 bits", "sparse": "2:4 sparse", "bfloat16": "bf16"}
    return names[record.dtype] if record.kernel in OURS else f"{names[record.dtype]}, {record.kernel}"


def _shape(record: Any) -> str:
    return " x ".join(map(str, record.shape))


def _first(found: Any) -> list[Any]:
    """Of records in several modes those with a clean L2, where there are any."""
    found = list(found)
    return [r for r in found if r.mode == CLEAN] or found


def products_table(recording: Any, suite: str = "few") -> str:
    """A line a shape and kind of weights: microseconds, TFLOP/s, GB/s, and speed beside cuBLAS's bf16 product. suite: 'few' or 'many' (rows). Where both modes are
    recorded the numbers are of a clean L2, and the last column says what a cold one makes of the comparison."""
    if recording is None:
        return NONE
    main = _first(recording.where(suite=suite))
    others = {(r.shape, r.dtype, r.kernel): f"{r.ratio:.2f}" for r in recording.where(suite=suite) if r not in main}
    rows = [(_shape(r), _kind(r), recorded.microseconds(r), f"{r.tflops:.0f}", f"{r.gb_s:.0f}", f"{r.ratio:.2f}",
             *([others[r.shape, r.dtype, r.kernel]] if others else [])) for r in main]
    head = ("m x n x k", "weights", "us, median (least to most)", "TFLOP/s", "GB/s", "beside bf16", *(["and with a cold L2"] if others else []))
    return "\n".join([f"{main[0].mode}; {recording.source}", *text_table("{:20} {:28} {:>26} {:>8} {:>6} {:>12}" + " {:>19}" * bool(others), rows, head)])


def speedup(recording: Any, shape: tuple[int, int, int] = (16, 8192, 8192), kind: str = "int4") -> float:
    """How many times as fast as cuBLAS's bf16 product our kernel is. Raises LookupError where it is not recorded."""
    found = _first(r for r in recording if r.suite in ("few", "many") and r.shape == shape and r.dtype == kind and r.kernel in OURS)
    if len(found) != 1:
        raise LookupError(f"recording {recording.name!r} has {len(found)} records of {kind} at {shape}")
    return round(float(found[0].ratio), 2)


def many_chart(recording: Any, n: int = 8192, k: int = 8192) -> style.Picture | Note:
    """Speed beside cuBLAS's bf16 product over the rows of x, a line a kind of weights."""
    if recording is None:
        return NONE
    found = [r for suite in ("few", "many") for r in _first(recording.where(suite=suite)) if r.shape[1:] == (n, k) and r.kernel in OURS]
    rows = sorted({r.shape[0] for r in found})
    series = {kind: [next((r.ratio for r in found if r.shape[0] == m and _kind(r) == kind), None) for m in rows] for kind in dict.fromkeys(map(_kind, found))}
    return charts.lines(rows, series, "rows of x", "times cuBLAS's bf16 speed", f"Smaller weights, {n} x {k}", recording.source)


def groups_table(recording: Any) -> str:
    """4-bit weights by how many columns share a scale."""
    if recording is None:
        return NONE
    rows = [(_shape(r), r.mode, recorded.option(r, "GROUP"), recorded.microseconds(r), f"{r.ratio:.2f}") for r in recording.where(suite="groups") if r.kernel in OURS]
    head = ("m x n x k", "", "columns", "us, median (least to most)", "beside bf16")
    return "\n".join([recording.source, *text_table("{:20} {:8} {:>7} {:>26} {:>12}", rows, head)])


def configurations_table(recording: Any, shape: tuple[int, int, int] = (16, 8192, 8192), kind: str = "int4") -> str:
    """Every configuration that was tried at a shape, the fastest first."""
    if recording is None:
        return NONE
    found = [r for r in recording.where(suite="configurations", shape=shape) if r.dtype == kind and r.kernel in OURS]
    rows = [(f"{recorded.option(r, 'BM')} x {128 * recorded.number(r, 'ROWS')}", recorded.option(r, "BK"), recorded.option(r, "SPLIT"),
             recorded.option(r, "CTAS"), recorded.option(r, "STAGES"), recorded.microseconds(r), f"{r.ratio:.2f}")
            for r in sorted(found, key=lambda r: r.ms)]
    head = ("tile of y (m x n)", "k-block", "split", "CTAs per SM", "stages", "us, median (least to most)", "beside bf16")
    told = f"{' x '.join(map(str, shape))}, {kind}, {found[0].mode if found else ''}; {recording.source}"
    return "\n".join([told, *text_table("{:>17} {:>8} {:>6} {:>11} {:>7} {:>26} {:>12}", rows, head)])


def energy_table(recording: Any) -> str:
    """A launch where each kernel runs alone, back to back: its time, the board's power and what held the clock in the same run, its joules, and how many times shorter
    and fewer these are than bf16's. Time and joules are those of one run: a launch's time is its joules over the watts."""
    if recording is None:
        return NONE
    rows = []
    for r in recording.where(suite="energy"):
        if not (r.joules and r.watts):
            continue
        base = next((one for one in recording.where(suite="energy", shape=r.shape) if one.dtype == "bfloat16" and one.joules and one.watts), None)
        beside = (f"{base.joules / base.watts / (r.joules / r.watts):.2f}", f"{base.joules / r.joules:.2f}") if base else ("-", "-")
        rows.append((_shape(r), _kind(r), f"{1e6 * r.joules / r.watts:.1f}", r.limited or "-", f"{r.watts:.0f}", f"{1e3 * r.joules:.2f}", *beside))
    head = ("m x n x k", "weights", "us, back to back", "clock held by", "W", "millijoule", "times as fast", "times fewer J")
    limit = recording.header.get("power_limit_watts")
    told = f"{recording.source}; the board's limit: {limit:.0f} W" if limit else recording.source
    return "\n".join([told, *text_table("{:20} {:24} {:>16} {:>13} {:>5} {:>10} {:>13} {:>13}", rows, head)])
