# SPDX-License-Identifier: Apache-2.0
"""What is said of a wrong value of exercise 06.1: the address of which element, in hexadecimal, and which part of the formula is missing."""
from __future__ import annotations

from ...checking.value_words import Told, Wrong, hexadecimal
from ..l02_banks_and_swizzles.exercise_words import address_cause


def addresses(wrong: Wrong) -> Told:
    """06.1: addresses(base, elements)."""
    if not wrong.path:
        return Told()
    (base, elements), (index,) = wrong.arguments, wrong.path
    span, size = wrong.setting["SPAN"], wrong.setting["ELEMENT_BYTES"]
    row, column = elements[index]
    cause = address_cause(wrong.value, base, span * row + size * column, span)
    if not cause and size > 1 and address_cause(wrong.value, base, span * row + column, span):
        cause = f"the column counts elements, of {size} bytes each"
    if not cause and isinstance(wrong.value, int) and wrong.value // 16 == wrong.expected // 16:
        cause = "these are the right 16 bytes, and another place in them: the low four bits of an address stay as they are"
    return Told(f"the address of row {row}, column {column}", hexadecimal, cause)


WORDS = {"06.1": addresses}
