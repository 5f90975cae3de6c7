# SPDX-License-Identifier: Apache-2.0
"""Stored listings (show.source) on the site: their tables with colours of their own become numbered lines with classes, which the theme colours."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...show import listings
from . import wrapping

_LISTING = re.compile(r'<div><strong>(?P<name>[^<]*)</strong><table style="table-layout: fixed[^>]*><tr><td[^>]*><pre[^>]*>(?P<numbers>.*?)</pre></td>'
                      r'<td[^>]*><pre[^>]*>(?P<code>.*?)</pre></td></tr></table></div>', re.DOTALL)
_CLASSES = {colour: f"hl-{name.removeprefix('Token.').lower().replace('.', '-')}" for name, colour in listings.COLOURS.items()}
LIGHT = {f"code-{name}": colour for colour, name in _CLASSES.items()}
DARK = dict(zip(LIGHT, ("#F2B27A", "#93C47D", "#E39BDB", "#F29E9E", "#8FC7FF")))
"""The theme's colours of what a listing tells apart, by CSS variable: as on the pale card, and 4.5:1 or better on the dark page."""


def with_classes(stored: str) -> str:
    """The HTML of an output with every stored listing in it as numbered lines with classes."""
    return _LISTING.sub(lambda found: _listing(found["name"], found["numbers"], found["code"]), stored)


def _listing(name: str, numbers: str, code: str) -> str:
    rows = []
    for number, line in zip(numbers.split("\n"), _lines_of_colours(code)):
        marked = " marked" if "<span" in number else ""
        rows.append(f'<span class="ln{marked}" data-n="{wrapping.plain(number).strip()}"{wrapping.indents(line)}>{wrapping.with_gap(line)}\n</span>')
    return f'<div class="listing"><div class="listing-name">{name}</div><div class="highlight"><pre>{"".join(rows)}</pre></div></div>'


def _lines_of_colours(code: str) -> Iterator[str]:
    """The lines of a stored listing; a run of one colour that goes over several lines is closed and opened again at each."""
    line = ""
    for colour, inside, plain in re.findall(r'<span style="color: ([^"]+)">(.*?)</span>|([^<]+)', code, flags=re.DOTALL):
        pieces = (inside or plain).split("\n")
        for index, piece in enumerate(pieces):
            if index:
                yield line
                line = ""
            line += f'<span class="{_CLASSES[colour]}">{piece}</span>' if colour and piece else piece
    yield line
