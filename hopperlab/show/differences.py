# SPDX-License-Identifier: Apache-2.0
"""Two kernels side by side: the lines that stayed, went and came, as a table, or as a unified diff where there is no HTML."""
from __future__ import annotations

import difflib
import html
import re
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from . import style

GONE, CAME = "#F6CFCB", "#CDEBD2"           # 7:1 and better under the listings' ink
COMMENT = re.compile(r"\s*//.*$")
Side = tuple[int, str] | None               # (number, text) of a line, or none opposite


@dataclass(frozen=True)
class Difference:
    """Of two texts: their names, and blocks of rows (line of the first, line of the second); `same` blocks are context."""

    names: tuple[str, str]
    blocks: tuple[tuple[bool, tuple[tuple[Side, Side], ...]], ...]
    unified: str

    @property
    def changed(self) -> int:
        """Lines of code that went or came; blank lines, comments and spaces at the end do not count."""
        return sum(max(sum(_is_code(row[side]) for row in rows) for side in (0, 1)) for same, rows in self.blocks if not same)

    def __str__(self) -> str:
        return self.unified or f"{self.names[0]} and {self.names[1]} are the same"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """A grid of four columns whose cells have no style but the colour of what changed: a hundred lines stay a few kilobytes."""
        grid = (f"display: grid; grid-template-columns: 2.5em minmax(0, 1fr) 2.5em minmax(0, 1fr); column-gap: 6px; padding: 6px; text-align: left; "
                f"font: 12px/1.35 monospace; white-space: pre-wrap; overflow-wrap: anywhere; color: {style.INK}; background: {style.CARD}")
        cells = "".join(f'<b></b><b>{html.escape(name)}</b>' for name in self.names)
        for number, (same, lines) in enumerate(self.blocks):
            if number and not _touch(self.blocks[number - 1][1][-1], lines[0]):
                cells += "<i>…</i><i></i><i></i><i></i>"
            cells += "".join(_cells(side, "" if same else colour) for row in lines for side, colour in zip(row, (GONE, CAME), strict=True))
        return f'<div style="{grid}">{cells}</div>'


def diff(first: Any, second: Any, context: int = 3) -> Difference:
    """What is different between two kernels: files below hopperlab/kernels/ ("gemm/multistage.cu"), modules or kernels (of %%cuda, load_kernel), or
    texts of several lines.

    context: unchanged lines shown around a change. Raises FileNotFoundError for a file that is not there, TypeError for what has no source.
    """
    (name, old), (other, new) = _named(first), _named(second)
    if name == other:
        name, other = f"{name} (first)", f"{other} (second)"
    was, now = old.splitlines(), new.splitlines()
    blocks: list[tuple[bool, tuple[tuple[Side, Side], ...]]] = []
    for group in difflib.SequenceMatcher(None, was, now, autojunk=False).get_grouped_opcodes(context):
        for kind, a, b, c, d in group:
            left, right = [(at + 1, was[at]) for at in range(a, b)], [(at + 1, now[at]) for at in range(c, d)]
            if left or right:
                blocks.append((kind == "equal", tuple(zip_longest(left, right))))
    return Difference((name, other), tuple(blocks), "\n".join(difflib.unified_diff(was, now, name, other, lineterm="", n=context)))


def _named(what: Any) -> tuple[str, str]:
    from ..runtime import library

    if isinstance(what, str):
        return ("text", what) if "\n" in what else (what, library.kernel_source(what))
    module = getattr(what, "module", what)
    if not isinstance(getattr(module, "source", None), str):
        raise TypeError(f"{type(what).__name__} has no source: give a file below hopperlab/kernels/, a module or kernel that was compiled from CUDA, or a text")
    return module.name, module.source


def _is_code(side: Side) -> bool:
    return side is not None and bool(COMMENT.sub("", side[1]).strip())


def _touch(above: tuple[Side, Side], below: tuple[Side, Side]) -> bool:
    """True when a row follows another on a side."""
    return any(a is not None and b is not None and a[0] + 1 == b[0] for a, b in zip(above, below, strict=True))


def _cells(side: Side, colour: str) -> str:
    if side is None:
        return "<i></i><i></i>"
    mark = f' style="background: {colour}"' if colour else ""
    return f"<i>{side[0]}</i><span{mark}>{html.escape(side[1], quote=False)}</span>"
