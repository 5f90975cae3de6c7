# SPDX-License-Identifier: Apache-2.0
"""Cells of CSV files that any spreadsheet may open: nothing that it would run as a formula, whichever separator its locale takes.

A spreadsheet of another locale splits at ; or | or a tab, and knows no quotes in the middle of a line. So what would begin a formula behind
any of them gets an apostrophe; `unshielded` takes it away again.
"""
from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

FORMULA = "=+\\-@\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}"
SHIELD = re.compile(rf"(^|[;|^\t\r\n])([ \"'\u00a0]*)(?=[{FORMULA}])")
SHIELDED = re.compile(rf"(^|[;|^\t\r\n])'(?=[ \"'\u00a0]*[{FORMULA}])")
QUOTED = re.compile(r"[,;|^\t\r\n\"' ]")


def shielded(text: str) -> str:
    """The text with an apostrophe before whatever would begin a formula."""
    text = SHIELD.sub(r"\1'\2", text)
    return "'" + text if text[:1] in ("\t", "\r") else text


def unshielded(text: str) -> str:
    """What `shielded` was given."""
    if text[:2] in ("'\t", "'\r"):
        text = text[1:]
    return SHIELDED.sub(r"\1", text)


def cell(value: Any) -> Any:
    """What a cell may hold: points without needless zeros, nothing for None, and text that is no formula."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:g}" if abs(value) < 1e6 else value
    return shielded(value) if isinstance(value, str) else value


def table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A CSV file's text: commas, \\n, and quotes around every cell that holds a separator of any locale."""
    text = io.StringIO()
    for row in (headers, *rows):
        text.write(",".join(map(_quoted, map(cell, row))) + "\n")
    return text.getvalue()


def _quoted(value: Any) -> str:
    word = str(value)
    return '"' + word.replace('"', '""') + '"' if QUOTED.search(word) else word
