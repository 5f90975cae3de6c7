# SPDX-License-Identifier: Apache-2.0
"""From a lesson's text source to its .ipynb; outputs already stored are kept, for the cells that are still there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from .. import hashes
from . import colab, glossary, lesson_source as source

NOTEBOOKS = hashes.ROOT / "notebooks"
SOURCES = NOTEBOOKS / "sources"
KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
TAGS = {"ignore": "nbval-ignore-output"}
PLACE_LINES = re.compile(r"^(?:hopperlab: kernels run|This notebook runs in this place:).*\n?", re.MULTILINE)


def lesson_sources(folder: Path = SOURCES) -> list[Path]:
    """The sources of the lessons: those whose name begins with a number."""
    return sorted(folder.glob("[0-9]*.md"))


def sources(names: list[str] | None = None, folder: Path = SOURCES) -> list[Path]:
    """Lessons and the landing notebook; those whose file name starts with one of `names` (all when none is given).

    Raises FileNotFoundError for a name without a source.
    """
    every = sorted(folder.glob("*.md"))
    if not names:
        return every
    chosen = [path for path in every if any(path.stem.startswith(Path(name).stem) for name in names)]
    missing = [name for name in names if not any(path.stem.startswith(Path(name).stem) for path in every)]
    if missing:
        raise FileNotFoundError(f"no lesson source starts with {', '.join(missing)}; there are: {', '.join(p.stem for p in every)}")
    return chosen


def notebook_path(lesson_source: Path) -> Path:
    """Where the notebook of this source stands: one folder up from `sources`."""
    return lesson_source.parent.parent / f"{lesson_source.stem}.ipynb"


def build(path: Path, notebook_of: Callable[[source.Lesson], nbformat.NotebookNode] | None = None) -> Path:
    """Write the notebook of one source, keeping the stored outputs of its cells, also the stale ones: restamp.py compares them. Returns its path.

    notebook_of: how cells become a notebook (None: `assemble`, as a lesson's).
    """
    lesson = source.read(path)
    target = notebook_path(path)
    notebook = (notebook_of or assemble)(lesson)
    if target.exists():
        _keep_outputs(notebook, nbformat.read(target, as_version=4))
    write(notebook, target)
    return target


def empty_notebook(lesson: source.Lesson) -> nbformat.NotebookNode:
    """A notebook without cells, with the title and minutes in `metadata.hopperlab`."""
    return new_notebook(metadata={"kernelspec": KERNELSPEC, "language_info": {"name": "python"}, "hopperlab": {"title": lesson.title, "minutes": lesson.minutes}})


def code_cell(cell: source.Cell) -> nbformat.NotebookNode:
    """A code cell without outputs, with its id and tags."""
    metadata: dict = {"tags": sorted(TAGS[flag] for flag in cell.flags if flag in TAGS)}
    if "hide" in cell.flags:
        metadata["jupyter"] = {"source_hidden": True}
    return new_code_cell(cell.text, id=cell.id, metadata=metadata)


def assemble(lesson: source.Lesson) -> nbformat.NotebookNode:
    """A lesson's notebook without outputs: stable ids, tags, and the first mention of each glossary term linked. The cell for Colab follows the title."""
    notebook = empty_notebook(lesson)
    prose = glossary.linked([cell.text for cell in lesson.cells if cell.kind == "markdown"])
    for cell in lesson.cells:
        notebook.cells.append(new_markdown_cell(next(prose), id=cell.id) if cell.kind == "markdown" else code_cell(cell))
    if lesson.stem[:1].isdigit():
        notebook.cells.insert(1 if lesson.cells and lesson.cells[0].kind == "markdown" else 0, colab.cell())
    return notebook


def _keep_outputs(notebook: nbformat.NotebookNode, old: nbformat.NotebookNode) -> None:
    stored = {cell.id: cell for cell in old.cells if cell.cell_type == "code"}
    for cell in code_cells(notebook):
        before = stored.get(cell.id)
        if before is not None:
            cell.outputs, cell.execution_count = without_places(before.outputs), before.execution_count
            if "hopperlab" in before.metadata:
                cell.metadata["hopperlab"] = before.metadata["hopperlab"]


def without_places(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """The outputs without the lines that name the place: what is stored was made elsewhere than where it is read."""
    kept = []
    for output in outputs:
        if output.output_type == "stream":
            output.text = PLACE_LINES.sub("", output.text)
        if output.output_type != "stream" or output.text:
            kept.append(output)
    return kept


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """Every code cell, in order: each is run and counted."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def own_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """The lesson's own code cells, in order: without the first one, which only works in Colab."""
    return [cell for cell in code_cells(notebook) if not colab.is_it(cell)]


def write(notebook: nbformat.NotebookNode, path: Path) -> None:
    """Write through a temporary file, so that an interrupted run leaves the old notebook whole."""
    nbformat.validate(notebook)
    scratch = path.with_suffix(".ipynb.part")
    scratch.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
    scratch.replace(path)
