# SPDX-License-Identifier: Apache-2.0
"""Pictures beside the exercises of lesson 19: pieces that come over the link one after another, and a message with its two flags."""
from __future__ import annotations

from matplotlib.patches import FancyArrowPatch, Rectangle

from ...show import style
from .overlap_model import overlap_picture


def draw_pieces(pieces: int = 2) -> style.Picture:
    """Device 1 of two, whose tiles begin as they lie: who waits?"""
    return overlap_picture("as they lie", pieces, heading="Device 1, tiles as they lie")


def draw_share() -> style.Picture:
    """Two devices: the tile and its flag go one way, 'read' goes the other."""
    figure, (axis,) = style.new_figure(2.6)
    for x, name, lines in ((0.0, "device 0: give", ("x", "tile (shared memory)", "read[b]")), (6.0, "device 1: take", ("out", "mail", "full[b]"))):
        axis.add_patch(Rectangle((x, 0), 3.4, 4, facecolor=style.EMPTY, edgecolor=style.INK, linewidth=1))
        axis.text(x + 1.7, 3.65, name, ha="center", va="center", fontsize=10)
        for row, text in enumerate(lines):
            axis.text(x + 1.7, 2.85 - row, text, ha="center", va="center", fontsize=10)
    for y, text, (first, last) in ((1.85, "1. the tile, by a bulk copy", (3.4, 6.0)), (0.95, "2. the flag: step", (3.4, 6.0)),
                                   (0.35, "3. has been read: step", (6.0, 3.4))):
        axis.add_patch(FancyArrowPatch((first, y), (last, y), arrowstyle="-|>", mutation_scale=12, color=style.BLUE if y > 0.5 else style.ORANGE))
        axis.text(4.7, y + 0.16, text, ha="center", va="bottom", fontsize=9)
    axis.set(xlim=(-0.1, 9.5), ylim=(0, 4.1), xticks=[], yticks=[])
    style.title(axis, "A message to another device, and the answer")
    for side in axis.spines.values():
        side.set_visible(False)
    return style.Picture(figure, "Two devices: give doubles x into a tile and pushes it into mail on device 1 by a bulk copy; then raises full[b] there; take "
                                 "copies the tile to out and raises read[b] on device 0")
