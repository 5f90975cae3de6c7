# SPDX-License-Identifier: Apache-2.0
"""The glossary as data, and the links to it: docs/glossary.md is read into terms, and the first mention of each term in a lesson
becomes a link when the notebook is built. Authors need do nothing; a word of everyday English (COMMON) is linked where it is emphasised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from .. import hashes

PAGE = "../docs/glossary.md"
FILE = hashes.ROOT / "docs" / "glossary.md"
ENTRY = re.compile(r"^### (?P<term>.+)\n(?P<chinese>.+) · lesson (?P<lesson>\d\d[a-z]?)\n\n(?P<text>(?:(?!^#).+\n?|\n(?!#))+)", re.MULTILINE)
COMMON = {"arrive", "bank", "barrier", "box", "consumer", "fence", "landing", "padding", "parity", "phase", "pipeline", "prefetch", "producer",
          "proxy", "recording", "ring", "schedule", "scope", "sector", "stage", "tile"}
MARKED = r"(?<![\w*`\[])(?P<mark>\*\*|\*|`)(?P<words>[^*`\n]+)(?P=mark)(?![\w*`\]])"
UNTOUCHED = re.compile(r"<details.*?</details>|<[^>]+>|!?\[[^\]]*\]\([^)]*\)|\$[^$\n]+\$|^#{1,6} .*?$|^```.*?^```|^    .*?$|^\|.*?$|^>.*?$"
                       r"|^\*\*Read on\.\*\*.*?(?=^$|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Term:
    """One entry: English name, Chinese name, lesson ('05'), and the definition in Markdown."""

    name: str
    chinese: str
    lesson: str
    text: str

    @property
    def anchor(self) -> str:
        """The heading's anchor as GitHub makes it."""
        return re.sub(r"[^\w\- ]", "", self.name.lower()).replace(" ", "-")


def terms(path: Path = FILE) -> list[Term]:
    """Every entry of the glossary in its order. Raises ValueError when a heading of an entry is not followed by what an entry needs."""
    page = path.read_text(encoding="utf-8")
    found = [Term(m["term"], m["chinese"], m["lesson"], m["text"].strip()) for m in ENTRY.finditer(page)]
    headings = re.findall(r"^### (.+)$", page, re.MULTILINE)
    if [term.name for term in found] != headings:
        wrong = next(name for name, term in zip(headings, [*(t.name for t in found), None], strict=False) if name != term)
        raise ValueError(f"{path.name}: the entry {wrong!r} lacks its line `中文 · lesson NN` or its definition")
    return found


@lru_cache(maxsize=1)
def names() -> Mapping[str, str]:
    """Anchor by name in lower case, with the plural beside it."""
    known = {}
    for term in terms():
        for name in (term.name.lower(), f"{term.name.lower()}s"):
            known[name] = term.anchor
    return known


def linked(texts: list[str], known: Mapping[str, str] | None = None, flags: int = 0) -> Iterator[str]:
    """The Markdown cells of one notebook with the first mention of each term linked.

    known: anchor by name in lower case (None: the English names); flags: further ones for the patterns, such as re.ASCII where words of other scripts touch names.
    Headings, tables, block quotes, what to read on (it names chapters of documents), fenced code, formulas, HTML and what is a link already stay as
    they are, and count as no mention.
    """
    known = names() if known is None else known
    plain = sorted((name for name in known if name.removesuffix("s") not in COMMON), key=len, reverse=True)
    mention = re.compile(MARKED + r"|(?<![\w.`-])(?P<plain>" + "|".join(map(re.escape, plain)) + r")(?![\w`-]|\.\w)", re.IGNORECASE | flags)
    seen = {anchor for text in texts for anchor in re.findall(r"glossary\.md#([\w-]+)", text)}
    for text in texts:
        pieces, at = [], 0
        for still in UNTOUCHED.finditer(text):
            pieces += [_link(text[at:still.start()], mention, known, seen), still[0]]
            at = still.end()
        yield "".join([*pieces, _link(text[at:], mention, known, seen)])


def _link(text: str, mention: re.Pattern, known: Mapping[str, str], seen: set[str]) -> str:
    def replace(match: re.Match) -> str:
        words = match["words"] or match["plain"]
        anchor = known.get(words.lower())
        macro = match["mark"] == "`" and words.isupper() and words.lower() in COMMON | {f"{name}s" for name in COMMON}     # STAGES is no stage
        if anchor is None or anchor in seen or macro:
            return match[0]
        seen.add(anchor)
        return f"[{match[0]}]({PAGE}#{anchor})"
    return mention.sub(replace, text)
