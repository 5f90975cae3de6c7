# SPDX-License-Identifier: Apache-2.0
"""Lesson 02: which words of which banks one warp access touches, and how many wavefronts that takes; a panel over shapes.

The counts are `hopper.banks`', which the emulator's counters use too; the panel launches banks/access.cu and says what was counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ...hopper import banks, fragments, swizzle
from ...show import style

ACCESS_SHAPES = {"4 bytes per lane": 4, "8 bytes per lane": 8, "16 bytes per lane": 16, "ldmatrix.x4": 0}
"""Access shape -> WIDTH of banks/access.cu. ldmatrix.x4 takes 32 rows of 16 bytes, eight at a time."""
GROUP_COLOURS = (style.SKY, style.ORANGE, style.GREEN, style.PURPLE)


def row_addresses(stride: int, mode: str = "none") -> np.ndarray:
    """Shared byte address (from the tile's start, on a multiple of 1024) that each of 32 lanes names: the start of its row, swizzled."""
    return swizzle.apply(stride * np.arange(banks.WARP, dtype=np.int64), mode)


def refuse(stride: int, shape: str, mode: str) -> None:
    """Raise ValueError for a choice that the hardware or the swizzle does not have."""
    wide = ACCESS_SHAPES[shape] or 16
    if stride % wide:
        raise ValueError(f"{shape}: each lane's address must be a multiple of {wide}, and rows {stride} bytes apart start at {stride}. "
                         f"Padding for this access is a multiple of {wide}")
    if mode != "none" and stride % swizzle.ATOM_BYTES:
        raise ValueError(f"swizzle {mode} moves pieces of 16 bytes, and rows {stride} bytes apart do not start on one: pad or swizzle, not both")


def access_wavefronts(stride: int, shape: str, mode: str = "none") -> int:
    """Wavefronts of the access: 32 lanes read the starts of rows `stride` bytes apart. Raises as `refuse` does."""
    refuse(stride, shape, mode)
    at = row_addresses(stride, mode)
    return banks.matrix_wavefronts(at, 4) if shape == "ldmatrix.x4" else banks.wavefronts(at, ACCESS_SHAPES[shape])


def least(shape: str) -> int:
    """Wavefronts that the access takes without conflicts: 128 bytes each."""
    return banks.WARP * (ACCESS_SHAPES[shape] or 16) // 128


def access_map(stride: int, shape: str = "4 bytes per lane", mode: str = "none", note: str = "") -> style.Picture:
    """Shared memory as lines of 128 bytes over 32 banks, each word that a lane reads marked with the lane; below, words asked of each bank.

    stride: bytes from row to row; shape: a key of ACCESS_SHAPES; mode: swizzle of the tile; note: a second line of the title. Lanes of one colour are served together;
    words with a red frame share their bank with another of the same group. Raises as `refuse` does.
    """
    wavefronts = access_wavefronts(stride, shape, mode)
    at, wide = row_addresses(stride, mode), ACCESS_SHAPES[shape] or 16
    group = 128 // wide
    words = at[:, None] // banks.BANK_BYTES + np.arange(wide // banks.BANK_BYTES)
    asked = np.stack([np.bincount(np.unique(words[g : g + group]) % banks.BANKS, minlength=banks.BANKS) for g in range(0, banks.WARP, group)])
    lines = int(words.max()) // banks.BANKS + 1
    figure = Figure(figsize=(style.WIDTH, 2.2 + 0.145 * max(lines, 6)), dpi=style.DOTS, facecolor=style.CARD, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 1, height_ratios=(0.145 * max(lines, 6) + 0.3, 1.2))
    top, bottom = (figure.add_subplot(grid[i, 0]) for i in range(2))
    _draw_words(top, words, asked, group, lines)
    _draw_bars(bottom, asked.max(axis=0))
    named = "no swizzle" if mode == "none" else f"swizzle {mode}"
    heading = f"{shape}, rows {stride} bytes apart, {named}: {wavefronts} wavefronts, {least(shape)} would do" + (f"\n{note}" if note else "")
    style.title(top, heading)
    text = [heading, f"  {len(asked)} group{'s' * (len(asked) > 1)} of {group} lanes",
            "  words asked of each bank by the worst group: " + " ".join(map(str, asked.max(axis=0)))]
    return style.Picture(figure, "\n".join(text))


def _draw_words(axis: Any, words: np.ndarray, asked: np.ndarray, group: int, lines: int) -> None:
    style.dress(axis)
    axis.add_patch(Rectangle((0, 0), banks.BANKS, lines, facecolor=style.EMPTY, edgecolor="none"))
    for lane, mine in enumerate(words):
        for i, word in enumerate(mine):
            line, bank = divmod(int(word), banks.BANKS)
            crowded = asked[lane // group, bank] > 1
            axis.add_patch(Rectangle((bank + 0.05, line + 0.08), 0.9, 0.84, facecolor=GROUP_COLOURS[lane // group], linewidth=1.3,
                                     edgecolor=style.VERMILION if crowded else style.CARD))
            if i == 0:
                axis.text(bank + 0.5, line + 0.5, str(lane), ha="center", va="center", fontsize=7, color=style.INK)
    axis.set(xlim=(0, banks.BANKS), ylim=(lines, 0), ylabel="address (bytes)")
    step = max(1, lines // 8)
    axis.set_yticks([i + 0.5 for i in range(0, lines, step)], [f"{128 * i}" for i in range(0, lines, step)])
    axis.set_xticks([i + 0.5 for i in range(0, banks.BANKS, 4)], [str(i) for i in range(0, banks.BANKS, 4)])
    axis.set_xlabel("bank; the number in a word is the lane that reads it (its first word)", fontsize=9)


def _draw_bars(axis: Any, counts: np.ndarray) -> None:
    style.dress(axis)
    axis.bar(np.arange(banks.BANKS) + 0.5, counts, color=[style.BLUE if c <= 1 else style.VERMILION for c in counts], width=0.8)
    top = int(counts.max())
    axis.set(xlim=(0, banks.BANKS), ylim=(0, max(2, top) * 1.1), xlabel="shared-memory bank (4 bytes wide)", ylabel="words asked\n(worst group)")
    axis.set_xticks([i + 0.5 for i in range(0, banks.BANKS, 4)], [str(i) for i in range(0, banks.BANKS, 4)])
    axis.set_yticks(sorted({0, (top + 1) // 2, top}))


def run_access(stride: int, shape: str, mode: str = "none") -> tuple[Any, bool]:
    """Run banks/access.cu in the emulator. Returns (run, whether each lane got the words that belong to its row). Raises as `refuse` does."""
    import hopperlab as hl

    refuse(stride, shape, mode)
    width = ACCESS_SHAPES[shape]
    kernel = hl.load_kernel("banks/access.cu", "access", (f"-DWIDTH={width}", f"-DMASK={swizzle.ROW_BITS[mode]}"), backend="emulator")
    size = -(-(32 * stride + 16) // 1024) * 1024
    out = np.zeros((32, 4), np.uint32)
    with hl.emulate(hazards="collect") as run:
        kernel((1,), (32,), (out, np.int32(stride), np.int32(size)), shared_mem=size)
    return run, bool((out == _expected(stride, width)).all())


def _expected(stride: int, width: int) -> np.ndarray:
    lanes, words = np.arange(32)[:, None], np.arange(4)[None, :]
    if width:
        return np.where(words < width // 4, lanes * stride // 4 + words, 0)
    spread = fragments.ldmatrix()                           # a word is two neighbouring columns of a row
    return (8 * words + spread.row[:, :1]) * stride // 4 + spread.col[:, :1] // 2


def launch_access(stride: int, swizzle_mode: str, shape: str) -> style.Picture:
    """Lesson 02's panel: launch banks/access.cu, count, and draw the banks. Raises as `refuse` does, before anything is launched."""
    run, right = run_access(stride, shape, swizzle_mode)
    counted, clash = run.counters["shared_load_wavefronts"], run.counters["shared_load_conflicts"]
    return access_map(stride, shape, swizzle_mode, f"launched: values {'right' if right else 'WRONG'}; counted: {counted} wavefronts, {clash} conflicts")
