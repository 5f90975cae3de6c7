# SPDX-License-Identifier: Apache-2.0
"""Recorded for lesson 16d: the recording `decoding` as tables and pictures. Each takes the recording, or None where this copy has none, and says so."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ... import measure
from ...runtime.tables import text_table
from ...show import charts, recorded, style


class Note(str):
    """A sentence in place of a picture: a notebook shows it without quotes."""

    def __repr__(self) -> str:
        return str(self)


NONE = Note("Nothing is recorded for this yet: `hopperlab bench decoding --out hopperlab/recordings` on a Hopper GPU measures it.")
OURS = ("decode", "latent")


def _told(record: Any) -> str:
    return f"{record.ratio:.3f} ({record.ratio_min:.3f} to {record.ratio_max:.3f})"


def _size(shape: tuple[int, ...]) -> str:
    batch, length, heads, kv_heads, d = shape
    return f"{batch} x {length}, {heads} heads over {kv_heads} of {d}"


def _rows(found: list[Any]) -> list[tuple[str, ...]]:
    return [(_size(r.shape), r.note or r.kernel, f"{1e3 * r.ms:.1f}", f"{r.gb_s:.0f}", _told(r)) for r in found]


def _table(recording: Any, found: list[Any], layout: str = "{:38} {:>40} {:>10} {:>8} {:>24}") -> str:
    return "\n".join([recording.source, *text_table(layout, _rows(found), ("sequences x keys", "", "us", "GB/s", "of a read's rate"))])


def cells_table(recording: Any) -> str:
    """A line for ours, for each read and for each peer, at every batch and length."""
    return NONE if recording is None else _table(recording, recording.where(suite="cells"))


def share(recording: Any, shape: tuple[int, ...] = (32, 8192, 64, 8, 128)) -> float:
    """Per cent of a read kernel's rate that decoding reaches at a shape. Raises LookupError where it is not recorded."""
    return round(100 * recording.one(suite="cells", shape=shape, kernel="decode").ratio, 1)


def best_peers(recording: Any) -> Mapping[tuple[int, ...], tuple[str, float]]:
    """Shape -> (name, rate in GB/s) of the fastest of those that are not ours and compute the step."""
    found: dict[tuple[int, ...], tuple[str, float]] = {}
    for r in recording.where(suite="cells"):
        if r.kernel not in (*OURS, "bulk_read") and r.gb_s > found.get(r.shape, ("", 0.0))[1]:
            found[r.shape] = (r.kernel, r.gb_s)
    return found


def cells_chart(recording: Any) -> style.Picture | Note:
    """Share of a read's rate at every batch and length, ours and the best peer's."""
    if recording is None:
        return NONE
    bars: dict[str, float] = {}
    peers = best_peers(recording)
    for r in recording.where(suite="cells", kernel="decode"):
        bars[f"{r.shape[0]} x {r.shape[1]}, decode.cu"] = 100 * r.ratio
        if r.shape in peers:
            name, rate = peers[r.shape]
            bars[f"{r.shape[0]} x {r.shape[1]}, {name}"] = 100 * rate / r.peer_value
    return charts.bars(bars, "% of the rate of a kernel that only reads", "Sequences x keys: how near to reading alone?", recording.source)


def pages_recorded(recording: Any) -> str:
    """A line for each page size and way to fetch it."""
    if recording is None:
        return NONE
    rows = [(recorded.number(r, "page"), r.note, f"{1e3 * r.ms:.1f}", f"{r.gb_s:.0f}", _told(r)) for r in recording.where(suite="pages") if r.kernel == "decode"]
    return "\n".join([recording.source, *text_table("{:>12} {:26} {:>10} {:>8} {:>24}", sorted(rows), ("keys a page", "", "us", "GB/s", "of a read's rate"))])


def splits_chart(recording: Any) -> style.Picture | Note:
    """Share of a read's rate by how rows are cut, a line for each batch."""
    if recording is None:
        return NONE
    found = [r for r in recording if r.suite in ("splits", "mixed") and r.kernel == "decode" and r.note.endswith("pieces a row")]
    line = {(r.suite, r.shape): 100 * r.ratio for r in recording if r.suite in ("splits", "mixed") and r.note == "in a line"}
    counts = sorted({int(r.note.split()[0]) for r in found})
    series = {}
    for suite, shape in dict.fromkeys((r.suite, r.shape) for r in found):
        name = f"{shape[0]} {'of many lengths' if suite == 'mixed' else f'x {shape[1]}'} (in a line: {line[suite, shape]:.1f})"
        series[name] = [next((100 * r.ratio for r in found if (r.suite, r.shape) == (suite, shape) and int(r.note.split()[0]) == count), None) for count in counts]
    return charts.lines(counts, series, "pieces a row", "% of the rate of a read", "Cut too little, SMs idle; cut too much, parts cost", recording.source)


def depth_table(recording: Any) -> str:
    """A line for each depth of the ring and number of warpgroups."""
    return NONE if recording is None else _table(recording, [r for r in recording.where(suite="depth") if r.kernel == "decode"])


def latent_table(recording: Any) -> str:
    """A line for latent attention at each batch, with its arithmetic."""
    if recording is None:
        return NONE
    rows = [(*row, f"{r.gb_s * r.shape[2] * 2 * (576 + 512) / 1152 / 1e3:.0f}") for r in recording.where(suite="latent") if r.kernel == "latent" for row in _rows([r])]
    return "\n".join([recording.source, *text_table("{:38} {:>10} {:>10} {:>8} {:>24} {:>10}", rows, ("sequences x keys", "", "us", "GB/s", "of a read's rate",
            "TFLOP/s"))])


def bugs_table(recording: Any) -> str:
    """How often a step was wrong on the GPU without the maximum."""
    if recording is None:
        return NONE
    rows = [(" ".join(r.options), f"{r.wrong} of {r.runs} steps wrong") for r in recording.where(suite="bugs")]
    return "\n".join([recording.source, *text_table("{:32} {}", rows)])


def step_time() -> str:
    """What was recorded for a step over 1 GiB, in a line that says so; empty where nothing is."""
    recording = recorded.if_recorded(lambda: measure.load("decoding"))
    found = [] if recording is None else recording.where(suite="cells", shape=(32, 8192, 64, 8, 128), kernel="decode")
    return f"recorded at 32 x 8192 keys, 1 GiB: {1e3 * found[0].ms:.0f} us, {found[0].ratio:.2f} of a read's rate" if found else ""
