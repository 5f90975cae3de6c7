# SPDX-License-Identifier: Apache-2.0
"""exercises/ from solutions/ (which authoring/notebooks/solutions.py makes of solutions/sources): the same notebooks without solutions and hidden
checks, with the outputs that a right answer prints.

`make exercises` writes them; a test fails on drift. A class's own edition (assign.py) goes through the same functions.
"""
from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from . import regions
from ..checking.exercise import Exercise
from ..lessons.catalogue import find

PRISTINE = ".pristine"
ANSWER, CHECK, HIDDEN, FAST = "answer", "check", "hidden", "fast"
CELL_ID = re.compile(r"^(answer|check|hidden|fast)-(\d\d[a-z]?)-(\d+)$")


def solutions(root: Path) -> list[Path]:
    """The solution notebooks, in order."""
    return sorted((root / "solutions").glob("[0-9]*.ipynb"))


def role(cell: Mapping) -> tuple[str, str] | None:
    """('answer', '04.1') of a cell with the id answer-04-1; None for other cells."""
    found = CELL_ID.match(cell.get("id", ""))
    return (found[1], f"{found[2]}.{found[3]}") if found else None


def exercise_notebook(solution: NotebookNode) -> NotebookNode:
    """What a learner gets: answers emptied, hidden checks taken out, outputs and counts of the solved run kept on all other cells."""
    made = copy.deepcopy(solution)
    for cell in made.cells:
        if cell.cell_type != "code":
            continue
        kind = (role(cell) or ("", ""))[0]
        if kind == ANSWER:
            cell.source = regions.without_solutions(cell.source)
        elif regions.has(cell.source, regions.HIDDEN):
            cell.source = regions.without_hidden(cell.source)
        if kind in (ANSWER, HIDDEN):
            cell.outputs = []
        cell.metadata.pop("hopperlab", None)
    return made


def with_answers(pristine: NotebookNode, answers: Mapping[str, str]) -> NotebookNode:
    """The pristine notebook with these cell texts (by cell id) in its answer cells; everything else of it stays."""
    made = copy.deepcopy(pristine)
    for cell in made.cells:
        if (role(cell) or ("", ""))[0] == ANSWER and cell.id in answers:
            cell.source = answers[cell.id]
    return made


def answers_of(notebook: NotebookNode) -> dict[str, str]:
    """The texts of the answer cells, by cell id."""
    return {cell.id: cell.source for cell in notebook.cells if cell.cell_type == "code" and (role(cell) or ("", ""))[0] == ANSWER}


def with_edition(notebook: NotebookNode, key: str) -> NotebookNode:
    """The same notebook with the constants of the edition of `key`: every `NAME = value` and `NAME=value` of the course's own
    edition, in text, code and checks of the exercise's cells, becomes that of the edition."""
    made = copy.deepcopy(notebook)
    current = None
    for cell in made.cells:
        known = role(cell) or _heading(cell)
        current = known[1] if known else current
        if current is not None:
            cell.source = edited(find(current), cell.source, key)
    return made


def edited(exercise: Exercise, text: str, key: str) -> str:
    """`text` with the constants of the edition in place of the course's own, and its key in hidden checks."""
    return with_constants(exercise, text, exercise.edition(key)).replace('hidden="public"', f"hidden={key!r}")


def with_constants(exercise: Exercise, text: str, constants: Mapping[str, Any]) -> str:
    """`text` with these constants in place of the course's own."""
    for name, value in constants.items():
        text = re.sub(rf"\b({re.escape(name)}\s*=\s*){re.escape(repr(exercise.constants[name][0]))}(?![\w.])", rf"\g<1>{value!r}", text)
    return text


def _heading(cell: Mapping) -> tuple[str, str] | None:
    """('heading', '04.1') of a text cell that opens an exercise: its first line is `## 04.1 · …`."""
    found = re.match(r"##\s+(\d\d[a-z]?\.\d+)\b", cell["source"]) if cell["cell_type"] == "markdown" else None
    return ("heading", found[1]) if found else None


def write(root: Path) -> list[Path]:
    """Write exercises/ and its pristine copies from solutions/; returns the files that changed."""
    changed = []
    for path in solutions(root):
        made = exercise_notebook(nbformat.read(path, as_version=4))
        for target in (root / "exercises" / path.name, root / "exercises" / PRISTINE / path.name):
            text = nbformat.writes(made) + "\n"
            if not target.exists() or target.read_text(encoding="utf-8") != text:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
                changed.append(target)
    return changed


def drift(root: Path) -> list[str]:
    """What differs between exercises/ and what solutions/ would make of it; empty when nothing does."""
    found, names = [], {path.name for path in solutions(root)}
    for path in solutions(root):
        text = nbformat.writes(exercise_notebook(nbformat.read(path, as_version=4))) + "\n"
        for target in (root / "exercises" / path.name, root / "exercises" / PRISTINE / path.name):
            if not target.exists() or target.read_text(encoding="utf-8") != text:
                found.append(f"{target.relative_to(root)} is not what solutions/{path.name} makes; run `make exercises`")
    for folder in (root / "exercises", root / "exercises" / PRISTINE):
        found += [f"{path.relative_to(root)} has no solution" for path in sorted(folder.glob("[0-9]*.ipynb")) if path.name not in names]
    return found
