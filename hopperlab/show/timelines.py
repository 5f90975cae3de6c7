"""A run drawn over virtual time: one row a warp (or engine), a mark or bar for each event of `run.timeline`.

The steps are the emulator's scheduling rounds, not seconds: they show order and overlap, and no speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from . import style


@dataclass(frozen=True)
class Span:
    """Something that lasts from `start` to `end` (virtual steps) on the row `row`, of the kind `kind` (one colour a kind)."""

    row: str
    start: int
    end: int
    kind: str
    label: str = ""


def gantt(spans: Sequence[Span], heading: str, xlabel: str = "virtual time (emulator steps; order, not seconds)") -> style.Picture:
    """Rows in order of first appearance, a bar a span (a mark where start == end), one colour and hatch a kind."""
    rows = list(dict.fromkeys(span.row for span in spans))
    kinds = list(dict.fromkeys(span.kind for span in spans))
    last = max((span.end for span in spans), default=1)
    figure, (axis,) = style.new_figure(1.3 + 0.32 * max(3, len(rows)))
    for span in spans:
        colour = style.PALETTE[kinds.index(span.kind) % 8]
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
    figure.legend(handles=_keys(spans, kinds), fontsize=9, frameon=False, ncols=min(4, max(1, len(kinds))), loc="outside lower center")
    style.title(axis, heading)
    words = [heading] + [f"  {s.row}: {s.kind} {s.label} from {s.start} to {s.end}".replace("  from", " from") for s in spans[:80]]
    return style.Picture(figure, "\n".join(words))


def _keys(spans: Sequence[Span], kinds: Sequence[str]) -> list:
    keys: list = []
    for index, kind in enumerate(kinds):
        colour = style.PALETTE[index % 8]
        if any(s.kind == kind and s.end > s.start for s in spans):
            keys.append(Patch(facecolor=colour, label=kind))
        else:
            keys.append(Line2D([], [], color=colour, marker=style.MARKERS[index % 8], linestyle="none", label=kind))
    return keys
