# SPDX-License-Identifier: Apache-2.0
"""Lesson 06: one element on its way from a tile's row and column to its shared address.

The formula is `hopper.swizzle`'s; this file draws it.
"""
from __future__ import annotations

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ...hopper import banks, swizzle, tile
from ...show import style

PIECE = swizzle.ATOM_BYTES


@dataclass(frozen=True)
class Path:
    """One byte of a tile: row, byte of the row; `plain`: its address without the swizzle, `landed`: with it; pitch of the rows."""

    row: int
    byte: int
    pitch: int
    plain: int
    landed: int

    @property
    def piece(self) -> int:
        """Which 16 bytes of the row."""
        return self.byte // PIECE

    @property
    def bank(self) -> int:
        """The shared-memory bank of the 4-byte word that holds the byte."""
        return self.landed // banks.BANK_BYTES % banks.BANKS


def pitch_of(mode: str, row_bytes: int) -> int:
    """Bytes from row to row in shared memory: the span of the swizzle, or the row where nothing is swizzled. Raises ValueError for a row wider than the span."""
    if mode == "none":
        return row_bytes
    span = swizzle.span_bytes(mode)
    if row_bytes > span:
        raise ValueError(f"a row of {row_bytes} bytes under the swizzle {mode}: the box's row is at most the span, {span} bytes")
    return span


def follow_path(mode: str, row_bytes: int, row: int, byte: int, base: int = 0) -> Path:
    """Where byte `byte` of row `row` lies, for a tile at shared address `base`. Raises ValueError for a byte outside the row or a base off 128 bytes."""
    pitch = pitch_of(mode, row_bytes)
    if not 0 <= byte < row_bytes:
        raise ValueError(f"byte {byte} is not in a row of {row_bytes} bytes")
    if base % tile.SHARED_ALIGN:
        raise ValueError(f"the tile starts at {base}: tensor copies need a multiple of {tile.SHARED_ALIGN}")
    plain = base + row * pitch + byte
    return Path(row, byte, pitch, plain, int(swizzle.apply(plain, mode)))


def follow_element(mode: str = "128B", row_bytes: int = 128, row: int = 3, byte: int = 36, base: int = 0, rows: int = 8,
                   heading: str | None = None) -> style.Picture:
    """One element from its tile (left) to shared memory (right), and the XOR of its address bits (below).

    The followed piece is outlined in red, the column of pieces it belongs to is blue. base: of the tile, a multiple of 128;
    row < rows. Raises ValueError as `follow_path` does.
    """
    path = follow_path(mode, row_bytes, row, byte, base)
    lines = -(-rows * path.pitch // 128)
    figure, (left, right, below) = _axes(2.1 + 0.27 * max(rows, lines))
    _draw_tile(left, row_bytes, rows, path)
    _draw_shared(right, mode, row_bytes, rows, base, path)
    _draw_bits(below, mode, path)
    figure.suptitle(heading or f"Swizzle {mode}: row {row}, byte {byte} of the row", fontsize=11, color=style.INK, fontweight="bold")
    return style.Picture(figure, _words(mode, row_bytes, rows, base, path, heading))


def _axes(height: float) -> tuple[Figure, list[Axes]]:
    figure, (whole,) = style.new_figure(height)
    whole.remove()
    grid = figure.add_gridspec(2, 2, height_ratios=(max(1.0, height - 1.9), 0.8), width_ratios=(1, 1))
    axes = [figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[0, 1]), figure.add_subplot(grid[1, :])]
    for axis in axes:
        style.dress(axis)
    return figure, axes


def _piece(axis: Axes, x: float, y: float, label: str, same_column: bool, followed: bool) -> None:
    colour = style.SKY if same_column else style.EMPTY
    axis.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, edgecolor=style.CARD, linewidth=1.2))
    axis.text(x + 0.5, y + 0.52, label, ha="center", va="center", fontsize=8, color=style.INK, fontweight="bold" if followed else "normal")
    if followed:
        axis.add_patch(Rectangle((x + 0.04, y + 0.04), 0.92, 0.92, facecolor="none", edgecolor=style.VERMILION, linewidth=2.5, zorder=5))


