# SPDX-License-Identifier: Apache-2.0
"""Picture of lesson 05's stencil exercise: one plane of the box that brings a tile with its halo, over the edge of the volume."""

from __future__ import annotations

from matplotlib.patches import Patch, Rectangle

from ...show import style

KINDS = (("the tile", style.SKY), ("its halo", style.YELLOW), ("comes along, not needed", style.EMPTY), ("outside: filled with 0", style.CARD))


def draw_halo(tile: int = 8, halo: int = 1, lead: int = 4) -> style.Picture:
    """One plane of the box of the tile in the volume's corner: what is the tile, what its halo, what only fills rows up, what is outside.

    tile, halo, lead: in elements; the box has tile + 2 halo rows of tile + 2 lead elements. The volume is cut off 2 elements after the tile.
    """
    figure, (axis,) = style.new_figure(3.9)
    for y in range(-halo, tile + halo):
        for x in range(-lead, tile + lead):
            kind = _kind(x, y, tile, halo)
            outside = kind == 3
            axis.add_patch(Rectangle((x, y), 1, 1, facecolor=KINDS[kind][1], edgecolor=style.FAINT, hatch="///" if outside else None, linewidth=0.8))
    axis.add_patch(Rectangle((-lead, -halo), tile + 2 * lead, tile + 2 * halo, facecolor="none", edgecolor=style.VERMILION, linewidth=2.5, clip_on=False))
    axis.axvline(0, color=style.INK, linewidth=1, linestyle="--")
    axis.axhline(0, color=style.INK, linewidth=1, linestyle="--")
    axis.set(xlim=(-lead - 0.1, tile + lead + 0.1), ylim=(tile + halo + 0.1, -halo - 0.1), xlabel="innermost coordinate (elements)", ylabel="next coordinate (elements)")
    axis.set_aspect("equal")
    axis.set_xticks(range(-lead, tile + lead + 1, 4))
    axis.set_yticks(range(0, tile + 1, 4))
    handles = [Patch(facecolor=colour, edgecolor=style.FAINT, hatch="///" if i == 3 else None, label=label) for i, (label, colour) in enumerate(KINDS)]
    figure.legend(handles=handles, fontsize=9, frameon=False, loc="outside right upper")
    style.title(axis, f"A plane of the box (red): tile of {tile}, halo of {halo}")
    rows, columns = tile + 2 * halo, tile + 2 * lead
    return style.Picture(figure, f"One plane of the box: {rows} rows of {columns} elements, from ({-halo}, {-lead}); the tile is {tile} x {tile}, "
                                 f"its halo {halo} wide; what lies before row 0 or column 0 is outside the volume and filled with 0.")


def _kind(x: int, y: int, tile: int, halo: int) -> int:
    if x < 0 or y < 0:
        return 3
    if x < tile and y < tile:
        return 0
    return 1 if min(x, y) < tile and x < tile + halo else 2
