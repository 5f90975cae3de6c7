# SPDX-License-Identifier: Apache-2.0
"""Recorded for lesson 19: the recording `two_gpus` as tables and pictures, beside what follows by arithmetic (bounds.py)."""
from __future__ import annotations

from typing import Any

from ... import measure
from ...measure.launches.across_products import IN_TURNS, Tile
from ...measure.launches.launch import SMS
from ...measure.suites.two_gpus import ALL_COPY
from ...runtime.tables import text_table
from ...show import charts, recorded, style
from . import bounds

CLOCK_MHZ, WGMMA_CYCLES = 1980, 128                         # the highest SM clock; of one m64n256k16 (lesson 08)
OURS = {"gather": ALL_COPY, "scatter": IN_TURNS}
"""The way of each suite that the kernels take when they are asked for none."""
KERNELS = ("gathered_product", "scattered_product")


def link_chart(recording: Any) -> style.Picture:
    """GB/s over the link by how many CTAs copy, pulled and pushed, beside the copy engine."""
    found = {r.options[0]: r.gb_s for r in recording.where(suite="link")}
    counts = sorted({int(name.split()[1]) for name in found if name.startswith("pull")})
    series = {way: [found.get(f"{way}, {count} CTAs") for count in counts] for way in ("pull", "push")}
    series["copy engine"] = [found["copy engine"]] * len(counts)
    return charts.lines(counts, series, "CTAs that copy", "over the link (GB/s)", "How few CTAs fill a link", recording.source)


def flag_line(recording: Any) -> str:
    """The round trip of a flag, and what the tensor cores of an SM could have done meanwhile."""
    r = recording.one(suite="flag")
    return (f"a flag to and fro: {r.value:.0f} cycles ({r.value_min:.0f} to {r.value_max:.0f}), {r.value / CLOCK_MHZ:.1f} us at {CLOCK_MHZ} MHz; one SM's tensor cores "
            f"could finish {r.value // WGMMA_CYCLES:.0f} wgmma m64n256k16 meanwhile; {recording.source}")


def products_table(recording: Any, suite: str = "gather") -> str:
    """A line a shape: the product alone, ours, and the same with a collective before or after it, in microseconds, and shares of the product alone, each beside
    what arithmetic allows. suite: 'gather' or 'scatter'."""
    rows = []
    for shape in dict.fromkeys(r.shape for r in recording.where(suite=suite)):
        found = recording.where(suite=suite, shape=shape)
        ours = next(r for r in _ours(recording, suite) if r.shape == shape and r.options[0] == OURS[suite])
        apart = next(r for r in found if "NCCL" in r.kernel)
        alone, most = bounds.alone(recording, suite, shape), bounds.bound(recording, suite, shape)
        times = (f"{1e3 * record.ms:.0f}" for record in (alone, ours, apart))
        rows.append(("x".join(map(str, shape)), *times, f"{ours.ratio:.3f}", f"{most.at_once:.3f}", f"{apart.ratio:.3f}", f"{most.in_line:.3f}"))
    what = {"gather": "all-gather under a product", "scatter": "product under a reduce-scatter"}[suite]
    head = ("us; m x n x k on each", "alone", "kernel", "NCCL + cuBLAS", "kernel", "at most", "NCCL", "in line")
    return "\n".join([f"{what}; {recording.source}; last four columns: speed, of the product alone, measured and computed",
                      *text_table("{:22} {:>7} {:>7} {:>14} {:>8} {:>8} {:>7} {:>8}", rows, head)])


def burst_line(recording: Any) -> str:
    """How long a tile of every CTA at once keeps the link busy."""
    size, tile = Tile(), bounds.BYTES * Tile().bm * Tile().bn
    return (f"a tile of {size.bm} x {size.bn} of each of {SMS} CTAs, all at once: {SMS * tile / bounds.link_rate(recording, 'push') / 1e3:.0f} us over the link; "
            f"of its half, {size.bm // 2} rows, a consumer has slots for 128 columns")


def least_share(recording: Any, suite: str = "gather") -> float:
    """The least share of the product alone over the shapes, in per cent."""
    return round(100 * min(r.ratio for r in _ours(recording, suite) if r.options[0] == OURS[suite]), 1)


def ways_table(recording: Any) -> str:
    """A line a way of the all-gather under a product: who copies, in which order, in which pieces."""
    found = _ours(recording, "ways")
    rows = [(r.options[0], recorded.microseconds(r), f"{r.ratio:.3f}") for r in found]
    return "\n".join([f"{'x'.join(map(str, found[0].shape))}; {recording.source}", *text_table("{:24} {:>28} {:>14}", rows, ("way", "us", "of the product"))])


def _ours(recording: Any, suite: str) -> list[Any]:
    """Records of the lesson's kernels beside the product alone."""
    return [r for r in recording.where(suite=suite) if r.kernel in KERNELS and r.peer.startswith("alone")]


def scatter_ways_table(recording: Any) -> str:
    """A line a way of the product under a reduce-scatter, a column a shape: speed, of the product alone."""
    found = {(r.options[0], r.shape): f"{r.ratio:.3f}" for r in _ours(recording, "scatter")}
    ways, shapes = (list(dict.fromkeys(key[place] for key in found)) for place in (0, 1))
    rows = [(way, *(found[way, shape] for shape in shapes)) for way in ways]
    head = ("way", *("x".join(map(str, shape)) for shape in shapes))
    return "\n".join([f"speed, of the product alone; {recording.source}", *text_table("{:20}" + " {:>17}" * len(shapes), rows, head)])


def reduce_chart(recording: Any) -> style.Picture:
    """Microseconds of an all-reduce by its size, a line a way."""
    found = recording.where(suite="all_reduce")
    sizes = sorted({r.shape[0] for r in found})
    series = {way: [next(1e3 * r.ms for r in found if r.options[0] == way and r.shape[0] == size) for size in sizes]
              for way in dict.fromkeys(r.options[0] for r in found)}
    return charts.lines([size / 1024 for size in sizes], series, "size of the vector (KiB)", "all-reduce (us)", "All-reduces of small vectors on two GPUs",
                        recording.source)


def way_time(order: str, copiers: int) -> str:
    """What was recorded for this order and so many copying CTAs, in a line that says so."""
    recording = measure.load("two_gpus")
    name = {"as they lie": "tiles as they lie", "own last": "own tiles last"}.get(order, "all CTAs copy" if copiers >= 132 else f"{copiers} CTAs copy")
    found = [r for r in _ours(recording, "ways") if r.options[0] == name]
    if not found or order != "own first" and copiers < 132:
        return "no time is recorded for this"
    return f"recorded at {'x'.join(map(str, found[0].shape))}: {1e3 * found[0].ms:.1f} us, {found[0].ratio:.3f} of the product alone; {recording.source}"
