"""The README's table of lessons, written from the notebooks: `python -m hopperlab.notebooks readme`."""

from __future__ import annotations

import re
from pathlib import Path

from . import course, hashes

BEGIN, END = "<!-- lessons: begin (python -m hopperlab.notebooks readme) -->", "<!-- lessons: end -->"


def table(root: Path = hashes.ROOT) -> str:
    """The block between the marks, marks included: number, link and title of each lesson there is."""
    rows = [f"| {entry.number} | [{entry.notebook.stem.split('_', 1)[1]}](notebooks/{entry.notebook.name}) | {entry.title} |" for entry in course.entries(root)]
    return "\n".join([BEGIN, "| | | |", "|---|---|---|", *rows, END])


def write(root: Path = hashes.ROOT) -> bool:
    """Put the table into README.md; returns True when it changed. Raises ValueError when the marks are missing."""
    path = root / "README.md"
    text = path.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise ValueError(f"README.md lacks the lines {BEGIN} and {END}")
    block = table(root)
    changed = re.sub(re.escape(BEGIN) + r".*?" + re.escape(END), lambda _: block, text, flags=re.DOTALL)
    path.write_text(changed, encoding="utf-8")
    return changed != text
