"""solutions/: a new solution notebook from a draft in Markdown, and running the stored ones.

A draft looks like a lesson's source (source.py), with three more flags for code cells: `answer`, `check` and `hidden`, the latter two with
`points=N`. Their ids are answer-NN-M, check-NN-M and hidden-NN-M for exercise NN.M. The notebook is the source from then on.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from ..grading import generate
from . import build, execute, hashes, source

FOLDER = hashes.ROOT / "solutions"
POINTS = re.compile(r"^(```python\s+id=(?P<id>[\w-]+)[^\n]*?)\s+points=(?P<points>\d+)(?P<rest>[^\n]*)$", re.MULTILINE)
SCHEMA = 3


def from_draft(path: Path, folder: Path = FOLDER) -> Path:
    """Write solutions/NAME.ipynb from the draft NAME.md, without outputs. Raises SourceError for a draft that cannot be read."""
    text = path.read_text(encoding="utf-8")
    points = {found["id"]: int(found["points"]) for found in POINTS.finditer(text)}
    scratch = path.with_suffix(".md.part")
    scratch.write_text(re.sub(r"(?m)^(```python\s+id=[\w-]+[^\n]*?)\s+(?:answer|check|hidden)\b", r"\1", POINTS.sub(r"\1\g<rest>", text)), encoding="utf-8")
    try:
        lesson = source.read(scratch)
    finally:
        scratch.unlink()
    notebook = new_notebook(metadata={"kernelspec": build.KERNELSPEC, "language_info": {"name": "python"},
                                      "hopperlab": {"title": lesson.title, "minutes": lesson.minutes}})
    for cell in lesson.cells:
        if cell.kind == "markdown":
            notebook.cells.append(new_markdown_cell(cell.text, id=cell.id))
            continue
        metadata = {"tags": sorted(build.TAGS[flag] for flag in cell.flags if flag in build.TAGS)}
        notebook.cells.append(new_code_cell(cell.text, id=cell.id, metadata=metadata))
        _mark(notebook.cells[-1], points, path)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{path.stem}.ipynb"
    build.write(notebook, target)
    return target


def _mark(cell: nbformat.NotebookNode, points: dict[str, int], path: Path) -> None:
    """nbgrader's metadata (schema 3) on answers and checks; an answer's own output is never compared."""
    role = generate.role(cell)
    if role is None:
        return
    if role[0] == generate.ANSWER:
        cell.metadata["tags"] = ["nbval-ignore-output"]
        cell.metadata["nbgrader"] = {"schema_version": SCHEMA, "grade_id": cell.id, "grade": False, "locked": False, "solution": True, "task": False}
        return
    if cell.id not in points:
        raise source.SourceError(f"{path.name}: the cell {cell.id!r} needs points=N")
    cell.metadata["nbgrader"] = {"schema_version": SCHEMA, "grade_id": cell.id, "grade": True, "locked": True, "solution": False,
                                 "task": False, "points": points[cell.id]}


def run(path: Path, backend: str | None = None) -> float:
    """Execute a solution notebook here and store its outputs; returns the seconds. Raises CellExecutionError when a check fails."""
    _, seconds, _ = execute.execute(path, backend)
    return seconds


