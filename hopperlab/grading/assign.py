# SPDX-License-Identifier: Apache-2.0
"""A class's own edition of the exercises: constants, inputs and hidden checks are drawn from a key, so that published solutions do not simply pass.

OUT/learners/ is what learners get; OUT/instructor/ holds the keyed solutions, the pristine notebooks and edition.json. The same key gives the same edition.
"""
from __future__ import annotations

import json
import shutil
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from . import generate, keys
from ..lessons.catalogue import every
from .likeness import matches_public, tokens

EDITION = "edition.json"
CELL_SECONDS = 300
WIDGETS = "application/vnd.jupyter.widget-view+json"


class AssignError(ValueError):
    """A folder that is not empty, a key that is no key, or a lesson without exercises."""


@dataclass(frozen=True)
class Edition:
    """Where an edition was written."""

    learners: Path
    instructor: Path


def write(root: Path, out: Path, key: str | None = None, lessons: Sequence[str] = (), tell: Callable[[str], None] = lambda line: None) -> Edition:
    """Write the edition of `key` below `out`: each keyed solution is run once, so that its checks, hidden ones too, are known to hold.

    key: at least 128 bits (keys.py); None makes a random one. Raises AssignError for a key that is none or can be guessed, an `out` that holds
    something, an unknown lesson, or a solution that its checks refuse.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise AssignError(f"{out} exists and is not an empty folder")
    paths = [path for path in generate.solutions(root) if not lessons or path.name.split("_")[0] in lessons]
    missing = sorted(set(lessons) - {path.name.split("_")[0] for path in paths})
    if missing or not paths:
        raise AssignError(f"no exercises to lesson {', '.join(missing)}" if missing else "no exercises found")
    key = _checked(keys.new() if key is None else key)
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
    _write_facts(made.instructor / EDITION, key, chosen)
    return made


def rekey(folder: Path) -> Path:
    """Give an edition that was made earlier a new random key; constants and the learners' notebooks stay. Returns its edition.json.

    folder: what `write` made, or its instructor/. Raises AssignError for anything else.
    """
    path = (folder / "instructor" if (folder / "instructor").is_dir() else folder) / EDITION
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        old, chosen = str(facts["key"]), {name: dict(values) for name, values in facts["exercises"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise AssignError(f"{path} is no edition of `hopperlab assign`: {problem}") from None
    key = keys.new()
    for notebook in sorted((path.parent / "solutions").glob("*.ipynb")):
        made = nbformat.read(notebook, as_version=4)
        for cell in made.cells:
            cell.source = cell.source.replace(f"hidden={old!r}", f"hidden={key!r}")
        _put(made, notebook)
    _write_facts(path, key, chosen)
    return path


def _checked(key: str) -> str:
    try:
        return keys.check(key)
    except keys.WeakKey as problem:
        raise AssignError(str(problem)) from None


def _write_facts(path: Path, key: str, chosen: Mapping[str, Mapping[str, Any]]) -> None:
    path.write_text(json.dumps({"version": keys.VERSION, "key": key, "exercises": chosen}, indent=1) + "\n", encoding="utf-8")
    path.chmod(0o600)


def executed(notebook: NotebookNode, name: str) -> NotebookNode:
    """The notebook run top to bottom in the emulator, with its outputs. Raises AssignError when a cell raises."""
    import os

    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
    from traitlets.config import Config

    folder = Path(tempfile.mkdtemp(prefix="hl-", dir="/tmp" if Path("/tmp").is_dir() else None))    # paths of sockets are short
    local = Config({"KernelManager": {"transport": "ipc", "ip": str(folder / "k")}} if hasattr(socket, "AF_UNIX") else {})      # the key goes over no network
    client = NotebookClient(notebook, timeout=CELL_SECONDS, kernel_name="python3", coalesce_streams=True, config=local)
    try:
        with client.setup_kernel(env={**os.environ, "HOPPERLAB_BACKEND": "emulator"}):
            for index, cell in enumerate(notebook.cells):
                if cell.cell_type == "code":
                    client.execute_cell(cell, index)
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as problem:
        raise AssignError(f"{name}: the solution of this edition fails its own check; please report it with the key's constants\n{problem}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
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


__all__ = ["AssignError", "Edition", "executed", "matches_public", "rekey", "tokens", "write"]
