# SPDX-License-Identifier: Apache-2.0
"""What is said of a wrong value of exercise 05.1: the bytes or an element of the box, and whether fill was forgotten or bytes were."""
from __future__ import annotations

from typing import Any

from ...checking.value_words import Told, Wrong


def _element(value: Any) -> str:
    return "None (filled)" if value is None else repr(value)


def landing(wrong: Wrong) -> Told:
    """05.1: landing(rows, columns, first_row, first_column)."""
    size, box_rows, box_columns = (wrong.setting[name] for name in ("ELEMENT_BYTES", "BOX_ROWS", "BOX_COLUMNS"))
    if wrong.path == (0,):
        return Told("the bytes that the barrier expects", cause=_bytes_cause(wrong, box_rows * box_columns, size))
    if len(wrong.path) < 3:
        return Told("the box" if wrong.path == (1,) else "")
    rows, columns, first_row, first_column = wrong.arguments
    row, column = first_row + wrong.path[1], first_column + wrong.path[2]
    inside = 0 <= row < rows and 0 <= column < columns
    cause = "" if inside else f"the matrix has {rows} rows of {columns}, so this one is filled"
    return Told(f"which is row {row}, column {column} of the matrix", _element, cause)


def _bytes_cause(wrong: Wrong, elements: int, size: int) -> str:
    rows, columns, first_row, first_column = wrong.arguments
    there = [max(0, min(first + count, extent) - max(first, 0)) for first, count, extent in
             ((first_row, wrong.setting["BOX_ROWS"], rows), (first_column, wrong.setting["BOX_COLUMNS"], columns))]
    causes = {elements: f"that counts elements, of {size} bytes each"}
    if there[0] * there[1] != elements:
        causes[there[0] * there[1] * size] = "that counts what exists only; what is filled counts too"
    return causes.get(wrong.value, "") if isinstance(wrong.value, int) else ""


WORDS = {"05.1": landing}
