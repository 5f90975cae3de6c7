# SPDX-License-Identifier: Apache-2.0
"""Lesson 15x: whose bits stand where: a thread's 16 bytes of prepared weights, the bit patterns that make bf16 of them, and metadata of a sparse product."""
from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.patches import Rectangle

from ...measure.launches.operands import bf16_values
from ...runtime.tables import text_table
from ...show import style

COLOURS = (style.BLUE, style.ORANGE, style.GREEN, style.PURPLE)         # of registers 0 to 3


def bits_table(weights: tuple[int, ...] = (-8, -1, 0, 7), wide: tuple[int, ...] = (-128, -1, 0, 127)) -> str:
    """How a field becomes bf16: the pattern, the number that it is, what is taken away, the weight. By the same bits as dequantise.cuh."""
    def number(pattern: int) -> float:
        return float(bf16_values(np.array([pattern], np.uint16))[0])
    rows = []
    for q in weights:
        pattern = 0x4300 | q + 8
        rows.append((f"4 bits: {q}", f"{q + 8:04b}", f"{pattern:#06x}", f"{number(pattern):g}", f"{number(0x4308):g}", f"{number(pattern) - number(0x4308):g}"))
    for q in wide:
        size, away = 0x4300 | q & 0x7F, 0x4300 | q & 0x80
        rows.append((f"8 bits: {q}", f"{q & 0xFF:08b}", f"{size:#06x}", f"{number(size):g}", f"{number(away):g}", f"{number(size) - number(away):g}"))
    return "\n".join(text_table("{:>12} {:>9} {:>11} {:>7} {:>12} {:>7}", rows, ("weight", "field", "as bf16", "is", "taken away", "gives")))


def _fields(bits: int) -> list[tuple[int, int, str, int]]:
    """(first bit of the 32 or 64, register, element as 'row, column', word) of one k-step of a thread."""
    found = []
    for register in range(4):
        for odd in range(2):
            first = 4 * register + 16 * odd if bits == 4 else 8 * (register % 2) + 16 * odd
            row, column = ("g", "g + 8")[register % 2], 8 * (register // 2) + odd
            found.append((first, register, f"{row}, 2q{f' + {column}' if column else ''}", 0 if bits == 4 else register // 2))
    return sorted(found, key=lambda field: (field[3], field[0]))


def fields_axis(axis: Any, bits: int) -> list[str]:
    """Draw one k-step of a thread's prepared bits; returns them as lines."""
    words = [f"One k-step of a thread: {8 * bits} of its 128 bits"]
    for first, register, element, word in _fields(bits):
        colour = COLOURS[register]
        axis.add_patch(Rectangle((first, word), bits, 0.8, facecolor=colour, edgecolor="white", linewidth=1.5))
        text = f"{element}\nregister {register}\n{'low' if first < 16 else 'high'} half"
        axis.text(first + bits / 2, word + 0.4, text, ha="center", va="center", fontsize=7.5, color=style.ink_on(colour))
        words.append(f"  word {word}, bits {first} to {first + bits - 1}: row, column {element}: register {register}, {'low' if first < 16 else 'high'} half")
    rows = 1 if bits == 4 else 2
    axis.set(xlim=(0, 32), ylim=(rows, -0.1), xlabel="bit of a 32-bit word; a thread is (g, q): lane = 4 g + q", xticks=range(0, 33, 4))
    axis.set_yticks([row + 0.4 for row in range(rows)], [f"word {row}" for row in range(rows)])
    return words


def fields_picture(bits: int = 4) -> style.Picture:
    """Which bits of a thread's word belong to which element of the fragment, for 4 or 8 bits."""
    figure, (axis,) = style.new_figure(2.4 if bits == 4 else 3.2)
    words = fields_axis(axis, bits)
    style.title(axis, f"{bits} bits: the fields stand in the order in which the registers want them")
    return style.Picture(figure, "\n".join(words))


def metadata_axis(axis: Any) -> list[str]:
    """Draw whose word describes which 16 columns of a 64-column k-block, for one g; returns it as lines."""
    words = ["Metadata of 64 columns, rows g and g + 8"]
    for q in range(4):
        colour = (style.BLUE, style.ORANGE)[q // 2]
        for half, row in enumerate(("row g: bits 0 to 15", "row g + 8: bits 16 to 31")):
            axis.add_patch(Rectangle((16 * q, half), 16, 0.85, facecolor=colour, edgecolor="white", linewidth=1.5))
            axis.text(16 * q + 8, half + 0.42, f"lane 4 g + {q}\n{row.split(': ')[1]}", ha="center", va="center", fontsize=8, color=style.ink_on(colour))
        words.append(f"  columns {16 * q} to {16 * q + 15}: lane 4 g + {q}, k-step {q // 2}, selector {q // 2}")
    axis.set(xlim=(0, 64), ylim=(2, -0.1), xlabel="column of k in the k-block; blue: first k-step (selector 0), orange: second (selector 1)", xticks=range(0, 65, 16))
    axis.set_yticks([0.42, 1.42], ["row g", "row g + 8"])
    return words


def metadata_picture() -> style.Picture:
    """Whose word holds the metadata of which columns."""
    figure, (axis,) = style.new_figure(2.6)
    words = metadata_axis(axis)
    style.title(axis, "A word describes 16 columns of two rows")
    return style.Picture(figure, "\n".join(words))
