# SPDX-License-Identifier: Apache-2.0
"""Pictures of shared memory: where a swizzle puts each 16-byte piece, how many passes an access takes.

The formulas are those of `hopper.swizzle` and `hopper.banks`; this file only draws them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.patches import Rectangle

from ..hopper import banks, swizzle
from . import style

PIECE = swizzle.ATOM_BYTES


def swizzled_tile(rows: int = 8, row_bytes: int = 128, mode: str = "128B", base: int = 0) -> style.Picture:
    """Shared memory as rows of 128 bytes (one trip over the 32 banks), each 16-byte piece labelled `row.piece` of the tile that TMA stored there.

    rows, row_bytes: the tile as it lies in global memory; base: its first shared-memory byte address (a multiple of 128).
    A tile narrower than the swizzle span has one row per span (measured on an H200, see the emulator's notes).
    """
    pitch = max(row_bytes, swizzle.span_bytes(mode)) if mode != "none" else row_bytes
    pieces = row_bytes // PIECE
    figure, (axis,) = style.new_figure(0.9 + 0.36 * max(4, -(-rows * pitch // 128)))
    for row in range(rows):
        for piece in range(pieces):
            address = int(swizzle.apply(base + row * pitch + piece * PIECE, mode)) - base
            _box(axis, address, f"{row}.{piece}", style.PALETTE[piece % 8])
    lines = -(-rows * pitch // 128)
    axis.set(xlim=(0, 8), ylim=(lines, 0), xlabel="shared-memory banks (4 bytes each)", ylabel="address (bytes)")
    axis.set_xticks([i + 0.5 for i in range(8)], [f"{4 * i}–{4 * i + 3}" for i in range(8)])
    step = 1 if lines <= 16 else 4
    axis.set_yticks([i + 0.5 for i in range(0, lines, step)], [f"+{128 * i}" for i in range(0, lines, step)])
    style.title(axis, f"{rows} rows of {row_bytes} bytes, swizzle {mode}: label = row.piece")
    return style.Picture(figure, tile_table(rows, row_bytes, mode, base))


def _box(axis, address: int, label: str, colour: str) -> None:
    x, y = address % 128 / PIECE, address // 128
    axis.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, edgecolor=style.CARD, linewidth=1.5))
    axis.text(x + 0.5, y + 0.5, label, ha="center", va="center", fontsize=9, color=style.ink_on(colour))


def tile_table(rows: int = 8, row_bytes: int = 128, mode: str = "128B", base: int = 0) -> str:
    """The tile as text: line r, column g holds the byte offset (from the tile's start) of piece g of row r."""
    pitch = max(row_bytes, swizzle.span_bytes(mode)) if mode != "none" else row_bytes
    lines = [f"swizzle {mode}: byte offset of each 16-byte piece"]
    for row in range(rows):
        addresses = swizzle.apply(base + row * pitch + np.arange(0, row_bytes, PIECE), mode) - base
        lines.append(f"row {row:2d}: " + " ".join(f"{int(a):5d}" for a in addresses))
    return "\n".join(lines)


def wavefronts(addresses: Sequence[int] | np.ndarray, bytes_per_lane: int = 4) -> int:
    """Passes that shared memory needs for one warp's access: lanes go in groups of 128 bytes, and a bank serves one 4-byte word a pass.

    addresses: one byte address per active lane. Lanes that read the same word share it (CUDA Programming Guide, shared memory).
    """
    lanes = np.asarray(addresses, dtype=np.int64)
    group = max(1, 128 // bytes_per_lane)
    words = lanes[:, None] // banks.BANK_BYTES + np.arange(max(1, bytes_per_lane // banks.BANK_BYTES))
    return sum(banks.passes(words[i:i + group].ravel()) for i in range(0, len(lanes), group))