def _draw_tile(axis: Axes, row_bytes: int, rows: int, path: Path) -> None:
    pieces = row_bytes // PIECE
    for r in range(rows):
        for p in range(pieces):
            _piece(axis, p, r, f"{r}.{p}" if p == path.piece else "", p == path.piece, (r, p) == (path.row, path.piece))
    axis.set(xlim=(0, max(8, pieces)), ylim=(rows, 0), xlabel="16-byte piece of the row", ylabel="row of the tile")
    axis.set_xticks([p + 0.5 for p in range(pieces)], [str(p) for p in range(pieces)])
    axis.set_yticks([r + 0.5 for r in range(rows)], [str(r) for r in range(rows)])
    style.title(axis, "the tile (label = row.piece)")


def _draw_shared(axis: Axes, mode: str, row_bytes: int, rows: int, base: int, path: Path) -> None:
    lines = -(-rows * path.pitch // 128)
    axis.add_patch(Rectangle((0, 0), 8, lines, facecolor=style.CARD, edgecolor=style.FAINT, linewidth=1))
    for r in range(rows):
        for p in range(row_bytes // PIECE):
            at = follow_path(mode, row_bytes, r, p * PIECE, base).landed - base
            _piece(axis, at % 128 / PIECE, at // 128, f"{r}.{p}", p == path.piece, (r, p) == (path.row, path.piece))
    axis.set(xlim=(0, 8), ylim=(lines, 0), xlabel="shared-memory banks", ylabel="shared address (bytes)")
    axis.set_xticks([i + 0.5 for i in range(8)], [f"{4 * i}–{4 * i + 3}" for i in range(8)])
    axis.tick_params(axis="x", labelsize=8)
    axis.set_yticks([i + 0.5 for i in range(lines)], [f"{base + 128 * i:#x}" for i in range(lines)])
    style.title(axis, "shared memory (blank: not written)" if row_bytes < path.pitch else "shared memory")


def _draw_bits(axis: Axes, mode: str, path: Path) -> None:
    mask = swizzle.ROW_BITS[mode]
    for y, (name, address) in enumerate((("without", path.plain), ("landed", path.landed))):
        for bit in range(12):
            x = 11 - bit
            row_bit, moved = mask >> bit & 1, mask >> 3 >> bit & 1
            colour = style.YELLOW if row_bit else style.ORANGE if moved else style.EMPTY
            axis.add_patch(Rectangle((x, y), 0.94, 0.86, facecolor=colour, edgecolor="none"))
            axis.text(x + 0.47, y + 0.45, str(address >> bit & 1), ha="center", va="center", fontsize=9, color=style.INK)
        axis.text(12.2, y + 0.45, f"{name}: {address:#06x}", ha="left", va="center", fontsize=9, color=style.INK)
    axis.set(xlim=(0, 16.5), ylim=(2, 0), xlabel="address bit: the yellow bits (which line) are XORed onto the orange ones (which piece)" if mask
             else "address bit: without a swizzle nothing is exchanged")
    axis.set_xticks([11 - bit + 0.47 for bit in range(12)], [str(bit) for bit in range(12)])
    axis.set_yticks([])
    for side in ("left", "bottom"):
        axis.spines[side].set_visible(False)
    axis.set_ylabel("address", rotation=0, labelpad=22)


def _words(mode: str, row_bytes: int, rows: int, base: int, path: Path, heading: str | None) -> str:
    lines = [heading or f"Swizzle {mode}: row {path.row}, byte {path.byte} of the row",
             f"  rows of {row_bytes} bytes lie {path.pitch} bytes apart; the tile starts at {base:#x}",
             f"  without a swizzle at {path.plain:#x}; XOR {path.plain ^ path.landed:#x}; landed at {path.landed:#x}, bank {path.bank}"]
    column = [follow_path(mode, row_bytes, r, path.piece * PIECE, base) for r in range(rows)]
    lines.append(f"  piece {path.piece} of rows 0 to {rows - 1} starts in the banks " + ", ".join(str(p.bank) for p in column))
    return "\n".join(lines)
