# SPDX-License-Identifier: Apache-2.0
"""Lesson 08's two maps: a wgmma matrix descriptor field by field with the bytes it reads, and which thread holds which element of D.

The formulas are `hopper.wgmma`'s and `hopper.fragments`'; this file draws them and checks the exercise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ...hopper import fragments, swizzle, wgmma
from ...show import style
from ..given import told, wholes

FIELDS = (("swizzle", 62, 63), ("base offset", 49, 51), ("stride offset (SBO)", 32, 45), ("leading offset (LBO)", 16, 29), ("start address", 0, 13))
"""Name, lowest and highest bit, from the left (PTX ISA 9.7.15.5.1.2.2)."""

COLOURS = {"swizzle": style.ORANGE, "base offset": style.PURPLE, "stride offset (SBO)": style.GREEN, "leading offset (LBO)": style.YELLOW, "start address": style.SKY}
STEP_BYTES = 32             # one wgmma takes 32 bytes of every row
QUESTION = {"start": 0x5000, "row_bytes": 64, "swizzle": "64B", "step": 1}
"""The exercise: a K-major bf16 tile of 64-byte rows under 64B at 0x5000, and its second k-step."""


def decode_words(descriptor: int) -> str:
    """The descriptor field by field: bits, the number in them, and what it means in bytes."""
    d = wgmma.decode(descriptor)
    meaning = {"start address": f"{d.start:#x} ({d.start} bytes)", "leading offset (LBO)": f"{d.leading_bytes} bytes", "stride offset (SBO)": f"{d.stride_bytes} bytes",
               "base offset": str(d.base_offset), "swizzle": d.swizzle}
    lines = [f"descriptor {descriptor:#018x}"]
    for name, low, high in reversed(FIELDS):
        value = descriptor >> low & (1 << high - low + 1) - 1
        lines.append(f"  bits {low:2d} to {high:2d}  {name:21s} {value:6d} = {meaning[name]}")
    return "\n".join(lines)


def descriptor_map(descriptor: int, rows: int = 16, major: str = "K", heading: str | None = None) -> style.Picture:
    """The 64 bits with their fields, and the shared memory below the descriptor: the pieces that one wgmma reads of `rows` rows of a bf16 operand.

    Each 16-byte piece is labelled `row.piece` as the instruction counts them. Raises DescriptorError for what wgmma cannot read.
    """
    d = wgmma.decode(descriptor)
    places = wgmma.operand_granules(d, rows, STEP_BYTES, major)
    base = d.start // 1024 * 1024
    lines = min(32, -(-(int(places.max()) + 16 - base) // 128))
    figure, (whole,) = style.new_figure(2.2 + 0.26 * lines)
    whole.remove()
    grid = figure.add_gridspec(2, 1, height_ratios=(0.95, 0.26 * lines + 0.3))
    top, below = figure.add_subplot(grid[0]), figure.add_subplot(grid[1])
    style.dress(top)
    style.dress(below)
    _draw_fields(top, descriptor)
    _draw_reads(below, places, base, lines)
    figure.suptitle(heading or f"What {descriptor:#018x} says, and what one wgmma reads of {rows} rows", fontsize=11, color=style.INK, fontweight="bold")
    table = [f"  row {row}: " + ", ".join(f"{int(a):#x}" for a in places[row]) for row in range(min(rows, 16))] if major == "K" else []
    return style.Picture(figure, "\n".join([heading or "A matrix descriptor", decode_words(descriptor), "16-byte pieces read, by row:", *table]))


def _draw_fields(axis: Axes, descriptor: int) -> None:
    axis.add_patch(Rectangle((0, 0), 64, 1, facecolor=style.EMPTY, edgecolor="none"))
    d = wgmma.decode(descriptor)
    values = {"swizzle": d.swizzle, "base offset": d.base_offset, "stride offset (SBO)": f"{d.stride_bytes} B", "leading offset (LBO)": f"{d.leading_bytes} B",
              "start address": f"{d.start:#x}"}
    for name, low, high in FIELDS:
        left, width = 63 - high, high - low + 1
        colour = COLOURS[name]
        axis.add_patch(Rectangle((left, 0), width, 1, facecolor=colour, edgecolor=style.CARD, linewidth=1.5))
        if width > 3:
            axis.text(left + width / 2, 0.5, f"{name}\n{values[name]}", ha="center", va="center", fontsize=8, color=style.ink_on(colour))
        else:
            axis.annotate(f"{name}: {values[name]}", (left + width / 2, 0), (left + width / 2, -0.25), ha="left" if low > 60 else "center", va="bottom",
                          fontsize=8, color=style.INK)
    axis.set(xlim=(0, 64), ylim=(1, -0.9), xlabel="bit of the descriptor (grey: no meaning, zero)")
    edges = sorted({edge for _, low, high in FIELDS for edge in (low, high)} - {62})       # 62 stands too close to 63
    axis.set_xticks([63.5 - bit for bit in edges], [str(bit) for bit in edges], fontsize=8)
    axis.set_yticks([])
    axis.set_ylabel("bits", rotation=0, labelpad=14)
    for side in ("left", "bottom"):
        axis.spines[side].set_visible(False)


def _draw_reads(axis: Axes, places: np.ndarray, base: int, lines: int) -> None:
    axis.add_patch(Rectangle((0, 0), 8, lines, facecolor=style.EMPTY, edgecolor="none"))
    for (row, piece), address in np.ndenumerate(places):
        x, y = (int(address) - base) % 128 / 16, (int(address) - base) // 128
        if y < lines:
            colour = (style.SKY, style.ORANGE)[piece % 2]
            axis.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, edgecolor=style.CARD, linewidth=1.2))
            axis.text(x + 0.5, y + 0.52, f"{row}.{piece}", ha="center", va="center", fontsize=8, color=style.INK)
    axis.set(xlim=(0, 8), ylim=(lines, 0), xlabel="shared-memory banks (grey: not read by this instruction)", ylabel="shared address (bytes)")
    axis.set_xticks([i + 0.5 for i in range(8)], [f"{4 * i}–{4 * i + 3}" for i in range(8)])
    step = 1 if lines <= 16 else 2
    axis.set_yticks([i + 0.5 for i in range(0, lines, step)], [f"{base + 128 * i:#x}" for i in range(0, lines, step)])


def fragment_owner(row: int, column: int, n: int = 64) -> tuple[int, int]:
    """(thread of the warpgroup, register) that holds element (row, column) of a 64 x n accumulator of 32-bit numbers. Raises ValueError outside."""
    where = fragments.wgmma_d(n)
    found = np.argwhere((where.row == row) & (where.col == column))
    if not len(found):
        raise ValueError(f"element ({row}, {column}) is not in a 64 x {n} accumulator")
    return int(found[0, 0]), int(found[0, 1])


def fragment_map(row: int = 21, column: int = 13, columns: int = 16, n: int = 64, value: float | None = None) -> style.Picture:
    """Sixteen rows of D (one warp's), each pair of columns labelled with its thread; the pairs of one thread are coloured.

    (row, column) is the element asked for (outlined); the `columns` around it are drawn, an even number. value: what the kernel
    left there. Raises ValueError for an element outside D.
    """
    thread, register = fragment_owner(row, column, n)
    where = fragments.wgmma_d(n)
    top, left = row // 16 * 16, column // columns * columns
    figure, (axis,) = style.new_figure(4.6)
    owners = np.zeros((64, n), dtype=int)
    owners[where.row, where.col] = np.arange(128)[:, None]
    for r in range(top, top + 16):
        for c in range(left, min(n, left + columns), 2):        # a thread holds two neighbouring columns
            mine = owners[r, c] == thread
            colour = style.PALETTE[(r // 16) % 4] if mine else style.EMPTY
            axis.add_patch(Rectangle((c, r), 2, 1, facecolor=colour, edgecolor=style.CARD, linewidth=1.2))
            at = c + 1 if (r, c) != (row, column // 2 * 2) else c + (0.5 if column % 2 else 1.5)    # beside the outline
            axis.text(at, r + 0.53, str(owners[r, c]), ha="center", va="center", fontsize=8, color=style.ink_on(colour), fontweight="bold" if mine else "normal")
    axis.add_patch(Rectangle((column, row), 1, 1, facecolor="none", edgecolor=style.VERMILION, linewidth=2.5, zorder=5))
    axis.set(xlim=(left, left + columns), ylim=(top + 16, top), xlabel="column of D (label: thread of the warpgroup that holds the pair)",
             ylabel=f"row of D (warp {row // 16} of 0 to 3)")
    axis.set_xticks([c + 0.5 for c in range(left, left + columns, 2)], [str(c) for c in range(left, left + columns, 2)])
    axis.set_yticks([r + 0.5 for r in range(top, top + 16, 2)], [str(r) for r in range(top, top + 16, 2)])
    found = "" if value is None else f" = {value:g}"
    style.title(axis, f"element ({row}, {column}){found}: thread {thread}, register d[{register}]; coloured: what this thread holds")
    return style.Picture(figure, owner_words(row, column, n) + ("" if value is None else f"\n  the kernel left {value:g} there"))


def launch_fragment(row: int, column: int) -> style.Picture:
    """Lesson 08's second panel: multiply a 64 x 64 tile with one_tile, and show which thread and register held the element, with its value."""
    from .one_tile import multiply_tile

    return fragment_map(row, column, value=float(multiply_tile(64).d[row, column]))


def owner_words(row: int, column: int, n: int = 64) -> str:
    """Which thread and register hold an element of D, and where that thread's first registers lie, in words."""
    thread, register = fragment_owner(row, column, n)
    where = fragments.wgmma_d(n)
    held = [f"d[{i}] ({where.row[thread, i]}, {where.col[thread, i]})" for i in range(8)]
    return (f"element ({row}, {column}) of D: warp {thread // 32}, lane {thread % 32} (thread {thread}), register d[{register}] of {n // 2}\n"
            f"  that thread's first registers: {', '.join(held[:4])},\n"
            f"  {', '.join(held[4:])}")


@told
def check_descriptor(answers: Mapping[str, Any]) -> str:
    """Lesson 08's exercise: start, stride offset and swizzle code of a K-major tile, and the start of its second k-step, as the fields hold them.

    Builds the descriptor from the answers and lets one_tile multiply with it in the emulator.
    """
    right = {"start": QUESTION["start"] >> 4, "stride": 8 * QUESTION["row_bytes"] >> 4, "swizzle": wgmma.SWIZZLE_CODE[QUESTION["swizzle"]],
             "second k-step": QUESTION["start"] + QUESTION["step"] * STEP_BYTES >> 4}
    answered, lines = wholes(answers, right), []
    for name, value in right.items():
        given = answered[name]
        hint = _code_hint(given) if name == "swizzle" and given is not None else " (the field counts 16 bytes)" if given == value << 4 else ""
        lines.append(f"{name}: not answered yet" if given is None else f"{name}: right" if given == value else f"{name}: {given:#x} is not it{hint}")
    stride, code = answered["stride"], answered["swizzle"]
    if stride is not None and code is not None:
        lines.append(_tried(stride, code))
    return "\n".join(lines)


def _code_hint(code: int) -> str:
    """What a wrong swizzle code stands for."""
    named = next((mode for mode, own in wgmma.SWIZZLE_CODE.items() if own == code), "")
    if not named:
        return " (the field has two bits: 0 to 3)"
    mode = "no swizzle" if code == 0 else f"the swizzle of {named[:-1]} bytes"
    return f" ({code} stands for {mode}, and this tile was written with that of {QUESTION['swizzle'][:-1]} bytes)"


def _tried(stride: int, code: int) -> str:
    """Multiply a tile of 64-byte rows with a descriptor of this stride and swizzle code."""
    import hopperlab as hl

    from .one_tile import multiply_tile

    if not (0 <= stride < 1 << 14 and 0 <= code < 4):
        return "The fields cannot hold these numbers: 14 bits for the stride, 2 for the swizzle."
    try:
        made = multiply_tile(32, 2, 0, QUESTION["row_bytes"], layout=1 << 16 | stride << 32 | code << 62)
    except hl.EmulatorError as error:                       # what the emulator says of an unusable descriptor is the answer
        return f"one_tile with this descriptor: {error}"
    kinds = sorted({hazard.kind for hazard in made.run.hazards})
    return f"one_tile with this descriptor: result {'right' if made.right else 'wrong'}" + (f", the emulator names: {', '.join(kinds)}" if kinds else "")


def step_table(row_bytes: int = 128, start: int = 0x2000) -> str:
    """The k-steps of one K-major block: start field, and where rows 0 and 1 begin in shared memory, swizzled by the span of the row."""
    mode = {32: "32B", 64: "64B", 128: "128B"}[row_bytes]
    lines = []
    for step in range(row_bytes // STEP_BYTES):
        at = start + STEP_BYTES * step
        rows = [int(swizzle.apply(at + r * row_bytes, mode)) for r in range(2)]
        lines.append(f"k-step {step}: start field {at >> 4:#x}; row 0 begins at {rows[0]:#x}, row 1 at {rows[1]:#x}")
    return "\n".join(lines)
