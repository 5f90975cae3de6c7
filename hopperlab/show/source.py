"""A kernel shown whole, with line numbers and highlighted syntax; the numbers are those that hazard reports name.

Colours stand on an opaque card, like the figures, so that the listing reads in light and dark themes.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from . import style


@dataclass(frozen=True)
class Listing:
    """Source text with its name, the 1-based number of its first line, and the lines to mark."""

    name: str
    text: str
    first: int = 1
    marked: tuple[int, ...] = ()

    def numbered(self) -> str:
        """Plain text: each line with its number, `>` before the marked ones."""
        rows = self.text.splitlines()
        return "\n".join(f"{'>' if n in self.marked else ' '}{n:4d}  {row}" for n, row in enumerate(rows, self.first))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict:
        return {"text/html": _to_html(self), "text/plain": f"{self.name}\n{self.numbered()}"}

    def __repr__(self) -> str:
        return f"{self.name}\n{self.numbered()}"


def source(path: str, kernel: str | None = None, lines: tuple[int, int] | None = None, mark: Collection[int] = ()) -> Listing:
    """The kernel file `path` (below `hopperlab/kernels`): whole, one kernel of it with its comment, or `lines` (1-based, inclusive)."""
    import hopperlab

    text = hopperlab.kernel_source(path)
    return listing(text, path, span_of(text, kernel) if kernel else lines, mark)


def span_of(text: str, kernel: str) -> tuple[int, int]:
    """First and last line (1-based) of the `extern "C"` kernel of this name, with the comment above it. Raises ValueError without one."""
    rows = text.split("\n")
    named = [i for i, row in enumerate(rows) if re.search(rf"\b{re.escape(kernel)}\s*\(", row)]
    starts = [max((j for j in range(i + 1) if rows[j].startswith('extern "C"')), default=None) for i in named]
    found = [(i, j) for i, j in zip(named, starts) if j is not None and i - j <= 2]
    if not found:
        raise ValueError(f"there is no extern \"C\" kernel {kernel!r} in this source")
    first = found[0][1]
    while first > 0 and rows[first - 1].startswith(("//", "template")):
        first -= 1
    last = next(i for i in range(found[0][0], len(rows)) if rows[i].startswith("}"))
    return first + 1, last + 1


def listing(text: str, name: str = "kernel", lines: tuple[int, int] | None = None, mark: Collection[int] = ()) -> Listing:
    """Any CUDA or PTX text as a listing. Raises ValueError when `lines` lies outside the text."""
    rows = text.rstrip("\n").split("\n")
    first, last = lines or (1, len(rows))
    if not 1 <= first <= last <= len(rows):
        raise ValueError(f"{name} has lines 1 to {len(rows)}; {first} to {last} is not a part of it")
    return Listing(name, "\n".join(rows[first - 1:last]), first, tuple(sorted(mark)))


def _to_html(shown: Listing) -> str:
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers.c_cpp import CppLexer

    formatter = HtmlFormatter(noclasses=True, nowrap=True, style="xcode")
    rows = highlight(shown.text, CppLexer(stripnl=False, ensurenl=False), formatter).rstrip("\n").split("\n")
    body = []
    for number, row in enumerate(rows, shown.first):
        back = f" background-color: {style.YELLOW};" if number in shown.marked else ""
        body.append(f'<span style="color: #6E6E68;{back}">{number:4d}  </span>{row}')
    frame = f"background-color: {style.CARD}; color: {style.INK}; padding: 8px; font-size: 12px; line-height: 1.35; overflow-x: auto;"
    return f'<div><strong>{html.escape(shown.name)}</strong><pre style="{frame}">' + "\n".join(body) + "</pre></div>"
