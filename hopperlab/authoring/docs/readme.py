# SPDX-License-Identifier: Apache-2.0
"""Tables that `python -m hopperlab.authoring readme` writes: README.md's lessons from the notebooks, docs/hazards/README.md's kinds from the emulator's list
and their pages, and docs/cheat-sheet.md's mechanisms from cheat_sheet.GROUPS; and the line of kinds in that page's translations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from .. import course, hashes
from ..editions import hazard_pages
from . import cheat_sheet

BEGIN, END = "<!-- {}: begin (python -m hopperlab.authoring readme) -->", "<!-- {}: end -->"


def lessons(root: Path) -> list[str]:
    """Number, link and title of each lesson there is."""
    rows = [f"| {entry.number} | [{entry.notebook.stem.split('_', 1)[1]}](notebooks/{entry.notebook.name}) | {entry.title} |" for entry in course.entries(root)]
    return ["| | | |", "|---|---|---|", *rows]


TABLES: dict[str, tuple[str, Callable[[Path], list[str]]]] = {"README.md": ("lessons", lessons), "docs/hazards/README.md": ("kinds", hazard_pages.table),
                                                              "docs/cheat-sheet.md": ("mechanisms", cheat_sheet.lines)}
"""By page: the name that its marks carry, and what writes the lines between them."""


def block(page: str, root: Path = hashes.ROOT) -> str:
    """What stands between the marks of a page of TABLES, marks included."""
    name, rows = TABLES[page]
    return "\n".join([BEGIN.format(name), *rows(root), END.format(name)])


def write(root: Path = hashes.ROOT) -> list[str]:
    """Put each table into its page, and the list of kinds into the page of its translations; returns the pages that changed. Raises ValueError when the marks are
    missing, or a kind has no page."""
    changed = []
    for page, again in pages(root):
        path = root / page
        if path.read_text(encoding="utf-8") != again:
            path.write_text(again, encoding="utf-8")
            changed.append(page)
    return changed


def pages(root: Path = hashes.ROOT) -> Iterator[tuple[str, str]]:
    """Every page that has such a table or list, and its text as it should be."""
    yield from ((page, _with_table(page, root)) for page in TABLES)
    yield from _lists_of_kinds(root)


def _with_table(page: str, root: Path) -> str:
    """A page of TABLES as it should be."""
    text, (name, _) = (root / page).read_text(encoding="utf-8"), TABLES[page]
    begin, end = BEGIN.format(name), END.format(name)
    if begin not in text or end not in text:
        raise ValueError(f"{page} lacks the lines {begin} and {end}")
    return text.split(begin)[0] + block(page, root) + text.split(end)[-1]


def _lists_of_kinds(root: Path) -> Iterator[tuple[str, str]]:
    """The translations of docs/hazards/README.md as they should be: a list of the translated pages stands where the edition has the table."""
    for path in sorted((root / "docs").glob("*/hazards/README.md")):
        line = f"<!-- kinds: table -->{hazard_pages.names(root, path.parent.parent.name)}"
        yield path.relative_to(root).as_posix(), re.sub(r"^<!-- kinds: table -->.*$", line, path.read_text(encoding="utf-8"), flags=re.MULTILINE)
