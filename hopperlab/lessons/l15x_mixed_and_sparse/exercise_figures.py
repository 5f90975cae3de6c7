# SPDX-License-Identifier: Apache-2.0
"""Pictures beside the exercises of lesson 15x: rows of weights and a thread's share of them, and a warp's words of metadata."""
from __future__ import annotations

from matplotlib.patches import Rectangle

from ...show import style
from .prepared_pictures import metadata_picture


def draw_words() -> style.Picture:
    """Whose word holds the metadata of which columns."""
    return metadata_picture()


def draw_bytes(g: int = 2, q: int = 1) -> style.Picture:
    """Where thread (g, q) of warp 0 finds its 16 bytes of 32 columns in rows as they are: eight places of two bytes."""
    figure, (axis,) = style.new_figure(3.2)
    words = [f"Lane {4 * g + q} (g = {g}, q = {q}) of warp 0 needs these bytes of rows 0 to 15, columns 0 to 31"]
    for row in range(16):
        for column in range(32):
            mine = row % 8 == g and column % 8 // 2 == q
            axis.add_patch(Rectangle((column, row), 1, 1, facecolor=style.ORANGE if mine else style.EMPTY, edgecolor="white", linewidth=0.8))
        if row % 8 == g:
            words.append(f"  row {row}: columns " + ", ".join(str(column) for column in range(32) if column % 8 // 2 == q))
    axis.set(xlim=(0, 32), ylim=(16, 0), xlabel="column of k (a byte each)", ylabel="row of w", xticks=range(0, 33, 8), yticks=range(0, 17, 8))
    style.title(axis, "Sixteen bytes of one thread: eight places in rows as they are")
    return style.Picture(figure, "\n".join(words))
