# SPDX-License-Identifier: Apache-2.0
"""Tables that `python -m hopperlab.authoring readme` writes: README.md's lessons from the notebooks, docs/hazards/README.md's kinds from the emulator's list, and
docs/cheat-sheet.md's mechanisms from cheat_sheet.GROUPS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ...emulator.hazards.kinds import Kind
from .. import course, hashes
from . import cheat_sheet

BEGIN, END = "<!-- {}: begin (python -m hopperlab.authoring readme) -->", "<!-- {}: end -->"


def lessons(root: Path) -> list[str]:
    """Number, link and title of each lesson there is."""
    rows = [f"| {entry.number} | [{entry.notebook.stem.split('_', 1)[1]}](notebooks/{entry.notebook.name}) | {entry.title} |" for entry in course.entries(root)]
    return ["| | | |", "|---|---|---|", *rows]


def kinds(root: Path) -> list[str]:
    """Each kind of hazard, with a link to its page and the sentence that explains it. Raises ValueError for a kind without a page."""
    missing = [kind for kind in Kind if not (root / "docs" / "hazards" / f"{kind}.md").is_file()]
    if missing:
        raise ValueError(f"docs/hazards has no page for {', '.join(missing)}")
    return ["| kind | what |", "|---|---|", *(f"| [{kind}]({kind}.md) | {kind.says} |" for kind in Kind)]


TABLES: dict[str, tuple[str, Callable[[Path], list[str]]]] = {"README.md": ("lessons", lessons), "docs/hazards/README.md": ("kinds", kinds),
                                                              "docs/cheat-sheet.md": ("mechanisms", cheat_sheet.lines)}
"""By page: the name that its marks carry, and what writes the lines between them."""


def block(page: str, root: Path = hashes.ROOT) -> str:
    """What stands between the marks of a page of TABLES, marks included."""
    name, rows = TABLES[page]
    return "\n".join([BEGIN.format(name), *rows(root), END.format(name)])


def write(root: Path = hashes.ROOT) -> list[str]:
    """Put each table into its page; returns the pages that changed. Raises ValueError when the marks are missing."""
    changed = []
    for page, (name, _) in TABLES.items():
        path, begin, end = root / page, BEGIN.format(name), END.format(name)
        text = path.read_text(encoding="utf-8")
        if begin not in text or end not in text:
            raise ValueError(f"{page} lacks the lines {begin} and {end}")
        before, after = text.split(begin)[0], text.split(end)[-1]
        again = before + block(page, root) + after
        if again != text:
            path.write_text(again, encoding="utf-8")
            changed.append(page)
    return changed
