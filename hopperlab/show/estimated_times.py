# SPDX-License-Identifier: Apache-2.0
"""Estimated times of a launch (`hl.emulate(clock=...)`) drawn over cycles or microseconds: its warps, its copies by slot, the tensor core, its stores; and in a line.

Nothing here is measured, and each picture says so, with the error that such estimates have.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..estimates.launch_times import LaunchTimes
from . import style
from .timelines import ESTIMATED, EVENT_COLOURS, Span, gantt

if TYPE_CHECKING:
    from ..estimates.launch_times import EstimatedSpan, Row

COPY, PRODUCT, WRITTEN = "copy under way", "product", "store under way"
COLOURS = {**EVENT_COLOURS, "compute": style.PURPLE, COPY: style.SKY, PRODUCT: style.YELLOW, WRITTEN: style.BLACK}
NEAR = 40.0                # cycles between products, up to which they are drawn as one
MOST_SLOTS = 8             # rows of copies
LINE = 0.19                # inches of a line of words beside those that every picture has


def estimated(times: LaunchTimes | str, heading: str = "", block: int | None = None, last: float | None = None,
              unit: str = "cycles") -> style.Picture:
    """A row for warps that go together, a row a slot that copies land in, one of the tensor core and one of stores, of one CTA from its first event on.

    times: an entry of `run.clock`; heading: what stands above time and bound; block: linear number of the CTA (default: the first that was sampled); last: draw
    what is before it; unit: 'cycles' or 'us'. Raises ValueError for a launch that was not estimated (then the entry is the reason), another unit, a CTA that was not
    sampled, or where nothing is left.
    """
    if isinstance(times, str):
        raise ValueError(f"nothing to draw: {times}")
    block = times.blocks[0] if block is None else block
    if block not in times.blocks:
        raise ValueError(f"block {block} was not sampled: {', '.join(map(str, times.blocks))} stand for all")
    rows, scale = [row for row in times.rows(compute=True) if row.block == block and row.events], times.scale(unit)
    begun = min((event[2] for row in rows for event in row.events), default=0.0)
    until = float("inf") if last is None else begun + last / scale
    here = [*_warps(rows), *_engines([span for span in times.spans() if span.block == block and span.engine and span.start < until])]
    digits = 0 if unit == "cycles" else 3
    kept = [Span(span.row, round(scale * (span.start - begun), digits), round(scale * (min(span.end, until) - begun), digits), span.kind)
            for span in here if span.start < until]
    if not kept:
        raise ValueError(f"nothing begins before {last} {unit} in block {block}")
    found = times.estimate
    short = f"{found.kernel}, block {block}: an estimated {found.cycles:,.0f} cycles, {found.us:.1f} us\nbound by {found.bound.split(' (')[0]}"
    above, below = f"{heading}\n{short}" if heading else short, "\n".join((ESTIMATED[unit], *times.source.split("; ")))
    picture = gantt(kept, "", below, COLOURS)
    # From the figure's edge: beside the rows' names it is too long.
    picture.figure.suptitle(above, x=0.01, ha="left", fontsize=11, color=style.INK, fontweight="bold")
    picture.figure.set_figheight(picture.figure.get_figheight() + LINE * (above + below).count("\n"))
    picture.text = above + picture.text
    picture.text += f"\n  {told(times)}\n  {times.source}"
    return picture


def told(times: LaunchTimes | str) -> str:
    """An estimate in a line: time, range, and what bounds it; or why there is none."""
    if isinstance(times, str):
        return f"not estimated: {times}"
    found = times.estimate
    return (f"{found.kernel}: an estimated {found.cycles:,.0f} cycles, {found.us:.1f} us on {found.board} ({found.low_us:.1f} to {found.high_us:.1f}; no measurement); "
            f"bound by {found.bound}")


def _warps(rows: Iterable[Row]) -> Iterator[Span]:
    """A row for warps that go together; named by those of them that load, multiply or store."""
    for row in rows:
        most = max((warps for event, *_, warps in row.events if event in ("issue", "mma", "store")), default=row.warps)
        name = f"warp {row.warp}" if most == 1 else f"warps {row.warp} to {row.warp + most - 1}"
        yield from (Span(name, start, end, event) for event, _, start, end, _ in row.events)


def _engines(spans: Sequence[EstimatedSpan]) -> Iterator[Span]:
    """Rows of copies by slot, of the tensor core, and of stores."""
    slots = list(dict.fromkeys(span.barrier for span in spans if span.what == "load" and span.barrier >= 0))
    for slot in slots[:MOST_SLOTS]:
        own = [span for span in spans if span.what == "load" and span.barrier == slot]
        yield from (Span(f"slot {slots.index(slot)}", start, end, COPY) for start, end in _together(own, 0.0))
    rest = [span for span in spans if span.what in ("load", "cp.async", "to a neighbour") and span.barrier not in slots]
    yield from (Span("copies", start, end, COPY) for start, end in _together(rest, 0.0))
    yield from (Span("tensor core", start, end, PRODUCT) for start, end in _together([span for span in spans if span.what == "wgmma"], NEAR))
    yield from (Span("stores", start, end, WRITTEN) for start, end in _together([span for span in spans if span.what == "store"], 0.0))


def _together(spans: Sequence[EstimatedSpan], near: float) -> list[tuple[float, float]]:
    """(start, end) of spans, those that overlap or follow each other within `near` cycles as one."""
    found: list[tuple[float, float]] = []
    for span in sorted(spans, key=lambda span: span.start):
        if found and span.start <= found[-1][1] + near:
            found[-1] = (found[-1][0], max(found[-1][1], span.end))
        else:
            found.append((span.start, span.end))
    return found
