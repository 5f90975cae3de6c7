# SPDX-License-Identifier: Apache-2.0
"""Pictures of the exercises to lesson 10: who touches the two barriers of a slot, and a tile that consumers share by columns."""
from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ...show import style

COLOURS = (style.BLUE, style.ORANGE, style.GREEN)


def _box(axis: Axes, x: float, y: float, width: float, height: float, text: str, colour: str = style.EMPTY) -> None:
    axis.add_patch(Rectangle((x, y), width, height, facecolor=colour, edgecolor=style.INK, linewidth=0.9))
    axis.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=9, color=style.ink_on(colour))


def _arrow(axis: Axes, start: tuple[float, float], end: tuple[float, float], text: str, colour: str, above: float) -> None:
    waits = "wait" in text
    axis.annotate("", xy=end, xytext=start, arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 1.6, "linestyle": "--" if waits else "-"})
    axis.text((start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + above, text, ha="center", va="center", fontsize=9, color=style.INK)


def draw_slot_barriers(consumers: int = 2) -> style.Picture:
    """One slot of a ring with its two barriers: who arrives on which (solid arrows) and who waits for which (dashed); no counts."""
    figure, (axis,) = style.new_figure(2.9)
    axis.axis("off")
    axis.set(xlim=(0, 10.2), ylim=(-0.35, 3.3))
    _box(axis, 0, 1.0, 1.7, 1.1, "producer:\none warp", style.VERMILION)
    _box(axis, 4.0, 2.2, 2.0, 0.75, "full[s]")
    _box(axis, 4.0, 1.2, 2.0, 0.75, "slot s: a tile", style.SKY)
    _box(axis, 4.0, 0.2, 2.0, 0.75, "empty[s]")
    for who in range(consumers):
        y = 1.75 - 1.5 * who / max(1, consumers - 1) * (consumers > 1) if consumers > 1 else 1.0
        axis.add_patch(Rectangle((8.0, y), 2.1, 1.2, facecolor="none", edgecolor=style.INK, linewidth=0.9))
        axis.text(9.05, y + 0.93, f"consumer {who}", ha="center", va="center", fontsize=9, color=style.INK)
        for warp in range(4):
            _box(axis, 8.1 + 0.48 * warp, y + 0.12, 0.44, 0.5, f"w{warp}", COLOURS[who % 3])
    _arrow(axis, (1.75, 1.75), (3.95, 2.55), "arrives,\nannounces bytes", style.VERMILION, 0.62)
    _arrow(axis, (3.95, 0.55), (1.75, 1.25), "waits", style.INK, -0.3)
    _arrow(axis, (6.05, 2.6), (7.95, 2.35), "all of them wait", style.INK, 0.33)
    _arrow(axis, (7.95, 0.75), (6.05, 0.55), "every warp arrives", style.BLUE, -0.35)
    style.title(axis, f"One slot of the ring, {consumers} consumer warpgroups (dashed: who waits)")
    words = [f"One slot with {consumers} consumer warpgroups.", "  full[s]: the producer arrives and announces bytes; the consumers wait.",
             "  empty[s]: each consumer warp arrives; the producer waits."]
    return style.Picture(figure, "\n".join(words))


def draw_columns_of_consumers(consumers: int = 2) -> style.Picture:
    """A k-block of A (64 rows) and of B (64 rows per consumer), and the tile of C: each consumer's columns in its colour."""
    figure, axes = style.new_figure(2.9, 3, ratios=(1.0, 1.0, 1.0 + 0.35 * consumers))
    parts = (("A: for all", 64, [(style.FAINT, 0, 64, "all")], "k (elements)", "row of the tile"),
             ("B: a part each", 64, [(COLOURS[who % 3], 64 * who, 64, f"consumer {who + 1}") for who in range(consumers)], "k (elements)",
              "row of B = column of C"))
    for axis, (name, width, boxes, across, down) in zip(axes, parts):
        for colour, top, height, text in boxes:
            axis.add_patch(Rectangle((0, top), width, height, facecolor=colour, edgecolor=style.CARD, linewidth=1.5))
            axis.text(width / 2, top + height / 2, text, ha="center", va="center", fontsize=9, color=style.ink_on(colour))
        bottom = boxes[-1][1] + 64
        axis.set(xlim=(0, 64), ylim=(bottom, 0), xlabel=across, ylabel=down, xticks=(0, 64), yticks=range(0, bottom + 1, 64), aspect="equal")
        style.title(axis, name)
    for who in range(consumers):
        colour = COLOURS[who % 3]
        axes[2].add_patch(Rectangle((64 * who, 0), 64, 64, facecolor=colour, edgecolor=style.CARD, linewidth=1.5))
        axes[2].text(64 * who + 32, 32, f"consumer {who + 1}", ha="center", va="center", fontsize=9, color=style.ink_on(colour))
    axes[2].set(xlim=(0, 64 * consumers), ylim=(64, 0), xlabel="column of the tile", ylabel="row of the tile", xticks=range(0, 64 * consumers + 1, 64),
                yticks=(0, 64), aspect="equal")
    style.title(axes[2], "C: 64 columns each")
    words = [f"{consumers} consumers share a tile of 64 x {64 * consumers}: all read the 64 rows of A;"]
    words += [f"  consumer {who + 1}: rows {64 * who} to {64 * who + 63} of B's tile, the same columns of C" for who in range(consumers)]
    return style.Picture(figure, "\n".join(words))
