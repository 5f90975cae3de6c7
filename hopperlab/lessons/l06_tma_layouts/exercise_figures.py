# SPDX-License-Identifier: Apache-2.0
"""Picture of lesson 06's second exercise: which pieces eight lanes find when they XOR the address, and when they XOR the offset."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ...hopper import swizzle
from ...show import style

LANES, PIECE, LINE = 8, swizzle.ATOM_BYTES, 128


def draw_column_reads(span: int = 128, piece: int = 1, at: int = 128) -> style.Picture:
    """Eight lanes want piece `piece` of rows 0 to 7 of a tile that starts `at` bytes past a multiple of 1024; label = row.piece that lies there.

    span: bytes of a row and of its swizzle (32, 64 or 128). Left the XOR is applied to the address, right to the offset inside the tile.
    """
    mode = f"{span}B"
    wanted = [row * span + piece * PIECE for row in range(LANES)]
    reads = {"XOR on the address": [int(swizzle.apply(at + offset, mode)) - at for offset in wanted],
             "XOR on the offset": [int(swizzle.apply(offset, mode)) for offset in wanted]}
    figure, axes = style.new_figure(1.5 + 0.3 * -(-LANES * span // LINE), columns=2)
    words = [f"Eight lanes want piece {piece} of rows 0 to 7; the tile starts {at} bytes past a multiple of 1024, swizzle {mode}"]
    for axis, (heading, offsets) in zip(axes, reads.items()):
        found = [_held(offset, mode, span, at) for offset in offsets]
        _draw(axis, mode, span, at, offsets, wanted)
        right = sum(f"{row}.{piece}" == label for row, label in enumerate(found))
        style.title(axis, f"{heading}: {right} of {LANES} right")
        words.append(f"  {heading}: lanes 0 to 7 find " + ", ".join(found))
    figure.suptitle(f"Lanes read the framed pieces and want 0.{piece} to {LANES - 1}.{piece} (blue)", fontsize=10, color=style.INK)
    return style.Picture(figure, "\n".join(words))


def _held(offset: int, mode: str, span: int, at: int) -> str:
    """Which piece, as row.piece, lies `offset` bytes into the tile."""
    plain = int(swizzle.apply(at + offset, mode)) - at
    return f"{plain // span}.{plain % span // PIECE}"


def _draw(axis: Axes, mode: str, span: int, at: int, offsets: list[int], wanted: list[int]) -> None:
    lines = -(-LANES * span // LINE)
    blue = {_held(int(swizzle.apply(at + offset, mode)) - at, mode, span, at) for offset in wanted}
    for start in range(0, lines * LINE, PIECE):
        x, y, label = start % LINE / PIECE, start // LINE, _held(start, mode, span, at)
        axis.add_patch(Rectangle((x, y), 1, 1, facecolor=style.SKY if label in blue else style.EMPTY, edgecolor=style.CARD, linewidth=1.2))
        axis.text(x + 0.5, y + 0.52, label, ha="center", va="center", fontsize=8, color=style.INK)
        if start in offsets:
            axis.add_patch(Rectangle((x + 0.05, y + 0.05), 0.9, 0.9, facecolor="none", edgecolor=style.VERMILION, linewidth=2.5, zorder=5))
    axis.set(xlim=(0, 8), ylim=(lines, 0), xlabel="shared-memory banks", ylabel="bytes into the tile")
    axis.set_xticks([i + 0.5 for i in range(8)], [f"{4 * i}–{4 * i + 3}" for i in range(8)])
    axis.tick_params(axis="x", labelsize=8)
    axis.set_yticks([i + 0.5 for i in range(lines)], [str(LINE * i) for i in range(lines)])
