# SPDX-License-Identifier: Apache-2.0
"""How far a learner is, read from the saved copies in work/: which lessons were run, and which exercises are solved.

A copy begins with no execution counts (`workspace.fill` takes them out), so a count says that the learner ran the cell. A
repair, or a lesson's small exercise, is solved when its check (a cell `exercise…` that calls a `check_…`, or one of %%repair) says "Right…" or "…:
right" on every line; an exercise notebook, when every compared cell
was run and prints what the pristine one has stored.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from ...runtime.language import say
from ..course import Entry

RIGHT = re.compile(r"^(?:Right\b|正确)(?!, but|，但)(?!.*(?:; but |；但))|: right\b|：正确")
IGNORED = {"nbval-ignore-output", "nbval-skip"}


@dataclass(frozen=True)
class Progress:
    """Cells run and cells there are; `solved` and `exercises` count a lesson's exercises; `failed` says that a saved output is an error."""

    ran: int
    cells: int
    solved: int
    exercises: int
    failed: bool = False

    @property
    def words(self) -> str:
        """'not begun', '7 of 20 cells', 'run' or 'an error'."""
        if not self.ran:
            return "not begun"
        if self.failed:
            return "stopped at an error"
        return "run" if self.ran == self.cells else f"{self.ran} of {self.cells} cells run"


def of(entry: Entry, work: Path) -> Progress:
    """The progress in one lesson's copies below `work`; a copy that is missing or being written counts as not begun."""
    cells = _code(work / entry.notebook.name)
    checks = [cell for cell in cells if cell.get("id", "").startswith("exercise") and "check_" in "".join(cell["source"])
              or "".join(cell["source"]).startswith("%%repair")]
    solved, exercises = sum(says_right(cell) for cell in checks), len(checks)
    if entry.exercise is not None:
        exercises += 1
        solved += matches(_code(work / "exercises" / entry.exercise.name), _code(entry.exercise))
    ran = sum(cell["execution_count"] is not None for cell in cells)
    failed = any(output["output_type"] == "error" for cell in cells for output in cell["outputs"])
    return Progress(ran, len(cells), solved, exercises, failed)


def says_right(cell: dict) -> bool:
    """True when the learner ran this check and every line of its output says that the answer is right."""
    lines = [line for line in output_text(cell).splitlines() if line.strip()]
    return cell["execution_count"] is not None and bool(lines) and all(RIGHT.search(line) for line in lines)


def matches(mine: list[dict], pristine: list[dict]) -> bool:
    """True when every compared cell of an exercise notebook was run and prints what the pristine one has stored."""
    compared = [cell for cell in pristine if not IGNORED & set(cell["metadata"].get("tags", []))]
    by_id = {cell.get("id"): cell for cell in mine}
    found = [by_id.get(cell.get("id")) for cell in compared]
    return bool(compared) and all(cell is not None and cell["execution_count"] is not None and output_text(cell) in (output_text(stored), say(output_text(stored)))
                                  for cell, stored in zip(found, compared, strict=True))


def output_text(cell: dict) -> str:
    """All plain text that a cell has stored, streams and values, in order."""
    pieces = []
    for output in cell["outputs"]:
        text = output.get("text") or output.get("data", {}).get("text/plain", "")
        pieces.append(text if isinstance(text, str) else "".join(text))
    return "".join(pieces)


def _code(path: Path) -> list[dict]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [cell for cell in document.get("cells", []) if cell["cell_type"] == "code"]
