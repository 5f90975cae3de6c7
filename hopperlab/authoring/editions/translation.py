# SPDX-License-Identifier: Apache-2.0
"""Translations of the lessons' text: notebooks/sources/zh/NN_topic.md holds, for each Markdown cell of the English source, in order,

    <!-- cell 1a2b3c4d -->
    中文……

where 1a2b3c4d are the first hex digits of the SHA-256 of the English text, so that a cell which changed is found to be stale. In front stand `title:` and,
as `of:`, the same hash of the English title. Code is not repeated: it comes from the English notebook, with its outputs. Exercises: solutions/sources/zh/.
"""
from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..notebooks import lesson_source as source

HEADING = re.compile(r"^<!-- cell ([0-9a-f]{8}) -->$", re.MULTILINE)
COMMENT = re.compile(r"\A\s*<!-- (?:English|before)\n.*?^-->\n?", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[([^\]]*)\]\((?:\.\./)+docs/glossary\.md#[\w-]+\)")
REPAIR = "text-repair-"        # such a cell is made of a repair's hint and reference (lesson_source.py); its words come from the table of strings


class TranslationError(ValueError):
    """A translation that cannot be read; the message names its file."""


@dataclass
class Translation:
    """One file: the title, the hash of the English title, and the text of each block by the hash of its English, in the file's order."""

    path: Path
    title: str = ""
    of: str = ""
    blocks: dict[str, str] = field(default_factory=dict)

    def title_for(self, english: str) -> str | None:
        """The title, or None where the English one changed since, or where there is none."""
        return self.title or None if self.of == digest(english) else None


@dataclass(frozen=True)
class Status:
    """How far one file is: cells there are, cells translated, those that are not, and the blocks whose English is gone."""

    stem: str
    cells: int
    done: int
    missing: tuple[source.Cell, ...]
    stale: tuple[str, ...]
    faults: tuple[str, ...]
    title: bool
    of: str

    @property
    def whole(self) -> bool:
        """True when there is nothing to do."""
        return self.title and not (self.missing or self.stale or self.faults)


def digest(english: str) -> str:
    """The hash that names an English text: without blanks around it, and without links to the glossary, which a built notebook adds."""
    return hashlib.sha256(LINK.sub(r"\1", english).strip().encode()).hexdigest()[:8]


def file_of(lesson_source: Path, to: str) -> Path:
    """Where the translation of a source stands."""
    return lesson_source.parent / to / lesson_source.name


def read(path: Path) -> Translation:
    """Parse a translation; an empty one where there is no file. Raises TranslationError for text in front of the first block and for a block that stands twice."""
    if not path.is_file():
        return Translation(path)
    text = path.read_text(encoding="utf-8")
    head = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    if head is None:
        raise TranslationError(f"{path.parent.name}/{path.name}: the file must open with `title:` and `of:` between two `---` lines")
    facts = dict(line.split(":", 1) for line in head[1].split("\n") if ":" in line)
    before, *parts = HEADING.split(text[head.end():])
    if before.strip():
        raise TranslationError(f"{path.parent.name}/{path.name}: {before.strip()[:40]!r} stands in no block: each begins with a line <!-- cell HASH -->")
    made = Translation(path, facts.get("title", "").strip(), facts.get("of", "").strip())
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        if name in made.blocks:
            raise TranslationError(f"{path.parent.name}/{path.name}: the block {name} stands twice")
        made.blocks[name] = _own(body)
    return made


def _own(body: str) -> str:
    """A block without the comments that a stub has for the translator."""
    while COMMENT.match(body):
        body = COMMENT.sub("", body, count=1)
    return body.strip()


def texts(lesson: source.Lesson) -> list[source.Cell]:
    """The cells that are translated: Markdown, except under repairs."""
    return [cell for cell in lesson.cells if cell.kind == "markdown" and not cell.id.startswith(REPAIR)]


def status(path: Path, to: str) -> Status:
    """How far the translation of the source at `path` is. Raises TranslationError for a file that cannot be read."""
    lesson, made = source.read(path), read(file_of(path, to))
    cells = texts(lesson)
    hashes = {digest(cell.text) for cell in cells}
    missing = tuple(cell for cell in cells if not made.blocks.get(digest(cell.text)))
    faults = tuple(f"cell {cell.id!r}: {fault}" for cell in cells if cell not in missing for fault in differences(cell.text, made.blocks[digest(cell.text)]))
    stale = tuple(name for name in made.blocks if name not in hashes)
    return Status(path.stem, len(cells), len(cells) - len(missing), missing, stale, faults, made.title_for(lesson.title) not in (None, lesson.title),
                  digest(lesson.title))


def report(found: Iterable[Status]) -> Iterator[str]:
    """Lines on each lesson: cells done, then what to translate again or for the first time, and what a translation lost."""
    for one in found:
        counts = [f"{len(part)} {word}" for part, word in ((one.stale, "stale"), (one.missing, "missing")) if part]
        yield ", ".join([f"{one.stem}: {one.done} of {one.cells} cells", *counts, *([] if one.title else [f"no title (of: {one.of})"])])
        if one.done:                       # of a lesson that nobody has begun, the count says enough
            yield from (f"    translate {cell.id!r} ({digest(cell.text)}): {cell.text.splitlines()[0][:90]}" for cell in one.missing)
        yield from (f"    block {name} is of an English text that is gone: adapt it or take it out" for name in one.stale)
        yield from (f"    {fault}" for fault in one.faults)


KEPT = (("link", re.compile(r"\]\(([^)\s]+)\)|href=\"([^\"]+)\"")), ("code", re.compile(r"(?<!`)`([^`\n]+)`(?!`)")), ("formula", re.compile(r"\$([^$\n]+)\$")),
        ("number", re.compile(r"\d+(?:[.,]\d+)*")), ("block", re.compile(r"^```(\w*)", re.MULTILINE)))


EMPHASIS = re.compile(r"(\*{1,2})(?![\s*])([^*\n]+)(?<!\s)\1(.?)")
LETTER = re.compile(r"[\u4e00-\u9fffA-Za-z0-9]")
CLOSING = "。，；：？！、）”』」.,:;?!)"


def differences(english: str, translated: str) -> Iterator[str]:
    """What a translation lost or made up: links, inline code, formulas, numbers and fenced blocks; how often each occurs is free, but for links and blocks."""
    for kind, pattern in KEPT:
        there, here = (Counter("".join(found) for found in pattern.findall(LINK.sub(r"\1", text))) for text in (english, translated))
        lost, added = (there - here, here - there) if kind in ("link", "block") else (set(there) - set(here), set(here) - set(there))
        yield from (f"the {kind} {one!r} of the English is not there" for one in sorted(lost))
        yield from (f"the {kind} {one!r} is not in the English" for one in sorted(added) if kind != "number")
    for found in EMPHASIS.finditer(re.sub(r"`[^`]*`", "x", translated)):
        if found[2][-1] in CLOSING and LETTER.match(found[3]):          # CommonMark ends no emphasis there
            yield f"{found[0][:-1]!r} is not shown as emphasis: put a blank behind it"


def stub(path: Path, to: str) -> str:
    """The translation's file with a block for every cell: done ones as they are, others with the English in a comment; under one that changed, what was there before."""
    lesson, made = source.read(path), read(file_of(path, to))
    order, hashes = list(made.blocks), {digest(cell.text) for cell in texts(lesson)}
    kept = made.of if made.title and made.title_for(lesson.title) is None else digest(lesson.title)      # a title of an English one that changed stays stale
    parts = [f"---\ntitle: {made.title or lesson.title}\nof: {kept}\n---\n"]
    at = 0
    for name, cell in _once(lesson).items():
        if made.blocks.get(name):
            at = order.index(name) + 1
            parts.append(f"<!-- cell {name} -->\n{made.blocks[name]}\n")
            continue
        before = ""
        if at < len(order) and order[at] not in hashes:
            before, at = _comment("before", made.blocks[order[at]]), at + 1
        parts.append(f"<!-- cell {name} -->\n{_comment('English', cell.text)}{before}")
    return "\n".join(parts)


def _once(lesson: source.Lesson) -> dict[str, source.Cell]:
    """Cells by the hash of their English: one that says the same as an earlier one ("### Repair it") shares its block."""
    found: dict[str, source.Cell] = {}
    for cell in texts(lesson):
        found.setdefault(digest(cell.text), cell)
    return found


def _comment(name: str, text: str) -> str:
    return f"<!-- {name}\n" + re.sub(r"^-->", " -->", text, flags=re.MULTILINE) + "\n-->\n"
