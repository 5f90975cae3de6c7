# SPDX-License-Identifier: Apache-2.0
"""Code and text of the site, line by line: what is too long for the column is wrapped under its own comment, and colours follow the theme.

A line is a block with two indents for what is wrapped: `--h`, under a trailing comment or the last column of a table, where there is room, and `--d`, behind the line's own
indent, on a phone (site_theme/static/site.css). Stored listings (show.source) have colours of their own; here they get classes, which the theme colours.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from ..show import listings

MOST_INDENT = 72        # characters; further right too little of the column would be left
SHORT = 40              # characters that a phone shows in one line

_LISTING = re.compile(r'<div><strong>(?P<name>[^<]*)</strong><table style="table-layout: fixed[^>]*><tr><td[^>]*><pre[^>]*>(?P<numbers>.*?)</pre></td>'
                      r'<td[^>]*><pre[^>]*>(?P<code>.*?)</pre></td></tr></table></div>', re.DOTALL)
_HIGHLIGHT = re.compile(r'(<div class="(?P<block>[^"]*)"><div class="highlight"><pre)>(?:<span></span>)?(?P<code>.*?)(?=</pre>)', re.DOTALL)
_GAP = re.compile(r'(?<=\S )( +)(?=<span class="(?:c|c1|cm|hl-comment)">)|(?<=<span class="w"> )( +)(?=</span><span class="(?:c|c1|cm)">)')
_CELL = re.compile(r"<td>.*?</td>", re.DOTALL)
_BREAK = re.compile(r"(?<=[a-z0-9*][._])(?=[a-z0-9*])|(?<=::)")
_NAME = re.compile(r'(?<=<span class="pre">)[^<]+')
_COMMENT = re.compile(r'<span class="(?:c|c1|cm|hl-comment)">')
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
        rows.append(f'<span class="ln{marked}" data-n="{_plain(number).strip()}"{_indents(line)}>{_with_gap(line)}\n</span>')
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


def by_lines(body: str) -> str:
    """The HTML of a page with every block of code or text as one block a line, and places to break long names in tables."""
    body = _CELL.sub(lambda cell: _NAME.sub(lambda name: _BREAK.sub("<wbr>", name[0]), cell[0]), body)
    return _HIGHLIGHT.sub(_lines, body)


def _lines(found: re.Match[str]) -> str:
    lines = found["code"].removesuffix("\n").split("\n")
    text = "myst-ansi" in found["block"]
    table = text and sum(bool(re.search(r"\S {2,}\S", _plain(line))) for line in lines) > 2
    rows = (f'<span class="ln"{_indents(line, text)}>{line if text else _with_gap(line)}\n</span>' for line in lines)
    return f'{found[1]}{" class=table-in-text" if table else ""}>{"".join(rows)}'


def _indents(line: str, text: bool = False) -> str:
    """The attribute that says where the rest of a long line goes; nothing for a line that is never wrapped."""
    plain = _plain(line)
    if len(plain) <= SHORT:
        return ""
    own = len(plain) - len(plain.lstrip())
    comment = None if text else _COMMENT.search(line)
    before = len(_plain(line[:comment.start()])) if comment else 0
    behind = before + 3 if comment else own + 4
    if text:
        columns = [match.end() for match in re.finditer(r"\S {2,}(?=\S)", plain)]
        behind = columns[-1] if columns else own + 2
    return f' style="--h:{min(behind, MOST_INDENT)};--d:{min(own + 2, 12)}"'


def _with_gap(line: str) -> str:
    """The spaces before a trailing comment but the first in a span of their own, which a phone leaves out."""
    return _GAP.sub(lambda gap: f'<span class="gap">{gap[0]}</span>' if _plain(line[:gap.start()]).strip() else gap[0], line)


def _plain(line: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", line))
