# SPDX-License-Identifier: Apache-2.0
"""Pictures of lesson 03's exercises: the groups that a wait may leave open, and rings of two and of more stages over time."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.patches import Patch, Rectangle

from ...show import style
from ...show.timelines import Span, gantt

LANDED, OPEN, LATER = "must have landed", "may still be on its way", "not committed yet"
COLOURS = {LANDED: style.BLUE, OPEN: style.SKY, LATER: style.EMPTY}


def draw_groups(stages: int, tiles: int) -> style.Picture:
    """For the wait of each turn (a column), what is known of each tile's group (a row), when the next copy stands after the wait."""
    def state(group: int, turn: int) -> str:
        return LANDED if group <= turn else OPEN if group < min(tiles, turn + stages - 1) else LATER

    figure, (axis,) = style.new_figure(1.7 + 0.3 * tiles)
    for turn in range(tiles):
        for group in range(tiles):
            axis.add_patch(Rectangle((turn, group), 1, 1, facecolor=COLOURS[state(group, turn)], edgecolor=style.CARD, linewidth=1.5))
    axis.set(xlim=(0, tiles), ylim=(tiles, 0), xlabel="turn (the wait before its tile is used)", ylabel="group")
    axis.set_xticks([i + 0.5 for i in range(tiles)], [str(i) for i in range(tiles)])
    axis.set_yticks([i + 0.5 for i in range(tiles)], [f"tile {i}" for i in range(tiles)])
    figure.legend(handles=[Patch(facecolor=colour, label=name) for name, colour in COLOURS.items()], fontsize=9, frameon=False, ncols=3,
                  loc="outside lower center")
    heading = f"{stages} stages, {tiles} tiles, the next copy after the wait: what each wait may leave open"
    style.title(axis, heading)
    words = [f"  turn {turn}: " + ", ".join(f"tile {group} {state(group, turn)}" for group in range(tiles)) for turn in range(tiles)]
    return style.Picture(figure, "\n".join([heading, *words]))


def draw_ring_depths(depths: Sequence[int], tiles: int = 7, latency: int = 3) -> style.Picture:
    """`tiles` tiles through rings of each number of stages, when a copy takes `latency` turns: a drawing of the schedule, not a run."""
    spans = []
    for stages in depths:
        used: list[float] = []                                  # the turn in which each tile's multiplication begins
        for tile in range(tiles):
            start = 0.0 if tile < stages - 1 else used[tile - (stages - 1)]
            used.append(max(start + latency, used[-1] + 1 if used else 0.0))
            row = f"{stages} stages: slot {tile % stages}"
            spans += [Span(row, start, start + latency, "copy of tile", str(tile)), Span(row, used[-1], used[-1] + 1, "multiply tile", str(tile))]
    heading = f"A copy takes {latency} turns: {' against '.join(map(str, depths))} stages, {tiles} tiles"
    return gantt(spans, heading, "time (turns of the loop; one turn is one multiplication)", {"copy of tile": style.SKY, "multiply tile": style.BLUE})
