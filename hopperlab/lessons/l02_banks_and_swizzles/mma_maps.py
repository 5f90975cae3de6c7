# SPDX-License-Identifier: Apache-2.0
"""Lesson 02: which lane of a warp holds which element of an mma.sync operand, drawn from `hopper.fragments`."""

from __future__ import annotations

from matplotlib.patches import Rectangle

from ...hopper import fragments
from ...show import style

OPERANDS = {"A": ("row of A (m)", "column of A (k)"), "B": ("row of B (k)", "column of B (n)"), "C": ("row of C (m)", "column of C (n)")}


def mma_map(operand: str = "A", lane: int = 5) -> style.Picture:
    """The operand of mma.m16n8k16 (bf16) as a grid: each 32-bit register labelled with the lane that holds it, coloured by its number; `lane` framed.

    operand: A (16 x 16), B (16 x 8) or C (16 x 8, fp32). Raises ValueError for another operand or lane.
    """
    if operand not in OPERANDS or not 0 <= lane < fragments.WARP:
        raise ValueError(f"operand {operand!r}, lane {lane}: choose A, B or C, and a lane from 0 to 31")
    held = getattr(fragments.mma("m16n8k16", "bf16"), operand.lower())
    packed = 1 if operand == "C" else 2                     # elements a 32-bit register
    rows, columns = int(held.row.max()) + 1, int(held.col.max()) + 1
    figure, (axis,) = style.new_figure(4.6 if columns == 16 else 4.2, width=style.WIDTH if columns == 16 else 5.4)
    registers = held.row.shape[1] // packed
    for mine in range(fragments.WARP):
        for element in range(0, held.row.shape[1], packed):
            last = element + packed - 1
            across, down = (int(held.col[mine, last] - held.col[mine, element]) + 1, int(held.row[mine, last] - held.row[mine, element]) + 1)
            _cell(axis, (int(held.col[mine, element]), int(held.row[mine, element]), across, down), mine, style.PALETTE[element // packed], mine == lane)
    for register in range(registers):
        axis.plot([], [], "s", color=style.PALETTE[register], label=f"register {register}")
    axis.legend(fontsize=9, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axis.set(xlim=(0, columns), ylim=(rows, 0), ylabel=OPERANDS[operand][0], xlabel=OPERANDS[operand][1] + "; the number is the lane")
    axis.set_xticks([i + 0.5 for i in range(columns)], [str(i) for i in range(columns)])
    axis.set_yticks([i + 0.5 for i in range(rows)], [str(i) for i in range(rows)])
    style.title(axis, f"{operand} of mma.m16n8k16: lane {lane} framed")
    return style.Picture(figure, mma_words(operand, lane))


def _cell(axis, box: tuple[int, int, int, int], lane: int, colour: str, framed: bool) -> None:
    """One register of one lane: `box` is its left column, top row, and how many elements it spans across and down."""
    x, y, across, down = box
    axis.add_patch(Rectangle((x + 0.04, y + 0.04), across - 0.08, down - 0.08, facecolor=colour, edgecolor=style.INK if framed else style.CARD,
                             linewidth=3 if framed else 0.8, zorder=3 if framed else 1))
    axis.text(x + across / 2, y + down / 2, str(lane), ha="center", va="center", fontsize=9, fontweight="bold" if framed else "normal",
              color=style.ink_on(colour), zorder=4)


def mma_words(operand: str, lane: int) -> str:
    """What one lane holds of the operand, register by register, as (row, column), the low half of a register first."""
    held = getattr(fragments.mma("m16n8k16", "bf16"), operand.lower())
    places = [f"({row}, {col})" for row, col in zip(held.row[lane].tolist(), held.col[lane].tolist())]
    packed = 1 if operand == "C" else 2
    rows = [f"  register {i // packed}: " + " ".join(places[i : i + packed]) for i in range(0, len(places), packed)]
    return "\n".join([f"lane {lane} of {operand}, mma.m16n8k16:", *rows])
