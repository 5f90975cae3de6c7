# SPDX-License-Identifier: Apache-2.0
"""Reading the text source of a lesson or of its exercises: Markdown with code cells fenced as ```python id=name [ignore] [hide] [points=N].

In front stand `title:` and `minutes:`, and `gpu: not yet` for as long as the stored outputs are the emulator's, because no GPU has run the lesson.

A fence ```repair id=NAME, without lines, stands for the repair NAME of the lesson's room (lessons/repairs.py): a cell with the broken lines, and under it
the hint and the reference behind a click.

A heading of level 1 or 2 starts a new Markdown cell, whose id is `text-` and its words. `ignore` marks a cell whose output nbval must not compare (times,
pictures, widgets, the line that names the place); without it the output is compared wherever the notebook runs. `points` are those of an exercise's check.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

FENCE = re.compile(r"^```python\s+id=(?P<id>[\w-]+)(?P<flags>(?:\s+[\w=]+)*)\s*$")
REPAIR = re.compile(r"^```repair\s+id=(?P<id>[\w-]+)\s*$")
HEADING = re.compile(r"^#{1,2}\s+(?P<text>.+)$")
FLAGS = {"ignore", "hide"}
NOT_YET = "not yet"
POINTS = re.compile(r"points=(\d+)")


class SourceError(ValueError):
    """A lesson source that cannot be read; the message names file and line."""


@dataclass(frozen=True)
class Cell:
    """One cell: `kind` is 'markdown' or 'code'; `flags` is a subset of FLAGS; `points` of a check, else None."""

    id: str
    kind: str
    text: str
    flags: frozenset[str] = frozenset()
    points: int | None = None


@dataclass
class Lesson:
    """A parsed source: its stem (the notebook's name), front matter and cells in order."""

    stem: str
    title: str
    minutes: int
    on_gpu: bool = True         # whether a GPU has run it
    cells: list[Cell] = field(default_factory=list)


def read(path: Path) -> Lesson:
    """Parse `path`. Raises SourceError on a missing title or minutes, another word about GPUs than `not yet`, a repeated id, an unknown flag or an open fence."""
    lines = path.read_text(encoding="utf-8").split("\n")
    head, first = _front_matter(lines, path)
    if "title" not in head or not head.get("minutes", "").isdigit():
        raise SourceError(f"{path.name}: the front matter needs `title:` and `minutes:` (a whole number)")
    if head.get("gpu", NOT_YET) != NOT_YET:
        raise SourceError(f"{path.name}: the front matter says `gpu: {NOT_YET}`, or nothing of it once a GPU has run the lesson")
    lesson = Lesson(path.stem, head["title"], int(head["minutes"]), "gpu" not in head)
    lesson.cells = list(_cells(lines, first, path))
    seen: set[str] = set()
    for cell in lesson.cells:
        if cell.id in seen:
            raise SourceError(f"{path.name}: two cells have the id {cell.id!r}")
        seen.add(cell.id)
    return lesson


def _front_matter(lines: list[str], path: Path) -> tuple[dict[str, str], int]:
    if not lines or lines[0] != "---" or "---" not in lines[1:]:
        raise SourceError(f"{path.name}: the file must open with front matter between two `---` lines")
    end = lines.index("---", 1)
    pairs = (line.split(":", 1) for line in lines[1:end] if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}, end + 1


def _cells(lines: list[str], at: int, path: Path):
    prose: list[str] = []
    name, last, quoted = "opening", "", False
    while at < len(lines):
        line = lines[at]
        fence, broken = FENCE.match(line), REPAIR.match(line)
        heading = None if quoted else HEADING.match(line)
        if fence:
            yield from _prose(prose, name)
            prose, (cell, at) = [], _code(lines, at, fence, path)
            yield cell
            last = cell.id
            name = f"after-{last}"
            continue
        if broken:
            yield from _prose(prose, name)
            prose, at, last = [], _closed(lines, at, broken, path), f"repair-{broken['id']}"
            yield from _repair(path, broken["id"])
            name = f"after-{last}"
            continue
        if heading:
            yield from _prose(prose, name)
            prose, name = [], _slug(heading["text"])
        if line.startswith("```"):
            quoted = not quoted
        prose.append(line)
        at += 1
    yield from _prose(prose, name)


def _prose(lines: list[str], name: str):
    text = "\n".join(lines).strip()
    if text:
        yield Cell(f"text-{name}", "markdown", text)


def _code(lines: list[str], at: int, fence: re.Match, path: Path) -> tuple[Cell, int]:
    words = fence["flags"].split()
    points = next((int(found[1]) for found in map(POINTS.fullmatch, words) if found), None)
    flags = frozenset(word for word in words if not POINTS.fullmatch(word))
    if flags - FLAGS:
        raise SourceError(f"{path.name}:{at + 1}: unknown flag {sorted(flags - FLAGS)}; known: {sorted(FLAGS)}")
    try:
        end = lines.index("```", at + 1)
    except ValueError:
        raise SourceError(f"{path.name}:{at + 1}: the code cell {fence['id']!r} is never closed") from None
    return Cell(fence["id"], "code", "\n".join(lines[at + 1:end]).strip("\n"), flags, points), end + 1


def _closed(lines: list[str], at: int, fence: re.Match, path: Path) -> int:
    if lines[at + 1:at + 2] != ["```"]:
        raise SourceError(f"{path.name}:{at + 1}: the repair {fence['id']!r} has lines of its own; they come from the lesson's repairs.py")
    return at + 2


def _repair(path: Path, name: str):
    """The cells of one repair. Raises SourceError for one that the lesson's room does not have."""
    from ...lessons.repairs import RepairError, find

    lesson = path.stem.split("_")[0]
    try:
        found = find(lesson, name)
    except RepairError as error:
        raise SourceError(f"{path.name}: {error}") from None
    yield Cell(f"repair-{name}", "code", f"%%repair {lesson} {name}\n{found.broken}")
    yield Cell(f"text-repair-{name}", "markdown", f"<details><summary>A hint</summary>\n\n{found.hint}\n\n</details>\n"
               f"<details><summary>One repair</summary>\n\n```{found.language}\n{found.reference}\n```\n\n</details>")


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:48]
