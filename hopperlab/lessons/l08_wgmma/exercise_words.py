# SPDX-License-Identifier: Apache-2.0
"""What is said of a wrong value of exercise 08.1: the field by its name, numbers in hexadecimal, the swizzle's code by what it means."""
from __future__ import annotations

from typing import Any

from ...checking.value_words import Told, Wrong, hexadecimal

FIELDS = ("the start address (field of bits 0 to 13)", "the stride offset SBO (field of bits 32 to 45)", "the swizzle code (bits 62 and 63)", "the whole descriptor")
CODES = {0: "none", 1: "128B", 2: "64B", 3: "32B"}                   # of a matrix descriptor [PTX ISA 9.7.15.5.1]
MAP_CODES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}               # of a tensor map
DESCRIPTOR = {"start address": (0, 14), "leading offset LBO": (16, 14), "stride offset SBO": (32, 14), "base offset": (49, 3), "swizzle code": (62, 2)}


def _code(value: Any) -> str:
    return f"{value} ({CODES[value]})" if isinstance(value, int) and value in CODES else repr(value)


def descriptor(wrong: Wrong) -> Told:
    """08.1: descriptor(address, rows, row, step) -> [start, stride, swizzle code, hex of all 64 bits]."""
    if not wrong.path:
        return Told()
    field, = wrong.path
    if field == 2:
        swapped = isinstance(wrong.value, int) and wrong.value == MAP_CODES.get(CODES[wrong.expected])
        return Told(FIELDS[2], _code, f"{wrong.value} is what a tensor map calls {CODES[wrong.expected]}; a descriptor's codes run the other way" if swapped else "")
    if field == 3:
        return Told(FIELDS[3], repr, _parts(wrong.value, int(wrong.expected, 16)))
    row = field == 1 and wrong.value == wrong.setting["ROW_BYTES"] // 16
    return Told(FIELDS[field], hexadecimal, "that leads to the next row; the field leads from one group of eight rows to the next" if row else "")


def _parts(value: Any, expected: int) -> str:
    """Which fields of a 64-bit descriptor differ."""
    try:
        word = int(value, 16)
    except (TypeError, ValueError):
        return "return hex(…) of one number of 64 bits"
    parts = []
    for name, (first, bits) in DESCRIPTOR.items():
        held, asked = (number >> first & (1 << bits) - 1 for number in (word, expected))
        if held != asked:
            parts.append(f"the {name} (from bit {first} on) holds {held:#x}, expected {asked:#x}")
    return "; ".join(parts)


WORDS = {"08.1": descriptor}
