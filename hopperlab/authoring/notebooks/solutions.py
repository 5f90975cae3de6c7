# SPDX-License-Identifier: Apache-2.0
"""solutions/sources/NN_topic.md to solutions/NN_topic.ipynb, from which grading/generate.py makes exercises/.

A source looks like a lesson's (lesson_source.py). A code cell's id says what it is: answer-NN-M, check-NN-M, hidden-NN-M and, where speed is asked for,
fast-NN-M for exercise NN.M; checks carry `points=N`. What a learner does not see stands between the marks of grading/regions.py.
"""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat.v4 import new_markdown_cell

from ...grading import generate
from .. import hashes
from . import build, lesson_source

SOURCES = hashes.ROOT / "solutions" / "sources"
SCHEMA = 3


def sources(names: list[str] | None = None) -> list[Path]:
    """The sources whose file name starts with one of `names` (all when none is given), in order."""
    return [path for path in sorted(SOURCES.glob("[0-9]*.md")) if not names or path.stem.startswith(tuple(names))]


def write(path: Path) -> Path:
    """Write the solution notebook of one source, keeping its outputs; returns its path. Raises SourceError for a check without points."""
    return build.build(path, notebook)


def notebook(lesson: lesson_source.Lesson) -> nbformat.NotebookNode:
    """A solution notebook without outputs. Raises SourceError for a check without points."""
    made = build.empty_notebook(lesson)
    for cell in lesson.cells:
        made.cells.append(new_markdown_cell(cell.text, id=cell.id) if cell.kind == "markdown" else _marked(build.code_cell(cell), cell, lesson))
    return made


def _marked(made: nbformat.NotebookNode, cell: lesson_source.Cell, lesson: lesson_source.Lesson) -> nbformat.NotebookNode:
    """nbgrader's metadata (schema 3) on answers and checks; an answer's own output is never compared."""
    role = generate.role(made)
    if role is None:
        return made
    facts = {"schema_version": SCHEMA, "grade_id": cell.id, "task": False}
    if role[0] == generate.ANSWER:
        made.metadata["tags"] = ["nbval-ignore-output"]
        made.metadata["nbgrader"] = {**facts, "grade": False, "locked": False, "solution": True}
    elif cell.points is None:
        raise lesson_source.SourceError(f"{lesson.stem}.md: the cell {cell.id!r} needs points=N")
    else:
        made.metadata["nbgrader"] = {**facts, "grade": True, "locked": True, "solution": False, "points": cell.points}
    return made
