# SPDX-License-Identifier: Apache-2.0
"""Who computes what in the three kernels of lesson 01: a block's tile of C, one thread's share of it, and the strips of A and B that they read."""
from __future__ import annotations

from typing import NamedTuple

from matplotlib.patches import Rectangle

from ...show import style

THREAD = 53             # whose share is drawn: in the third row of 16 threads
STRIP = 0.16            # how wide the strips of A and B are drawn, of the tile's edge


class Share(NamedTuple):
    """A kernel: rows and columns of C that a block computes, the pieces of one thread as (row, column, rows, columns), and where it reads its numbers."""

    kernel: str
    tile: tuple[int, int]
    pieces: tuple[tuple[int, int, int, int], ...]
    reads: str


def shares(thread: int = THREAD) -> tuple[Share, ...]:
    """The three kernels as their index arithmetic has it, for thread `thread` (0 to 255) of a block."""
    y, x = thread // 16 * 4, thread % 16 * 4
    fours = tuple((y + 64 * down, x + 64 * right, 4, 4) for down in (0, 1) for right in (0, 1))
    return (Share("naive", (8, 32), ((thread // 32, thread % 32, 1, 1),), "all of k,\nfrom global memory"),
            Share("shared_tile", (64, 64), ((y, x, 4, 4),), "16 columns at a time,\nfrom shared memory"),
            Share("register_double_buffer", (128, 128), fours, "8 columns at a time,\nfrom shared memory"))


def who_computes(thread: int = THREAD) -> style.Picture:
    """One picture a kernel: blue is what one thread computes, orange the rows of A (left) and of B (above) that it needs for it."""
    figure, axes = style.new_figure(4.0, 3)
    lines = []
    for axis, share in zip(axes, shares(thread), strict=True):
        rows, columns = share.tile
        edge = max(rows, columns)
        wide = STRIP * edge
        axis.add_patch(Rectangle((0, 0), columns, rows, facecolor=style.EMPTY, edgecolor=style.INK))
        axis.add_patch(Rectangle((-1.3 * wide, 0), wide, rows, facecolor=style.EMPTY, edgecolor=style.INK))
        axis.add_patch(Rectangle((0, -1.3 * wide), columns, wide, facecolor=style.EMPTY, edgecolor=style.INK))
        for row, column, down, right in share.pieces:
            axis.add_patch(Rectangle((column, row), right, down, facecolor=style.BLUE))
            axis.add_patch(Rectangle((-1.3 * wide, row), wide, down, facecolor=style.ORANGE))
            axis.add_patch(Rectangle((column, -1.3 * wide), right, wide, facecolor=style.ORANGE))
        elements = sum(down * right for _, _, down, right in share.pieces)
        numbers = sum({row: down for row, _, down, _ in share.pieces}.values()) + sum({column: right for _, column, _, right in share.pieces}.values())
        axis.set(xlim=(-1.5 * wide, edge + 0.5), ylim=(1.25 * edge, -1.5 * wide), aspect="equal")
        axis.axis("off")
        axis.set_title(f"{share.kernel}\nblock {rows} x {columns}, thread {elements}", fontsize=10, loc="left", color=style.INK)
        axis.text(0, rows + 0.06 * edge, f"{numbers} numbers for {elements} product{'s' if elements > 1 else ''},\n{share.reads}", fontsize=8.5, color=style.INK,
                  va="top")
        lines.append(f"{share.kernel}: a block computes {rows} x {columns} elements of C, thread {thread} of it {elements}; "
                     f"for each column of k it reads {numbers} numbers for {elements} product{'s' if elements > 1 else ''}, {share.reads.replace(chr(10), ' ')}")
    return style.Picture(figure, "\n".join(lines))
