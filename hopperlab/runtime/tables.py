# SPDX-License-Identifier: Apache-2.0
"""Tables as plain text: one form says where the columns stand, for the headings and for every row. What prints a table uses this.

(tabulate lays tables out in its own ways; compared outputs of lessons need a layout to the character.)
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from string import Formatter
from typing import Any, NamedTuple

NUMBERS = "bcdeEfFgGnoxX%"


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its word: '1 launch', '2 launches' (`many` is 'launches'; by default `one` with an s)."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def text_table(form: str, rows: Iterable[Sequence[Any]], head: Sequence[str] | None = None) -> list[str]:
    """Lines of a table, the one of headings first.

    form: a line as for str.format with a field a column, such as "{:24} {:>8.1f} {:9.0f} %  {}". `*` for a width is the column's widest cell. Columns of
    numbers (by their type: d, f …) are flush right. A cell that is text or None is only put in its place, so that a column of numbers may hold "–"; a heading
    takes the room of its column's unit (above, " %") as well. Lines end without blanks.
    """
    found = [list(row) for row in rows]
    columns = _columns(form, [*found, list(head or ())])
    lines = [_line(columns, row) for row in found]
    return lines if head is None else [_headings(columns, head), *lines]


class _Column(NamedTuple):
    """before: text in front of it. spec: of its numbers. align, width: of its place. unit, gap: what follows in each row, and blanks."""

    before: str
    spec: str
    align: str
    width: int
    unit: str
    gap: str


def _columns(form: str, rows: Sequence[Sequence[Any]]) -> list[_Column]:
    parts = list(Formatter().parse(form))
    after = [*(text for text, *_ in parts[1:]), ""] if parts[-1][1] is not None else [text for text, *_ in parts[1:]]
    columns = []
    for i, ((text, field, given, _), follows) in enumerate(zip(parts, after, strict=False)):
        if field is None:
            break
        spec = given or ""
        if "*" in spec:
            spec = spec.replace("*", str(max(len(_cell(row[i], spec.replace("*", ""))) for row in rows if i < len(row))))
        columns.append(_Column("" if i else text, spec, *_place(spec), follows.rstrip(), follows[len(follows.rstrip()):]))
    return columns


def _place(spec: str) -> tuple[str, int]:
    """Alignment and width of a format specification."""
    align = spec[:1] if spec[:1] in ("<", ">", "^") else ">" if spec[-1:] in NUMBERS and spec else "<"
    digits = spec.lstrip("<>^+- ").split(".")[0].rstrip("," + NUMBERS + "s")
    return align, int(digits or 0)


def _cell(value: Any, spec: str) -> str:
    if value is None or isinstance(value, str):
        align, width = _place(spec)
        return format(value or "", f"{align}{width or ''}")
    return format(value, spec)


def _line(columns: Sequence[_Column], row: Sequence[Any]) -> str:
    return "".join(c.before + _cell(value, c.spec) + c.unit + c.gap for c, value in zip(columns, row, strict=True)).rstrip()


def _headings(columns: Sequence[_Column], head: Sequence[str]) -> str:
    return "".join(" " * len(c.before) + format(text, f"{c.align}{(c.width + len(c.unit)) or ''}") + c.gap for c, text in zip(columns, head, strict=True)).rstrip()
