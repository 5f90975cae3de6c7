"""A class's own edition of the exercises: constants, inputs and hidden checks are drawn from a key, so that published solutions do not simply pass.

OUT/learners/ is what learners get; OUT/instructor/ holds the keyed solutions, the pristine notebooks and edition.json. The same key gives the same edition.
"""
from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from . import generate, regions
from .exercise import PUBLIC, Exercise, every, find

EDITION = "edition.json"
CELL_SECONDS = 300
ENOUGH_TOKENS = 30           # an answer of fewer tokens of its own may well be the same as everybody's
KEPT = frozenset("and or not if else elif for while do return int float unsigned const break continue in is".split())      # tell programs apart
WIDGETS = "application/vnd.jupyter.widget-view+json"


class AssignError(ValueError):
    """A folder that is not empty, a key that is no key, or a lesson without exercises."""


@dataclass(frozen=True)
class Edition:
    """Where an edition was written."""

    learners: Path
    instructor: Path


def write(root: Path, out: Path, key: str, lessons: Sequence[str] = (), tell: Callable[[str], None] = lambda line: None) -> Edition:
    """Write the edition of `key` below `out`: each keyed solution is run once, so that its checks, hidden ones too, are known to hold.

    Raises AssignError for an empty or the public key, an `out` that holds something, an unknown lesson, or a solution that its checks refuse.
    """
    if not key.strip() or key == PUBLIC:
        raise AssignError("the key must be a secret of your class, and not empty")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise AssignError(f"{out} exists and is not an empty folder")
    paths = [path for path in generate.solutions(root) if not lessons or path.name.split("_")[0] in lessons]
    missing = sorted(set(lessons) - {path.name.split("_")[0] for path in paths})
    if missing or not paths:
        raise AssignError(f"no exercises to lesson {', '.join(missing)}" if missing else "no exercises found")
    made = Edition(out / "learners", out / "instructor")
    for path in paths:
        tell(f"{path.name}: running the keyed solution …")
        solution = executed(generate.with_edition(nbformat.read(path, as_version=4), key), path.name)
        _put(solution, made.instructor / "solutions" / path.name)
        for target in (made.learners / path.name, made.learners / generate.PRISTINE / path.name, made.instructor / "exercises" / path.name):
            _put(generate.exercise_notebook(solution), target)
    (made.learners / "conftest.py").write_text((root / "exercises" / "conftest.py").read_text(encoding="utf-8"), encoding="utf-8")
    numbers = {path.name.split("_")[0] for path in paths}
    chosen = {name: exercise.edition(key) for name, exercise in every().items() if exercise.lesson in numbers}
    (made.instructor / EDITION).write_text(json.dumps({"key": key, "exercises": chosen}, indent=1) + "\n", encoding="utf-8")
    return made


def executed(notebook: NotebookNode, name: str) -> NotebookNode:
    """The notebook run top to bottom in the emulator, with its outputs. Raises AssignError when a cell raises."""
    import os

    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    client = NotebookClient(notebook, timeout=CELL_SECONDS, kernel_name="python3", coalesce_streams=True)
    try:
        with client.setup_kernel(env={**os.environ, "HOPPERLAB_BACKEND": "emulator"}):
            for index, cell in enumerate(notebook.cells):
                if cell.cell_type == "code":
                    client.execute_cell(cell, index)
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as problem:
        raise AssignError(f"{name}: the solution of this edition fails its own check; please report it with the key's constants\n{problem}") from None
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}
    for count, cell in enumerate((c for c in notebook.cells if c.cell_type == "code"), 1):
        cell.execution_count = count
        cell.metadata.pop("execution", None)
        cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr" and WIDGETS not in o.get("data", {})]
    return notebook


def _put(notebook: NotebookNode, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")


def matches_public(root: Path, exercise: str, cell: str) -> bool:
    """True when an answer is the course's published solution: the same tokens, whatever its comments, spaces, constants and names.

    Short solutions (fewer than ENOUGH_TOKENS tokens of their own) never match: honest answers coincide there.
    """
    public, skeleton = _public(root, exercise)
    asked = find(exercise)
    own = len(tokens(asked, public)) - len(tokens(asked, skeleton))
    return own >= ENOUGH_TOKENS and tokens(asked, cell) == tokens(asked, public)


@cache
def _public(root: Path, exercise: str) -> tuple[str, str]:
    lesson, number = exercise.split(".")
    for path in generate.solutions(root):
        if path.name.startswith(f"{lesson}_"):
            cell = generate.answers_of(nbformat.read(path, as_version=4))[f"answer-{lesson}-{number}"]
            return regions.solution_without_stubs(cell), regions.without_solutions(cell)
    raise AssignError(f"no published solution of {exercise} in {root / 'solutions'}")


def tokens(exercise: Exercise, cell: str) -> list[str]:
    """The answer's tokens without comments and spaces, names replaced by the order of their first use, constants by theirs."""
    text = re.sub(r"/\*.*?\*/", " ", cell, flags=re.DOTALL)
    text = re.sub(r"//[^\n]*" if exercise.kind == "cuda" else r"#[^\n]*", " ", text)
    for name in exercise.constants:
        text = re.sub(rf"\b({re.escape(name)}\s*=\s*)[\w.']+", rf"\g<1>{name}", text)
    order: dict[str, str] = {word: word for word in KEPT}
    found = []
    for token in re.findall(r"[A-Za-z_]\w*|\d[\w.]*|\S", text):
        found.append(order.setdefault(token, f"n{len(order)}") if re.match(r"[A-Za-z_]", token) else token)
    return found
