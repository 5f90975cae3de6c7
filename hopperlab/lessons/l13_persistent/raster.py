# SPDX-License-Identifier: Apache-2.0
"""Lesson 13: the order in which a persistent kernel takes its tiles, what one wave of it reads, and how full the last wave is.

The order comes from the kernels' own header (raster.cuh), run in the emulator; everything here counts on that order.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.patches import Rectangle

from ...runtime.tables import text_table
from ...show import style

CODE = r'''
#include <hopperlab/raster.cuh>
extern "C" __global__ void order(int* places, int rows, int cols) {     // places: row and column of tile 0, 1, 2 …
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= rows * cols) return;
    Tile tile = grouped_tile<GROUP>(index, rows, cols);
    places[2 * index] = tile.row;
    places[2 * index + 1] = tile.col;
}'''
SMS = 132


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def tile_order(rows: int, cols: int, group: int) -> np.ndarray:
    """(rows * cols, 2): row and column of each tile in the order of raster.cuh's grouped_tile<group>, run in the emulator.

    Raises ValueError for an empty grid or a group of no rows.
    """
    import hopperlab as hl

    if min(rows, cols, group) < 1:
        raise ValueError(f"an order needs at least one row, one column and groups of one row, not {rows} x {cols} in groups of {group}")
    kernel = hl.RawModule(code=CODE, options=(f"-DGROUP={group}",), backend="emulator", name="order.cu").get_function("order")
    places = np.zeros((rows * cols, 2), np.int32)
    with hl.emulate():
        kernel((_ceil(rows * cols, 256),), (256,), (places, np.int32(rows), np.int32(cols)))
    return places


@dataclass(frozen=True)
class Wave:
    """What the CTAs (or clusters) that run side by side work on: how many tiles, in how many rows and columns of tiles."""

    tiles: int
    rows: int
    cols: int

    def reuse(self, tile: tuple[int, int] = (256, 256)) -> float:
        """Bytes that the wave's loads bring in, over the distinct bytes among them. tile: its rows and columns."""
        return self.tiles * sum(tile) / (self.rows * tile[0] + self.cols * tile[1])


def waves_of(order: np.ndarray, at_once: int) -> list[Wave]:
    """The waves of an order of tiles when `at_once` tiles run side by side."""
    parts = [order[first:first + at_once] for first in range(0, len(order), at_once)]
    return [Wave(len(part), len(set(part[:, 0].tolist())), len(set(part[:, 1].tolist()))) for part in parts]


def reuse_table(rows: int, cols: int, groups: Sequence[int], at_once: int = 64, tile: tuple[int, int] = (256, 256)) -> str:
    """A line a group height: rows and columns of tiles that the first wave touches, and how often each byte is used, by all full waves."""
    lines = []
    for group in groups:
        waves = waves_of(tile_order(rows, cols, group), at_once)
        uses = [wave.reuse(tile) for wave in waves]
        first = waves[0]
        lines.append((group, f"{first.rows} rows, {first.cols} columns", first.rows + first.cols, f"{sum(uses) / len(uses):.1f}, {min(uses):.1f}"))
    head = ("group", "first wave", "strips read", "uses of each byte: mean of the waves, worst")
    return "\n".join([f"{rows} x {cols} tiles of {tile[0]} x {tile[1]}, {at_once} at a time", *text_table("{:6d} {:>22} {:12d}  {}", lines, head)])


def raster_map(rows: int, cols: int, groups: Sequence[int] = (1, 8, 32), at_once: int = 64, wave: int = 0) -> style.Picture:
    """One map of C a group height: the tiles of wave `wave` in colour, and, as bands at the edges, the rows of A and columns of B it reads."""
    figure, axes = style.new_figure(3.5, len(groups))
    words = [f"{rows} x {cols} tiles, {at_once} at a time: wave {wave + 1}"]
    for axis, group in zip(axes, groups, strict=True):
        order = tile_order(rows, cols, group)
        now = order[wave * at_once:(wave + 1) * at_once]
        done = order[:wave * at_once]
        found = waves_of(order, at_once)[wave]
        axis.add_patch(Rectangle((0, 0), cols, rows, facecolor=style.EMPTY, edgecolor=style.INK, linewidth=0.8))
        for part, colour in ((done, style.FAINT), (now, style.BLUE)):
            for row, col in part:
                axis.add_patch(Rectangle((col, row), 1, 1, facecolor=colour, edgecolor=style.CARD, linewidth=0.4))
        thick = 0.06 * max(rows, cols)
        for row in sorted(set(now[:, 0].tolist())):
            axis.add_patch(Rectangle((-1.6 * thick, row), thick, 1, facecolor=style.ORANGE, linewidth=0))
        for col in sorted(set(now[:, 1].tolist())):
            axis.add_patch(Rectangle((col, -1.6 * thick), 1, thick, facecolor=style.GREEN, linewidth=0))
        axis.set(xlim=(-2 * thick, cols + 0.5), ylim=(rows + 0.5, -2 * thick), aspect="equal", xticks=[], yticks=[])
        axis.set_xlabel(f"{found.rows} strips of A (orange),\n{found.cols} strips of B (green):\neach byte is used {found.reuse():.1f} times", fontsize=9)
        for side in ("left", "bottom"):
            axis.spines[side].set_visible(False)
        style.title(axis, f"groups of {group}")
        words.append(f"  groups of {group}: {found.tiles} tiles in {found.rows} rows and {found.cols} columns; each byte is used {found.reuse():.1f} times")
    return style.Picture(figure, "\n".join(words))


