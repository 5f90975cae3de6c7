# SPDX-License-Identifier: Apache-2.0
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
    found = [(i, j) for i, j in zip(named, starts) if j is not None and i - j <= 5]
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


# Colour by kind of token, from the inside of the tree of token types; the rest is ink. All are 4.5:1 or better on the card.
COLOURS = {"Token.Comment.Preproc": "#7A3E00", "Token.Comment": "#3B7A1E", "Token.Keyword": "#8A1C7C", "Token.Literal.String": "#A31515",
           "Token.Literal.Number": "#0050A0"}


def _to_html(shown: Listing) -> str:
    """Numbers in a column of their own: what is copied is the code, and neither column needs a span a line."""
    rows = shown.text.count("\n") + 1
    numbers = [f'<span style="background-color: {style.YELLOW}">{number:4d}</span>' if number in shown.marked else f"{number:4d}"
               for number in range(shown.first, shown.first + rows)]
    text = "margin: 0; background: none; font-family: monospace; font-size: 12px; line-height: 1.35; white-space: pre;"
    cell = f"text-align: left; vertical-align: top; background-color: {style.CARD}; padding: 8px"
    return (f'<div><strong>{html.escape(shown.name)}</strong><table style="table-layout: fixed; width: 100%; border-collapse: collapse"><tr><td '
            f'style="{cell}; width: 32px"><pre style="{text} color: #6E6E68; padding: 0">' + "\n".join(numbers) + f'</pre></td><td style="{cell} 8px 8px 0">'
            f'<pre style="{text} color: {style.INK}; padding: 0; overflow-x: auto">' + _coloured(shown.text) + "</pre></td></tr></table></div>")


def _coloured(text: str) -> str:
    """The text as HTML, one span a run of tokens of one colour and line: a fifth of what a general formatter writes."""
    from pygments.lexers.c_cpp import CppLexer

    out: list[str] = []
    run, colour = "", None
    for kind, piece in CppLexer(stripnl=False, ensurenl=False).get_tokens(text):
        wanted = next((value for name, value in COLOURS.items() if str(kind).startswith(name)), None)
        if wanted != colour and piece.strip():
            out.append(_span(run, colour))
            run, colour = "", wanted
        run += piece
    return "".join([*out, _span(run, colour)])


def _span(run: str, colour: str | None) -> str:
    text = html.escape(run, quote=False)
    return text if colour is None or not run.strip() else f'<span style="color: {colour}">{text}</span>'
