# SPDX-License-Identifier: Apache-2.0
"""Recorded for lesson 19: the recording `two_gpus` as tables and pictures. Each takes the recording, or None where this copy has none:
then link_facts.py computes what follows from the link's speed, and says so."""
from __future__ import annotations

from typing import Any

from ... import measure
from ...runtime.tables import text_table
from ...show import charts, recorded, style
from . import link_facts


class Note(str):
    """A sentence in place of a picture: a notebook shows it without quotes."""

    def __repr__(self) -> str:
        return str(self)


OURS = {"gather": "gathered_product", "scatter": "scattered_product"}


def _told(record: Any) -> str:
    return f"{1e3 * record.ms:.1f} ({1e3 * record.ms_min:.1f} to {1e3 * record.ms_max:.1f})"


def link_chart(recording: Any) -> style.Picture:
    """GB/s over the link by how many CTAs copy, pulled and pushed, beside the copy engine."""
    if recording is None:
        return link_facts.link_picture()
    found = {r.options[0]: r.gb_s for r in recording.where(suite="link")}
    counts = sorted({int(name.split()[1]) for name in found if name.startswith("pull")})
    series = {way: [found.get(f"{way}, {count} CTAs") for count in counts] for way in ("pull", "push")}
    series["copy engine"] = [found["copy engine"]] * len(counts)
    return charts.lines(counts, series, "CTAs that copy", "over the link (GB/s)", "How few CTAs fill a link", recording.source)


def flag_line(recording: Any) -> str:
    """The round trip of a flag."""
    if recording is None:
        return link_facts.flag_words()
    r = recording.one(suite="flag")
    return f"a flag to and fro: {r.value:.0f} cycles ({r.value_min:.0f} to {r.value_max:.0f}); {recording.source}"


def products_table(recording: Any, suite: str = "gather") -> str:
    """A line a shape: the product alone, ours, and the same with a collective before or after it, in microseconds, and shares of the product alone.
    suite: 'gather' or 'scatter'."""
    if recording is None:
        return link_facts.bounds_table(suite)
    rows = []
    for shape in dict.fromkeys(r.shape for r in recording.where(suite=suite)):
        found = recording.where(suite=suite, shape=shape)
        ours = max((r for r in found if r.kernel == OURS[suite] and r.peer.startswith("alone")), key=lambda r: r.ratio)
        apart = next(r for r in found if "NCCL" in r.kernel)
        alone = min((r for r in found if r.kernel.startswith("alone")), key=lambda r: r.ms)
        rows.append(("x".join(map(str, shape)), _told(alone), _told(ours), _told(apart), f"{ours.ratio:.3f}", f"{apart.ratio:.3f}"))
    head = ("us; m x n x k on each", "product alone", "this kernel", "NCCL and cuBLAS", "kernel", "NCCL")
    return "\n".join([f"{recording.source}; the last two columns: speed, of the product alone", *text_table("{:22} {:>26} {:>26} {:>26} {:>7} {:>7}", rows, head)])


def best_share(recording: Any, suite: str = "gather") -> float:
    """The least share of the product alone over the shapes, of the best of ours, in per cent. Raises ValueError where nothing is recorded."""
    best: dict[tuple[int, ...], float] = {}
    for r in recording.where(suite=suite):
        if r.kernel == OURS[suite] and r.peer.startswith("alone"):
            best[r.shape] = max(best.get(r.shape, 0.0), r.ratio)
    return round(100 * min(best.values()), 1)


def ways_table(recording: Any) -> str:
    """A line a way of the all-gather under a product: who copies, in which order, in which pieces."""
    if recording is None:
        return link_facts.MEASURES
    found = [r for r in recording.where(suite="ways") if r.kernel == OURS["gather"] and r.peer.startswith("alone")]
    rows = [(r.options[0], _told(r), f"{r.ratio:.3f}") for r in found]
    return "\n".join([f"{'x'.join(map(str, found[0].shape))}; {recording.source}", *text_table("{:24} {:>28} {:>14}", rows, ("way", "us", "of the product"))])


def reduce_chart(recording: Any) -> style.Picture | Note:
    """Microseconds of an all-reduce by its size, a line a way."""
    if recording is None:
        return Note(link_facts.reduce_bounds())
    found = recording.where(suite="all_reduce")
    sizes = sorted({r.shape[0] for r in found})
    series = {way: [next(1e3 * r.ms for r in found if r.options[0] == way and r.shape[0] == size) for size in sizes]
              for way in dict.fromkeys(r.options[0] for r in found)}
    return charts.lines([size / 1024 for size in sizes], series, "size of the vector (KiB)", "all-reduce (us)", "All-reduces of small vectors on two GPUs",
                        recording.source)


def way_time(order: str, copiers: int) -> str:
    """What was recorded for this order and so many copying CTAs, in a line that says so."""
    recording = recorded.if_recorded(lambda: measure.load("two_gpus"))
    name = {"as they lie": "tiles as they lie", "own last": "own tiles last"}.get(order, "all CTAs copy" if copiers >= 132 else f"{copiers} CTAs copy")
    if recording is None:
        return "the model's time; below, Measure has what is known of a GPU"
    found = [r for r in recording.where(suite="ways") if r.options[0] == name and r.peer.startswith("alone")]
    if not found or order != "own first" and copiers < 132:
        return "no time is recorded for this"
    return f"recorded at {'x'.join(map(str, found[0].shape))}: {1e3 * found[0].ms:.1f} us, {found[0].ratio:.3f} of the product alone; {recording.source}"
