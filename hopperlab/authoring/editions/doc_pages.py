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
    """A page of docs/zh as the edition has it, in the place of the English one where there is one: without its first line, links moved, tables put in, with their words."""
    english, own = root / "docs" / page, _read(root / "docs" / to / page)
    known = doc_tables.words(root, to)
    rows = {found["name"]: doc_tables.said(found["rows"], known).rstrip() for found in TABLE.finditer(_read(english))} if english.is_file() else {}
    text = PLACE.sub(lambda place: rows[place["name"]] if place["name"] in rows else place[0], HEAD.sub("", own))
    return _relinked(text, lambda target: _moved(target, page, to))


def with_anchors(root: Path, page: str, to: str, text: str) -> str:
    """The text of a page that stayed English, with the anchors that translated pages have for the English ones."""
    return _relinked(text, lambda link: _joined(link[0], _twins(root, _led_to(page, link[0]), to).get(link[1], link[1]) if link[0] else link[1]))


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
    own = root / "docs" / to / page
    return dict(zip(anchors(_read(root / "docs" / page)), anchors(_read(own)),
                    strict=False)) if page.endswith(".md") and own.is_file() and (root / "docs" / page).is_file() else {}


def _moved(link: tuple[str, str], page: str, to: str) -> str:
    """A link of docs/zh/page as it reads at docs/page, where translated pages stand in the English ones' places."""
    target, anchor = link
    if target:
        there = posixpath.normpath(posixpath.join("docs", to, posixpath.dirname(page), target))
        target = posixpath.relpath(re.sub(rf"\Adocs/{to}/", "docs/", there), posixpath.join("docs", posixpath.dirname(page)))
    return _joined(target, anchor)


def _led_to(page: str, target: str) -> str:
    """The page below docs/ that a link of docs/page leads to; the page itself for a link that is an anchor alone."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), target)) if target else page


def _joined(target: str, anchor: str) -> str:
    return f"{target}#{anchor}" if anchor else target


def _relinked(text: str, change: Callable[[tuple[str, str]], str]) -> str:
    """Text with its relative links changed, each given as (target, anchor); listings stay."""
    return "".join(part if part.startswith("```") else LINK.sub(lambda link: change((link[1], link[2] or "")), part) for part in FENCED.split(text))


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
