# SPDX-License-Identifier: Apache-2.0
"""Answers put into the pristine notebook before anything runs: what `pytest --nbval exercises/04_mbarrier.ipynb` and `hopperlab check` rest on.

A saved notebook proves nothing by itself: counts can be cleared, checks deleted, outputs overwritten. Only the texts of its answer cells count.
exercises/conftest.py takes its hook from here.
"""
from __future__ import annotations

import ast
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode

from ..checking import answers
from . import generate
from ..lessons.catalogue import find


CARRIED = Path(__file__).resolve().parents[1] / "course" / "exercises"      # in a wheel
CLONE = Path(__file__).resolve().parents[2] / "exercises"                  # of a clone, wherever its copies are


UNCOMPARED = ("stderr",)     # of an exercise's cells: there stand warnings, which do not decide


class PristineError(ValueError):
    """There is no pristine notebook for this file."""


def pristine_of(path: Path) -> Path:
    """The pristine notebook of an exercise notebook or a copy of it: in .pristine/ beside it, else in exercises/.pristine/ of the course above it, else of
    the course that the package carries, or lies in.

    Raises PristineError where none holds one.
    """
    folders = [path.resolve().parent, *(above / "exercises" for above in path.resolve().parents), CARRIED, CLONE]
    for folder in folders:
        if (folder / generate.PRISTINE / path.name).is_file():
            return folder / generate.PRISTINE / path.name
    raise PristineError(f"{path.name} is no exercise notebook of this course: no {generate.PRISTINE}/{path.name} beside it or in "
                        "exercises/ above it. Exercises lie in exercises/; `hopperlab start DIR` lays out a folder with copies of them")


def merged(path: Path) -> NotebookNode:
    """The pristine notebook of `path` with the answers of `path` in it. An answer that is refused becomes a cell that says why."""
    notebook = nbformat.read(pristine_of(path), as_version=4)
    given = generate.answers_of(nbformat.read(path, as_version=4))
    for cell in notebook.cells:
        role = generate.role(cell)
        if role and role[0] == generate.ANSWER and cell.id in given:
            cell.source = _taken(role[1], given[cell.id])
    return notebook


def _taken(exercise: str, text: str) -> str:
    try:
        return answers.to_run(find(exercise), text)
    except answers.Refused as refused:
        return f"raise ValueError({f'{exercise} was not tried: {refused}'!r})"


def constants_of(check: str) -> dict[str, Any]:
    """The constants that a check cell names: {'STAGES': 4} of `hl.check("04.2", ring, STAGES=4)`."""
    for node in ast.walk(ast.parse(check)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "check":
            return {word.arg: ast.literal_eval(word.value) for word in node.keywords if word.arg and word.arg not in ("hidden", "fast")}
    return {}


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path, parent: Any) -> Iterator:
    """nbval gets the pristine notebook with the answers in it, under the learner's file name."""
    found = yield
    from nbval.plugin import IPyNbFile

    class Pristine(IPyNbFile):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.skip_compare += UNCOMPARED

        def collect(self):
            with tempfile.TemporaryDirectory() as folder:
                saved, self.path = self.path, Path(folder) / self.path.name
                try:
                    nbformat.write(merged(saved), self.path)
                    return list(super().collect())
                except (PristineError, nbformat.reader.NotJSONError, nbformat.ValidationError) as problem:
                    raise self.CollectError(f"{saved.name}: {problem}") from None
                finally:
                    self.path = saved

    return [Pristine.from_parent(parent, path=file_path) if isinstance(one, IPyNbFile) else one for one in found]
