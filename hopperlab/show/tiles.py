"""Pictures of shared memory: where a swizzle puts each 16-byte granule, which banks an access touches, what a stage holds.

The formulas are `hopper.swizzle`'s; this file only draws them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.patches import Rectangle

from ..hopper import swizzle
from . import style

BANKS, BANK_BYTES, GRANULE = 32, 4, 16


def swizzled_tile(rows: int = 8, row_bytes: int = 128, mode: str = "128B", base: int = 0) -> style.Picture:
    """Shared memory as rows of 128 bytes (one trip over the 32 banks), each 16-byte granule labelled `row.granule` of the tile that TMA stored there.

    rows, row_bytes: the tile as it lies in global memory; base: its first shared-memory byte address (a multiple of 128).
    A tile narrower than the swizzle span has one row per span (measured on an H200, see the emulator's notes).
    """
    pitch = max(row_bytes, swizzle.span_bytes(mode)) if mode != "none" else row_bytes
    granules = row_bytes // GRANULE
    figure, (axis,) = style.new_figure(0.9 + 0.36 * max(4, -(-rows * pitch // 128)))
    for row in range(rows):
        for granule in range(granules):
            address = int(swizzle.apply(base + row * pitch + granule * GRANULE, mode)) - base
            _granule(axis, address, f"{row}.{granule}", style.PALETTE[granule % 8])
    lines = -(-rows * pitch // 128)
    axis.set(xlim=(0, 8), ylim=(lines, 0), xlabel="shared-memory banks (4 bytes each)", ylabel="address (bytes)")
    axis.set_xticks([i + 0.5 for i in range(8)], [f"{4 * i}–{4 * i + 3}" for i in range(8)])
    step = 1 if lines <= 16 else 4
    axis.set_yticks([i + 0.5 for i in range(0, lines, step)], [f"+{128 * i}" for i in range(0, lines, step)])
    style.title(axis, f"{rows} rows of {row_bytes} bytes, swizzle {mode}: label = row.granule")
    return style.Picture(figure, tile_table(rows, row_bytes, mode, base))


def _granule(axis, address: int, label: str, colour: str) -> None:
    x, y = address % 128 / GRANULE, address // 128
    axis.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, edgecolor=style.CARD, linewidth=1.5))
    axis.text(x + 0.5, y + 0.5, label, ha="center", va="center", fontsize=9, color=style.ink_on(colour))


def tile_table(rows: int = 8, row_bytes: int = 128, mode: str = "128B", base: int = 0) -> str:
    """The tile as text: line r, column g holds the byte offset (from the tile's start) of granule g of row r."""
    pitch = max(row_bytes, swizzle.span_bytes(mode)) if mode != "none" else row_bytes
    lines = [f"swizzle {mode}: byte offset of each 16-byte granule"]
    for row in range(rows):
        addresses = swizzle.apply(base + row * pitch + np.arange(0, row_bytes, GRANULE), mode) - base
        lines.append(f"row {row:2d}: " + " ".join(f"{int(a):5d}" for a in addresses))
    return "\n".join(lines)


def wavefronts(addresses: Sequence[int] | np.ndarray, bytes_per_lane: int = 4) -> int:
    """Passes that shared memory needs for one warp's access: lanes go in groups of 128 bytes, and a bank serves one 4-byte word a pass.

    addresses: one byte address per active lane. Lanes that read the same word share it (CUDA Programming Guide, shared memory).
    """
    lanes = np.asarray(addresses, dtype=np.int64)
    group = max(1, 128 // bytes_per_lane)
    return sum(_passes(lanes[i:i + group], bytes_per_lane) for i in range(0, len(lanes), group))


def _passes(lanes: np.ndarray, bytes_per_lane: int) -> int:
    words = np.unique((lanes[:, None] // BANK_BYTES + np.arange(max(1, bytes_per_lane // BANK_BYTES))).ravel())
    return int(np.bincount(words % BANKS, minlength=BANKS).max())


def bank_map(addresses: Sequence[int] | np.ndarray, bytes_per_lane: int = 4, heading: str = "Banks touched by one warp") -> style.Picture:
    """A bar for each of the 32 banks: how many different 4-byte words one warp asks of it in its worst 128-byte group.

    addresses: shared-memory byte address per lane. The access takes as many passes as the tallest bar of each group.
    """
    lanes = np.asarray(addresses, dtype=np.int64)
    group = max(1, 128 // bytes_per_lane)
    counts = np.zeros(BANKS, dtype=int)
    for first in range(0, len(lanes), group):
        part = lanes[first:first + group]
        words = np.unique((part[:, None] // BANK_BYTES + np.arange(max(1, bytes_per_lane // BANK_BYTES))).ravel())
        counts = np.maximum(counts, np.bincount(words % BANKS, minlength=BANKS))
    passes, ideal = wavefronts(lanes, bytes_per_lane), max(1, len(lanes) * bytes_per_lane // 128)
    figure, (axis,) = style.new_figure(2.4)
    axis.bar(range(BANKS), counts, color=[style.BLUE if c <= 1 else style.VERMILION for c in counts], width=0.8)
    axis.set(xlabel="shared-memory bank (4 bytes wide)", ylabel="words asked for", xlim=(-0.6, 31.6), ylim=(0, max(2, counts.max() + 0.5)))
    axis.set_xticks(range(0, BANKS, 4))
    axis.set_yticks(range(0, counts.max() + 2, max(1, int(counts.max()) // 4)))
    style.title(axis, f"{heading}: {passes} passes, {ideal} would do")
    words = f"{heading}: {passes} passes over shared memory, {ideal} would do\n  words per bank: " + " ".join(map(str, counts))
    return style.Picture(figure, words)
