# SPDX-License-Identifier: Apache-2.0
"""Recorded for lesson 13x: the recording `launches` as tables and pictures. Each takes the recording, or None where this copy has none, and says so."""
from __future__ import annotations

from typing import Any

from ... import measure
from ...runtime.tables import text_table
from ...show import charts, recorded, style
from ...show.timelines import Span, gantt

class Note(str):
    """A sentence in place of a picture: a notebook shows it without quotes."""

    def __repr__(self) -> str:
        return str(self)


NONE = Note("Nothing is recorded for this yet: `hopperlab bench launches --out hopperlab/recordings` on a Hopper GPU measures it.")
GRAPH, DEPENDENT = "graph", "graph of dependent launches"
MODES = ("cold L2", "warm L2", "from the host")
PLACES = {"begins": "begins", "reads": "may read", "multiplied": "has multiplied", "ends": "ends"}


def _way(record: Any) -> str:
    return recorded.option(record, "way")


def ways_table(recording: Any, shape: tuple[int, int, int] = (128, 1024, 4)) -> str:
    """A line a way: microseconds of the chain in every mode, and how much faster than the graph it is."""
    if recording is None:
        return NONE
    rows = []
    for record in recording.where(suite="chain", shape=shape, mode=MODES[0]):
        others = [recording.one(suite="chain", shape=shape, mode=mode, options=record.options) for mode in MODES]
        rows.append((_way(record), *(recorded.microseconds(one) for one in others), f"{others[0].ratio:.2f}, {others[1].ratio:.2f}"))
    head = ("us, median (least to most)", *MODES, "beside graph")
    m, n, products = shape
    return "\n".join([f"{products} products of {m} x {n} by {n} x {n} and a norm; {recording.source}", *text_table("{:28} {:>21} {:>21} {:>24} {:>13}", rows, head)])


def gain(recording: Any, shape: tuple[int, int, int] = (128, 1024, 4), mode: str = "cold L2") -> float:
    """By how many per cent dependent launches make the graph faster. Raises LookupError where it is not recorded."""
    found = [r for r in recording.where(suite="chain", shape=shape, mode=mode) if _way(r) == DEPENDENT]
    if len(found) != 1:
        raise LookupError(f"recording {recording.name!r} has {len(found)} records of a {DEPENDENT} at {shape}, {mode}")
    return round(100 * (found[0].ratio - 1), 1)


def gains_table(recording: Any) -> str:
    """How much faster dependent launches make the graph, at every recorded shape and mode."""
    if recording is None:
        return NONE
    shapes = list(dict.fromkeys(r.shape for r in recording.where(suite="chain")))
    rows = [(f"{m} x {n}", *(f"{gain(recording, (m, n, products), mode):.1f}" for mode in MODES)) for m, n, products in shapes]
    return "\n".join([recording.source, *text_table("{:34}" + "{:>16}" * len(MODES), rows, ("% faster than the graph; rows x n", *MODES))])


def placement_table(recording: Any, shape: tuple[int, int, int] = (128, 1024, 4), mode: str = "cold L2") -> str:
    """A line for each place of the two instructions: microseconds, and how much faster than the graph of ordinary launches."""
    if recording is None:
        return NONE
    rows = [(recorded.option(r, "LAUNCH_AT") or "-", recorded.option(r, "WAIT_AT") or "-", recorded.microseconds(r), f"{r.ratio:.3f}")
            for r in recording.where(suite="placement", shape=shape, mode=mode)]
    return "\n".join([f"{mode}; {recording.source}", *text_table("{:20} {:8} {:>22} {:>13}", rows, ("launch_dependents at", "wait at", "us", "beside graph"))])


def length_chart(recording: Any, mode: str = "cold L2") -> style.Picture | Note:
    """Microseconds of the chain by how many products it has, a line a way."""
    if recording is None:
        return NONE
    found = [r for r in recording if r.mode == mode and (r.suite == "length" or r.suite == "chain" and r.shape[:2] == (128, 1024))]
    counts = sorted({r.shape[2] for r in found})
    series = {way: [next((1e3 * r.ms for r in found if r.shape[2] == count and _way(r) == way), None) for count in counts] for way in dict.fromkeys(map(_way, found))}
    return charts.lines(counts, series, "products in the chain (and one norm)", "time of the chain (us)", f"Every kernel costs a start, {mode}", recording.source)


def starts_table(recording: Any) -> str:
    """Microseconds a kernel, in a row of kernels that do nothing."""
    if recording is None:
        return NONE
    rows = [(_way(r) + (", launch_dependents never" if recorded.option(r, "LAUNCH_AT") else ""), r.mode, f"{r.value:.2f} ({r.value_min:.2f} to {r.value_max:.2f})")
            for r in recording.where(suite="starts")]
    return "\n".join([recording.source, *text_table("{:56} {:14} {:>22}", rows, ("32 kernels of 132 blocks that do nothing", "seen", "us per kernel"))])


def clusters_table(recording: Any) -> str:
    """How many clusters fit at a time, by size, where a block has an SM to itself."""
    if recording is None:
        return NONE
    rows = [(recorded.number(r, "CLUSTER"), int(r.value), recorded.number(r, "CLUSTER") * int(r.value)) for r in recording.where(suite="clusters")]
    return "\n".join([recording.source, *text_table("{:16d} {:15d} {:14d}", rows, ("CTAs per cluster", "clusters at once", "SMs at work"))])


def bugs_table(recording: Any) -> str:
    """How often a chain was wrong on the GPU when it read before the wait."""
    if recording is None:
        return NONE
    rows = [(r.options[0] if r.options else "as it should be", f"{r.wrong} of {r.runs} chains wrong") for r in recording.where(suite="bugs")]
    return "\n".join([recording.source, *text_table("{:28} {}", rows)])


def when_picture(recording: Any, way: str = DEPENDENT, launch_at: str = "loaded") -> style.Picture | Note:
    """When each kernel of the chain began, could read, had multiplied and ended, as medians over launches."""
    if recording is None:
        return NONE
    found: dict[int, dict[str, float]] = {}
    for r in recording.where(suite="when"):
        if _way(r) == way and recorded.option(r, "LAUNCH_AT") in ("", launch_at):
            found.setdefault(recorded.number(r, "layer"), {})[recorded.option(r, "moment")] = r.value
    spans = []
    for layer, at in sorted(found.items()):
        row = f"product {layer + 1}" if "multiplied" in at else "norm"
        order = [moment for moment in PLACES if moment in at]
        spans += [Span(row, at[one], at[two], f"{PLACES[one]} … {PLACES[two]}") for one, two in zip(order, order[1:], strict=False) if at[two] > at[one]]
    last = max(at["ends"] for at in found.values())
    return gantt(spans, f"{way}: {last:.1f} us from the first start to the last end", f"microseconds; {recording.source}",
                 {"begins … may read": style.SKY, "may read … has multiplied": style.BLUE, "has multiplied … ends": style.ORANGE, "may read … ends": style.PURPLE})


def chain_time(way: str, products: int) -> str:
    """What was recorded for a chain of so many products, in a line that says so."""
    recording = recorded.if_recorded(lambda: measure.load("launches"))
    found = [] if recording is None else [r for r in recording if r.suite in ("chain", "length") and r.mode == "cold L2" and r.shape == (128, 1024, products)
                                          and _way(r) == way]
    if not found:
        return "no time is recorded for a chain of this length"
    return f"recorded at 128 x 1024, cold L2: {1e3 * found[0].ms:.1f} us, {found[0].ratio:.2f} of the graph's speed; {recording.source}"
