# SPDX-License-Identifier: Apache-2.0
"""Pages of docs/ in another language: docs/zh/NAME.md translates docs/NAME.md as a whole, and opens with

    <!-- of 1a2b3c4d -->

the hash of the English text (translation.digest), so that a page whose English changed is found to be stale. Tables that a program writes between marks are
not part of it: the translation has `<!-- NAME: table -->` and a pointer to the English page instead, and the edition puts the table there,
with the words of docs/zh/tables.toml (doc_tables).
Links lead where they do in the repository; in an edition the page takes the English one's place, and its links are moved with it.
"""
from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

from . import doc_tables
from .translation import differences, digest

HEAD = re.compile(r"\A<!-- of ([0-9a-f]{8}) -->\n+")
TABLE = re.compile(r"^<!-- (?P<name>\w+): begin \([^)\n]*\) -->\n(?P<rows>.*?)^<!-- (?P=name): end -->$", re.MULTILINE | re.DOTALL)
PLACE = re.compile(r"^<!-- (?P<name>\w+): table -->.*$", re.MULTILINE)
FENCED = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()(?![a-z]+:)([^)\s#]*)(?:#([^)\s]*))?(?=\))")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def pages(root: Path, to: str) -> list[str]:
    """The pages that are translated, as paths below docs/."""
    own = root / "docs" / to
    found = sorted(path.relative_to(own).as_posix() for path in own.rglob("*.md"))
    return [page for page in found if (root / "docs" / page).is_file()]


def told(english: str) -> str:
    """The text of an English page that is translated: all but the tables between marks."""
    return TABLE.sub("", english)


def anchors(text: str) -> list[str]:
    """The anchors of a page's headings in order, as GitHub and the site name them."""
    prose = "".join(FENCED.split(text)[::2])
    return [re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", words).strip().lower()).replace(" ", "-") for words in HEADING.findall(prose)]


def shown(root: Path, page: str, to: str) -> str:
    """A page of docs/zh as the edition has it, in the place of the English one where there is one: without its first line, links moved, tables in their words put in."""
    english, own = root / "docs" / page, _read(root / "docs" / to / page)
    known = doc_tables.words(root, to)
    rows = {found["name"]: doc_tables.said(found["rows"], known).rstrip() for found in TABLE.finditer(_read(english))} if english.is_file() else {}
    text = PLACE.sub(lambda place: rows[place["name"]] if place["name"] in rows else place[0], HEAD.sub("", own))
    return _relinked(text, lambda target: _moved(target, page, to))


def with_anchors(root: Path, page: str, to: str, text: str) -> str:
    """Text that links as an English page does, with the anchors that translated pages have for the English ones. page: where it stands, seen from docs/, such as
    `oracle.md` or `../notebooks/07_tma_stores.ipynb`."""
    def own(target: str, anchor: str) -> str:
        return _twins(root, _led_to(page, target), to).get(anchor, anchor) if target and anchor else anchor
    return _relinked(text, lambda link: _joined(link[0], own(*link)))


def faults(root: Path, page: str, to: str) -> Iterator[str]:
    """What is wrong with a translated page: stale, or a link, number, listing or heading of the English is missing."""
    english, own = told(_read(root / "docs" / page)), _read(root / "docs" / to / page)
    head, name = HEAD.match(own), f"docs/{to}/{page}"
    if head is None or head[1] != digest(english):
        why = f"docs/{page} has changed since it was translated: adapt the text" if head else "it does not say of which text it is a translation"
        yield f"{name}: {why}, and open with the line <!-- of {digest(english)} -->"
    tables = {found["name"] for found in TABLE.finditer(_read(root / "docs" / page))} ^ {found["name"] for found in PLACE.finditer(own)}
    yield from (f"{name}: the table {table!r} stands in one of the two pages only" for table in sorted(tables))
    text = _relinked(PLACE.sub("", HEAD.sub("", own)), lambda link: _as_in_english(root, page, to, link))
    yield from (f"{name}: {fault}" for fault in differences(english, text))
    if FENCED.findall(english) != FENCED.findall(text):
        yield f"{name}: a listing differs from the English one"
    if len(anchors(english)) != len(anchors(text)):
        yield f"{name}: {len(anchors(text))} headings, {len(anchors(english))} in English"


def _as_in_english(root: Path, page: str, to: str, link: tuple[str, str]) -> str:
    """A link of the translation as the English page has it."""
    target, _, anchor = _moved(link, page, to).partition("#")
    english = {ours: theirs for theirs, ours in _twins(root, _led_to(page, target), to).items()}
    return _joined(target, english.get(anchor, anchor))


def _twins(root: Path, page: str, to: str) -> dict[str, str]:
    """Anchor in the translation by anchor in English; empty for a page that has none."""
    english, own = root / "docs" / page, root / "docs" / to / page
    return _paired(_read(english), _read(own)) if page.endswith(".md") and own.is_file() and english.is_file() else {}


@lru_cache(maxsize=64)
def _paired(english: str, own: str) -> dict[str, str]:
    """Anchors of a page's translation by those of the page; by the texts, since a course asks thousands of times for the same few pages."""
    return dict(zip(anchors(told(english)), anchors(own), strict=False))


def _moved(link: tuple[str, str], page: str, to: str) -> str:
    """A link of docs/zh/page as it reads at docs/page, where translated pages stand in the English ones' places."""
    target, anchor = link
    if target:
        there = posixpath.normpath(posixpath.join("docs", to, posixpath.dirname(page), target))
        target = posixpath.relpath(re.sub(rf"\Adocs/{to}/", "docs/", there), posixpath.join("docs", posixpath.dirname(page)))
    return _joined(target, anchor)


def _led_to(page: str, target: str) -> str:
    """The page below docs/ that a link of docs/page leads to; the page itself for a link that is an anchor alone."""
    return posixpath.relpath(posixpath.join("docs", posixpath.dirname(page), target), "docs") if target else page


def _joined(target: str, anchor: str) -> str:
    return f"{target}#{anchor}" if anchor else target


def _relinked(text: str, change: Callable[[tuple[str, str]], str]) -> str:
    """Text with its relative links changed, each given as (target, anchor); listings stay."""
    return "".join(part if part.startswith("```") else LINK.sub(lambda link: change((link[1], link[2] or "")), part) for part in FENCED.split(text))


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
