# SPDX-License-Identifier: Apache-2.0
"""Pictures beside the exercises of lesson 16d: rows cut into pieces, and parts that are put together."""
from __future__ import annotations

from matplotlib.patches import Rectangle

from ...show import style
from .decoding_model import plan_picture


def draw_splits() -> style.Picture:
    """Two sequences on four CTAs: whole rows leave two of them idle."""
    return plan_picture([640, 256], 1, 4, 2, "Two rows cut in two: the longest piece decides when the step ends")


def draw_parts(parts: int = 3) -> style.Picture:
    """Parts of one row, each with its own maximum, become one."""
    figure, (axis,) = style.new_figure(2.4)
    words = [f"{parts} parts of one row"]
    for part in range(parts):
        axis.add_patch(Rectangle((part + 0.06, 0.1), 0.88, 0.8, facecolor=style.SKY, edgecolor=style.INK, linewidth=1))
        axis.text(part + 0.5, 0.5, f"part {part}\nmaximum, sum,\nDIM sums of values", ha="center", va="center", fontsize=9, color=style.ink_on(style.SKY))
        words.append(f"  part {part}: its maximum, its sum of exponentials, its DIM sums of values")
    axis.add_patch(Rectangle((0.06, 1.3), parts - 0.12, 0.6, facecolor=style.ORANGE, edgecolor=style.INK, linewidth=1))
    axis.text(parts / 2, 1.6, "out: DIM numbers of the whole row", ha="center", va="center", fontsize=9, color=style.ink_on(style.ORANGE))
    axis.set(xlim=(0, parts), ylim=(2, 0), yticks=[], xticks=[])
    axis.axis("off")
    style.title(axis, "Each part was computed as if there were no others")
    return style.Picture(figure, "\n".join(words))
