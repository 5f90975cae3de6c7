# SPDX-License-Identifier: Apache-2.0
"""Pictures of lesson 04's exercises: a barrier's fields after a list of events, and the slots of a small ring over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ...hopper import mbarrier
from ...show import style
from ...show.rings import ring_spans
from ...show.timelines import Span, gantt
from .stepper import ring_run

ORDER = "order of events in the emulator (what came after what; not seconds)"


def draw_phases(events: Sequence[Sequence], count: int) -> style.Picture:
    """Phase, pending arrivals and bytes to come after each event on a fresh barrier of `count` arrivals a phase.

    events: pairs such as ["arrive", 1], ["arrive_expect_tx", 32], ["complete_tx", 16]. Raises MbarrierError for a list that
    the PTX ISA leaves undefined.
    """
    word, phase = mbarrier.init(count), 0
    states = [(phase, count, 0)]
    for kind, number in events:
        after = getattr(mbarrier, kind)(word, number)
        phase += mbarrier.unpack(after).phase != mbarrier.unpack(word).phase
        word = after
        states.append((phase, mbarrier.unpack(word).pending, mbarrier.unpack(word).tx))
    labels = ["init", *(kind if kind == "arrive" else f"{kind}\n{number}" for kind, number in events)]
    heading = f"A barrier of {count} arrivals a phase, after each event"
    return style.Picture(_fields(states, labels, heading), _words(states, labels, heading))


def _fields(states: Sequence[tuple[int, int, int]], labels: Sequence[str], heading: str) -> Figure:
    figure = Figure(figsize=(style.WIDTH, 3.6), dpi=style.DOTS, facecolor=style.CARD, layout="constrained")
    FigureCanvasAgg(figure)
    ends = [i for i in range(1, len(states)) if states[i][0] != states[i - 1][0]]
    for row, name in enumerate(("phase", "pending\n(arrivals)", "to come\n(bytes)")):
        axis = figure.add_subplot(3, 1, row + 1)
        style.dress(axis)
        values = [state[row] for state in states]
        for i in ends:
            axis.axvspan(i - 0.5, i + 0.5, color=style.YELLOW, alpha=0.55, linewidth=0)
        axis.stairs(values, [i - 0.5 for i in range(len(states) + 1)], color=style.PALETTE[row], linewidth=2.5, baseline=None)
        top = max(1, *values)
        for i, value in enumerate(values):
            axis.text(i, value + 0.09 * top, str(value), ha="center", va="bottom", fontsize=9, color=style.INK)
        axis.set(xlim=(-0.5, len(states) - 0.5), ylim=(-0.1 * top, 1.55 * top))
        axis.set_ylabel(name, fontsize=9)
        axis.yaxis.set_major_locator(MaxNLocator(2, integer=True))
        axis.set_xticks(range(len(labels)), labels if row == 2 else [], fontsize=8)
        if row == 0:
            style.title(axis, heading + " (yellow: a phase ends)")
    axis.set_xlabel("event (order, not seconds); the number is in bytes", fontsize=9)
    return figure


def _words(states: Sequence[tuple[int, int, int]], labels: Sequence[str], heading: str) -> str:
    return "\n".join([heading, *(f"  {label.replace(chr(10), ' '):24s} phase {phase}; pending arrivals: {pending}; bytes to come: {tx}"
                                 for label, (phase, pending, tx) in zip(labels, states))])


def draw_ring(stages: int, tiles: int) -> style.Picture:
    """When each slot of the lesson's ring was filled and read, for one block and `tiles` tiles; the emulator's order of events, and which of two teams has each tile."""
    run, _ = ring_run(stages, tiles)
    spans = [replace(span, kind=_team(span)) for span in ring_spans(run, stages)]
    picture = gantt(spans, f"{tiles} tiles through a ring of {stages} slots", ORDER)
    return style.Picture(picture.figure, f"{picture.text}\n  from and to: {ORDER}")


def _team(span: Span) -> str:
    """What a span shows, with the team whose tile it is."""
    return f"full: team {int(span.label.split()[-1]) % 2} reads" if span.kind == "in use by the tensor cores" else span.kind
