# SPDX-License-Identifier: Apache-2.0
"""Pictures of the exercises to lesson 13: a serpentine order of tiles, and consumers that take turns at the tensor core."""
from __future__ import annotations

from matplotlib.patches import Rectangle

from ...show import style
from ...show.timelines import Span, gantt


def draw_serpentine(rows: int = 3, cols: int = 10, group: int = 4) -> style.Picture:
    """The tiles of C, numbered in the order in which they are taken: groups of `group` columns, row by row inside a group, every second
    group from the last row to the first."""
    figure, (axis,) = style.new_figure(1.0 + 0.55 * rows)
    number, lines = 0, [[""] * cols for _ in range(rows)]
    for which, first in enumerate(range(0, cols, group)):
        last = min(first + group, cols)
        colour = (style.SKY, style.YELLOW)[which % 2]
        for row in range(rows) if which % 2 == 0 else range(rows - 1, -1, -1):
            for col in range(first, last):
                axis.add_patch(Rectangle((col, row), 1, 1, facecolor=colour, edgecolor=style.CARD, linewidth=1.2))
                axis.text(col + 0.5, row + 0.5, str(number), ha="center", va="center", fontsize=9, color=style.ink_on(colour))
                lines[row][col] = str(number)
                number += 1
        start, end = (0.15, rows - 0.15) if which % 2 == 0 else (rows - 0.15, 0.15)
        axis.annotate("", xy=(last - 0.12, end), xytext=(last - 0.12, start), arrowprops={"arrowstyle": "-|>", "color": style.VERMILION, "linewidth": 1.8})
    axis.set(xlim=(0, cols), ylim=(rows, 0), xlabel="column of tiles", ylabel="row of tiles")
    axis.set_xticks([col + 0.5 for col in range(cols)], range(cols))
    axis.set_yticks([row + 0.5 for row in range(rows)], range(rows))
    style.title(axis, f"{rows} × {cols} tiles in groups of {group} columns; arrows: down, then up")
    words = [f"{rows} x {cols} tiles in groups of {group} columns, numbered in order:"]
    words += ["  " + " ".join(text.rjust(3) for text in line) for line in lines]
    return style.Picture(figure, "\n".join(words))


def draw_turns(consumers: int = 2, tiles: int = 6, loop: float = 4.0, epilogue: float = 3.0) -> style.Picture:
    """A model of consumers that take turns: each multiplies a tile alone, tells the next one, and stores while that one multiplies."""
    free, now, spans = [0.0] * consumers, 0.0, []
    for tile in range(tiles):
        who = tile % consumers
        row = f"consumer {who + 1}"
        begin = max(now, free[who])
        if begin > free[who]:
            spans.append(Span(row, free[who], begin, "waits for its turn"))
        now = begin + loop
        spans += [Span(row, begin, now, "multiplies", f"tile {tile}"), Span(row, now, now + epilogue, "stores", f"tile {tile}")]
        spans += [Span(row, now, now, "tells the next one")] * (tile + 1 < tiles)
        free[who] = now + epilogue
    spans.sort(key=lambda span: (span.row, span.start, span.end == span.start))
    colours = {"multiplies": style.BLUE, "stores": style.ORANGE, "waits for its turn": style.FAINT, "tells the next one": style.VERMILION}
    return gantt(spans, f"{consumers} consumers take turns (a model, not a measurement)", "time, in the model's units", colours)
