# SPDX-License-Identifier: Apache-2.0
"""What is said of a wrong value of exercise 02.1: addresses in hexadecimal, and which part of the formula is missing."""
from __future__ import annotations

from ...checking.value_words import Told, Wrong, hexadecimal
from ...hopper import swizzle

PIECE = 16


def address_cause(value: object, start: int, offset: int, span: int) -> str:
    """Why a shared address may have come out wrong. start: of the tile; offset: of the element in it before any swizzle; span: of the swizzle."""
    mode = f"{span}B"
    causes = {start + offset: "that is where it would lie without a swizzle",
              int(swizzle.apply(start + offset, mode)) - start: "that is an offset in the tile; the address of the tile is missing",
              int(swizzle.apply(offset, mode)): "that is an offset in the tile; the address of the tile is missing",
              start + int(swizzle.apply(offset, mode)): "the XOR was taken of the offset in the tile; the hardware takes it of the whole address"}
    return causes.get(value, "") if isinstance(value, int) else ""


def column(wrong: Wrong) -> Told:
    """02.1: column(start, piece, rows)."""
    if not wrong.path:
        return Told()
    (start, piece, _), (row,), span = wrong.arguments, wrong.path, wrong.setting["SPAN"]
    return Told(f"the address of piece {piece} of row {row}", hexadecimal, address_cause(wrong.value, start, span * row + PIECE * piece, span))


WORDS = {"02.1": column}
