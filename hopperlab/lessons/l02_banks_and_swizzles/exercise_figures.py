# SPDX-License-Identifier: Apache-2.0
"""Pictures of lesson 02's exercises: a column of a swizzled tile at its addresses, and the four matrices of a corner before and after a transpose."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ...hopper import swizzle
from ...show import style

LINE = 128                   # bytes of one trip over the 32 banks
PIECE = swizzle.ATOM_BYTES


def draw_swizzled_column(SPAN: int, start: int, piece: int, rows: int = 8) -> style.Picture:
    """Shared memory in lines of 128 bytes from the address `start` on (a multiple of 128), with a tile of `rows` rows of SPAN bytes.

    Each 16-byte piece is labelled row.piece; those of column `piece` are blue. The swizzle is that of SPAN bytes.
    """
    lines = -(-rows * SPAN // LINE)
    figure, (axis,) = style.new_figure(1.1 + 0.34 * max(3, lines))
    places = []
    for row in range(rows):
        for at in range(SPAN // PIECE):
            address = int(swizzle.apply(start + row * SPAN + at * PIECE, f"{SPAN}B"))
            colour = style.BLUE if at == piece else style.EMPTY
            x, y = address % LINE / PIECE, (address - start) // LINE
            axis.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, edgecolor=style.CARD, linewidth=1.5))
            axis.text(x + 0.5, y + 0.5, f"{row}.{at}", ha="center", va="center", fontsize=9, color=style.ink_on(colour))
            places += [address] if at == piece else []
    axis.set(xlim=(0, LINE / PIECE), ylim=(lines, 0), xlabel=f"shared-memory banks (4 bytes each); blue: piece {piece} of each row", ylabel="address (bytes)")
    axis.set_xticks([i + 0.5 for i in range(8)], [f"{4 * i}–{4 * i + 3}" for i in range(8)])
    axis.set_yticks([i + 0.5 for i in range(lines)], [str(start + LINE * i) for i in range(lines)])
    heading = f"Rows of {SPAN} bytes from address {start} on, swizzle {SPAN}B: label = row.piece"
    style.title(axis, heading)
    return style.Picture(figure, f"{heading}\n  addresses of piece {piece}, row by row: " + ", ".join(map(str, places)))


def draw_turned_corner(WIDTH: int, y: int = 0, x: int = 1) -> style.Picture:
    """The corner of 16 x 16 elements at (y, x) of a WIDTH x WIDTH tile as four matrices of 8 x 8, and where they lie in the turned tile.

    The number is that of the register d[0] … d[3] of ldmatrix.x4 when lane % 16 names the row and lane / 16 the piece.
    """
    x, y = min(x, WIDTH // 16 - 1), min(y, WIDTH // 16 - 1)
    figure, axes = style.new_figure(4.2, columns=2)
    _corner(axes[0], WIDTH, {j: (2 * y + j % 2, 2 * x + j // 2) for j in range(4)}, "the tile as it came (rows of in)")
    _corner(axes[1], WIDTH, {j: (2 * x + j // 2, 2 * y + j % 2) for j in range(4)}, "the turned tile (rows of out)")
    words = [f"The corner ({y}, {x}) of 16 x 16 elements as four matrices of 8 x 8, which ldmatrix.x4.trans brings turned"]
    words += [f"  d[{j}]: rows {16 * y + 8 * (j % 2)} to {16 * y + 8 * (j % 2) + 7}, piece {2 * x + j // 2}; "
              f"in the turned tile rows {16 * x + 8 * (j // 2)} to {16 * x + 8 * (j // 2) + 7}, piece {2 * y + j % 2}" for j in range(4)]
    return style.Picture(figure, "\n".join(words))


def _corner(axis: Axes, width: int, matrices: dict[int, tuple[int, int]], heading: str) -> None:
    eighths = width // 8
    for row in range(eighths):
        for piece in range(eighths):
            axis.add_patch(Rectangle((piece, row), 1, 1, facecolor=style.EMPTY, edgecolor=style.CARD, linewidth=1.5))
    for j, (row, piece) in matrices.items():
        colour = (style.BLUE, style.ORANGE, style.GREEN, style.PURPLE)[j]
        axis.add_patch(Rectangle((piece, row), 1, 1, facecolor=colour, edgecolor=style.CARD, linewidth=1.5))
        axis.text(piece + 0.5, row + 0.5, f"d[{j}]", ha="center", va="center", fontsize=10, color=style.ink_on(colour))
    axis.set(xlim=(0, eighths), ylim=(eighths, 0), xlabel="piece of the row (8 elements, 16 bytes)", ylabel="row of the tile", aspect="equal")
    axis.set_xticks([i + 0.5 for i in range(eighths)], [str(i) for i in range(eighths)])
    axis.set_yticks(range(eighths), [str(8 * i) for i in range(eighths)])
    style.title(axis, heading)