def launch_raster(size: int, group: int, at_once: int, wave: int) -> style.Picture:
    """The panel: the order of a product of size³ in cluster tiles of 256 x 256, computed by the kernels' own header in the emulator.

    Raises ValueError for a wave that the product does not have.
    """
    side = _ceil(size, 256)
    count = _ceil(side * side, at_once)
    if not 1 <= wave <= count:
        raise ValueError(f"{side} x {side} tiles, {at_once} at a time, are {count} waves: there is no wave {wave}")
    return raster_map(side, side, tuple(dict.fromkeys((1, group, side))), at_once, wave - 1)


@dataclass(frozen=True)
class Fill:
    """A product in tiles on `sms` SMs: how many tiles, waves of them, and which share of the SMs' time is used if all tiles take equally long."""

    tiles: int
    sms: int

    @property
    def waves(self) -> int:
        return _ceil(self.tiles, self.sms)

    @property
    def last(self) -> int:
        """Tiles of the last wave."""
        return self.tiles - (self.waves - 1) * self.sms

    @property
    def used(self) -> float:
        return self.tiles / (self.waves * self.sms)


def fill(m: int, n: int, tile: tuple[int, int] = (128, 256), sms: int = SMS) -> Fill:
    """The waves of an m x n result in tiles of `tile`, one CTA per SM."""
    return Fill(_ceil(m, tile[0]) * _ceil(n, tile[1]), sms)


def waves_table(shapes: Sequence[tuple[int, int]], tile: tuple[int, int] = (128, 256), sms: int = SMS) -> str:
    """A line a result's shape: tiles, waves, tiles of the last wave, and the share of the SMs' time that is used."""
    rows = []
    for m, n in shapes:
        found = fill(m, n, tile, sms)
        rows.append((f"{m} x {n}", found.tiles, found.waves, f"{found.last} of {sms}", f"{100 * found.used:.0f} %"))
    return "\n".join(text_table("{:>14} {:6d} {:6d} {:>10}  {}", rows, ("result", "tiles", "waves", "last wave", f"used of {sms} SMs' time")))


def waves_chart(sizes: Sequence[int], tiles: Sequence[tuple[int, int]] = ((128, 256), (128, 128)), sms: int = SMS) -> style.Picture:
    """The used share of the SMs' time against the size of a square result, a line a tile: the saw of wave quantisation."""
    figure, (axis,) = style.new_figure(3.0)
    words = [f"Share of {sms} SMs' time used by a square result, by tile"]
    for index, tile in enumerate(tiles):
        used = [100 * fill(size, size, tile, sms).used for size in sizes]
        axis.plot(sizes, used, color=style.PALETTE[index], linewidth=1.6, label=f"{tile[0]} x {tile[1]}", drawstyle="steps-pre")
        words += [f"  {tile[0]} x {tile[1]}: {size}: {share:.0f} %" for size, share in zip(sizes, used, strict=True) if size % 2048 == 0]
        teeth = sorted(range(1, len(used)), key=lambda i: used[i] - used[i - 1])[:4]                 # where the share falls most: a wave more
        words += [f"  {tile[0]} x {tile[1]}: from {used[i - 1]:.0f} % at {sizes[i - 1]} to {used[i]:.0f} % at {sizes[i]}, a wave more" for i in sorted(teeth)]
    axis.set(xlabel="rows and columns of the result", ylabel=f"used of {sms} SMs (%)", ylim=(0, 104), xlim=(sizes[0], sizes[-1]))
    axis.legend(title="tile", fontsize=9, title_fontsize=9, frameon=False, loc="lower right")
    axis.grid(True, color=style.EMPTY)
    style.title(axis, "What the waves use of the machine (computed: equal tiles, one per SM)")
    return style.Picture(figure, "\n".join(words), style.FEWER)
