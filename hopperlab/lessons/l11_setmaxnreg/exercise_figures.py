# SPDX-License-Identifier: Apache-2.0
"""Picture of the exercises to lesson 11: a tile of C by consumers and blocks of rows, and what its accumulators take of a thread's registers."""
from __future__ import annotations

from matplotlib.patches import Rectangle

from ...show import style
from ..l10_warp_specialization.register_budget import registers_at_entry


def draw_large_tile(row_blocks: int = 3, cols: int = 128, consumers: int = 2) -> style.Picture:
    """Left: a tile of consumers x row_blocks x 64 rows and `cols` columns. Right: a thread's accumulators for 1 .. row_blocks blocks of 64
    rows, against the registers that it has at entry."""
    figure, axes = style.new_figure(3.3, 2, ratios=(1, 1.9))
    entry, each = registers_at_entry(128 * (1 + consumers)), 64 * cols // 128
    tile, bars = axes
    for block in range(consumers * row_blocks):
        who, colour = block // row_blocks, (style.BLUE, style.ORANGE, style.GREEN)[block // row_blocks % 3]
        tile.add_patch(Rectangle((0, 64 * block), cols, 64, facecolor=colour, edgecolor=style.CARD, linewidth=1.5))
        tile.text(cols / 2, 64 * block + 32, f"consumer {who + 1}, block {block % row_blocks}", ha="center", va="center", fontsize=9,
                  color=style.ink_on(colour))
    rows = 64 * consumers * row_blocks
    tile.set(xlim=(0, cols), ylim=(rows, 0), xlabel="column of the tile", ylabel="row of the tile", xticks=(0, cols), yticks=range(0, rows + 1, 64))
    style.title(tile, f"A tile of {rows} × {cols}")
    words = [f"A tile of {rows} x {cols}: {consumers} consumers, {row_blocks} blocks of 64 rows each; {entry} registers per thread at entry"]
    for blocks in range(1, row_blocks + 1):
        bars.barh(blocks, each * blocks, height=0.6, color=style.SKY, edgecolor=style.CARD)
        bars.text(each * blocks / 2, blocks, f"{each * blocks} accumulators", ha="center", va="center", fontsize=9, color=style.ink_on(style.SKY))
        words.append(f"  {blocks} blocks of rows: {each * blocks} accumulators per thread")
    bars.axvline(entry, color=style.VERMILION, linewidth=2.5)
    bars.set(xlim=(0, 256), ylim=(row_blocks + 0.6, 0.4), xlabel=f"registers of a consumer's thread (red line: {entry} at entry)",
             ylabel="blocks of 64 rows", yticks=range(1, row_blocks + 1), xticks=range(0, 257, 32))
    style.title(bars, "What the accumulators take")
    return style.Picture(figure, "\n".join(words))
