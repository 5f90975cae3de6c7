# SPDX-License-Identifier: Apache-2.0
"""Runs drawn over time: one row a warp (or engine), a bar for each span, a mark for each moment.

`gantt` draws what `run.timeline` holds: the steps are the emulator's scheduling rounds, not seconds, and show order and overlap,
no speed. `timeline` draws what a kernel's own marks say (hl.timeline): nanoseconds on a GPU, virtual time in the emulator; or what they would say by the
estimate (LaunchTimes.timeline).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from . import style


MOST_SPANS = 80            # that a picture's words list one by one


@dataclass(frozen=True)
class Span:
    """Something that lasts from `start` to `end` (virtual steps) on the row `row`, of the kind `kind` (one colour a kind)."""

    row: str
    start: float
    end: float
    kind: str
    label: str = ""


def gantt(spans: Sequence[Span], heading: str, xlabel: str = "virtual time (emulator steps; order, not seconds)",
          colours: Mapping[str, str] | None = None) -> style.Picture:
    """Rows in order of first appearance, a bar a span (a mark where start == end), one colour a kind. Its words name every row.

    colours: of some kinds, from `style`; the others take the palette's in order of appearance.
    """
    rows = list(dict.fromkeys(span.row for span in spans))
    kinds = list(dict.fromkeys(span.kind for span in spans))
    last = max((span.end for span in spans), default=1)
    figure, (axis,) = style.new_figure(1.3 + 0.32 * max(3, len(rows)))
    for span in spans:
        colour = (colours or {}).get(span.kind, style.PALETTE[kinds.index(span.kind) % 8])
        y = rows.index(span.row)
        if span.end > span.start:
            axis.add_patch(Rectangle((span.start, y - 0.36), span.end - span.start, 0.72, facecolor=colour, edgecolor=style.CARD, linewidth=0.8))
        else:
            axis.plot([span.start], [y], marker=style.MARKERS[kinds.index(span.kind) % 8], color=colour, markersize=6)
        if span.label and span.end > span.start:
            wide = span.end - span.start > 0.05 * last
            axis.text((span.start + span.end) / 2, y, span.label if wide else span.label.split()[-1], ha="center", va="center", fontsize=8, color=style.ink_on(colour))
    axis.set(xlim=(-0.5, last + 0.5), ylim=(len(rows) - 0.4, -0.6), xlabel=xlabel)
    axis.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    axis.set_yticks(range(len(rows)), rows)
    axis.grid(True, axis="x", color=style.EMPTY)
    axis.set_axisbelow(True)
    figure.legend(handles=_keys(spans, kinds, colours or {}), fontsize=9, frameon=False, ncols=min(4, max(1, len(kinds))), loc="outside lower center")
    style.title(axis, heading)
    return style.Picture(figure, "\n".join([heading, *_words(spans)]))


def _words(spans: Sequence[Span]) -> list[str]:
    """The spans in words: a line each, or where they are more than MOST_SPANS a line a row, with how often and how long in all each kind was there."""
    if len(spans) <= MOST_SPANS:
        return [f"  {s.row}: {s.kind} {s.label} from {s.start} to {s.end}".replace("  from", " from") for s in spans]
    lines = []
    for row in dict.fromkeys(span.row for span in spans):
        here = [span for span in spans if span.row == row]
        kinds = {kind: [span.end - span.start for span in here if span.kind == kind] for kind in dict.fromkeys(span.kind for span in here)}
        each = ", ".join(f"{len(lengths)} {kind}" + (f" ({_number(sum(lengths))} in all)" if any(lengths) else "") for kind, lengths in kinds.items())
        lines.append(f"  {row}: {each}; from {_number(min(span.start for span in here))} to {_number(max(span.end for span in here))}")
    return lines


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10_000 else f"{value:,g}"


def _keys(spans: Sequence[Span], kinds: Sequence[str], colours: Mapping[str, str]) -> list:
    keys: list = []
    for index, kind in enumerate(kinds):
        colour = colours.get(kind, style.PALETTE[index % 8])
        if any(s.kind == kind and s.end > s.start for s in spans):
            keys.append(Patch(facecolor=colour, label=kind))
        else:
            keys.append(Line2D([], [], color=colour, marker=style.MARKERS[index % 8], linestyle="none", label=kind))
    return keys


ESTIMATED = {"cycles": "estimated cycles of an SM", "us": "estimated microseconds"}
EVENT_COLOURS = {"wait": style.FAINT, "mma": style.BLUE, "issue": style.VERMILION, "store": style.GREEN}
OTHER_COLOURS = (style.ORANGE, style.SKY, style.PURPLE, style.YELLOW)


def timeline(found: Sequence[Any], blocks: Sequence[int] | None = None, warps: Sequence[int] | None = None, last: float | None = None,
             heading: str | None = None) -> style.Picture:
    """The rows of `hl.timeline` as a Gantt chart: a row a warp, a bar a span, a mark a moment.

    found: a measure.timelines.KernelTimeline; blocks: which (default: the first that left marks); warps: which (default: all of
    them); last: draw only what began before this time, in the timeline's unit. Raises ValueError when nothing is left to draw.
    """
    known = sorted({row.block for row in found})
    chosen = known[:1] if blocks is None else list(blocks)
    kept = [row for row in found if row.block in chosen and (warps is None or row.warp in warps)
            and (last is None or row.start < last)]
    if not kept:
        raise ValueError(f"nothing to draw: the timeline has blocks {known[:8]} and warps {sorted({row.warp for row in found})}")
    ordered = sorted(kept, key=lambda row: (row.block, row.warp, row.start))
    spans = [Span(_warp(row, chosen), row.start, row.end, row.event) for row in ordered]
    where = f"blocks {', '.join(map(str, chosen))}" if len(chosen) > 1 else f"block {chosen[0]}"
    xlabel = ESTIMATED[found.unit] if found.place == "estimate" else {
        "ns": "time since the first mark (ns)", "cycles": "time since the first mark (cycles of an SM)"}.get(
        found.unit, "virtual time (the order of the marks in the emulator; not seconds)")
    own = [event for event in dict.fromkeys(row.event for row in found) if event not in EVENT_COLOURS]
    colours = {**EVENT_COLOURS, **{event: OTHER_COLOURS[i % len(OTHER_COLOURS)] for i, event in enumerate(own)}}
    picture = gantt(spans, heading or f"{found.kernel}, {where}", f"{xlabel}\n{found.source}".strip(), colours)
    picture.text += f"\n  {found.source}" if found.source else ""
    return picture


def _warp(row: Any, blocks: Sequence[int]) -> str:
    return f"warp {row.warp}" if len(blocks) == 1 else f"block {row.block} (SM {row.sm}) warp {row.warp}"
