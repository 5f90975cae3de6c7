# SPDX-License-Identifier: Apache-2.0
"""Code and text of the site, line by line: what is too long for the column is wrapped under its own comment.

A line is a block with two indents for what is wrapped: `--h`, under a trailing comment or the last column of a table, where there is room, and
`--d`, behind the line's own indent, on a phone (theme/static/site.css). Sphinx loads this module, so it imports none of ours.
"""

from __future__ import annotations

import html
import re

MOST_INDENT = 72        # characters; further right too little of the column would be left
SHORT = 40              # characters that a phone shows in one line
NUMBER = 14             # characters of a table's last column that are torn from their row if the row is wrapped: it is scrolled instead

_HIGHLIGHT = re.compile(r'(<div class="(?P<block>[^"]*)"><div class="highlight"><pre)>(?:<span></span>)?(?P<code>.*?)(?=</pre>)', re.DOTALL)
_GAP = re.compile(r'(?<=\S )( +)(?=<span class="(?:c|c1|cm|hl-comment)">)|(?<=<span class="w"> )( +)(?=</span><span class="(?:c|c1|cm)">)')
_CELL = re.compile(r"<td>.*?</td>", re.DOTALL)
_BREAK = re.compile(r"(?<=[a-z0-9*][._])(?=[a-z0-9*])|(?<=::)")
_NAME = re.compile(r'(?<=<span class="pre">)[^<]+')
_COMMENT = re.compile(r'<span class="(?:c|c1|cm|hl-comment)">')


def by_lines(body: str) -> str:
    """The HTML of a page with every block of code or text as one block a line, and places to break long names in tables."""
    body = _CELL.sub(lambda cell: _NAME.sub(lambda name: _BREAK.sub("<wbr>", name[0]), cell[0]), body)
    return _HIGHLIGHT.sub(_lines, body)


def _lines(found: re.Match[str]) -> str:
    lines = found["code"].removesuffix("\n").split("\n")
    text = "myst-ansi" in found["block"]
    last = [cells[-1] for line in lines if len(cells := re.split(r"(?<=\S) {2,}(?=\S)", plain(line).strip())) > 1] if text else []
    shown = (' class="table-in-text of-numbers"' if 2 * sum(len(cell) <= NUMBER for cell in last) > len(last) else " class=table-in-text") if len(last) > 2 else ""
    rows = (f'<span class="ln"{indents(line, text)}>{line if text else with_gap(line)}\n</span>' for line in lines)
    return f'{found[1]}{shown}>{"".join(rows)}'


def indents(line: str, text: bool = False) -> str:
    """The attribute that says where the rest of a long line goes; nothing for a line that is never wrapped."""
    words = plain(line)
    if len(words) <= SHORT:
        return ""
    own = len(words) - len(words.lstrip())
    comment = None if text else _COMMENT.search(line)
    before = len(plain(line[:comment.start()])) if comment else 0
    behind = before + 3 if comment else own + 4
    if text:
        columns = [match.end() for match in re.finditer(r"\S {2,}(?=\S)", words)]
        behind = columns[-1] if columns else own + 2
    return f' style="--h:{min(behind, MOST_INDENT)};--d:{min(own + 2, 12)}"'


def with_gap(line: str) -> str:
    """The spaces before a trailing comment but the first in a span of their own, which a phone leaves out."""
    return _GAP.sub(lambda gap: f'<span class="gap">{gap[0]}</span>' if plain(line[:gap.start()]).strip() else gap[0], line)


def plain(line: str) -> str:
    """The text of a piece of HTML."""
    return html.unescape(re.sub(r"<[^>]+>", "", line))
