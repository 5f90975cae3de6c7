# SPDX-License-Identifier: Apache-2.0
"""nbval's judgement of a notebook: the pristine cells and the learner's answers, in a kernel that runs inside the sandbox.

Before anything runs, every answer cell must be one that answers.py takes. pytest, nbval and what they compare with stay outside;
nbval_plugin.py starts the kernel and writes down which cells passed.
"""
from __future__ import annotations

import ast
import errno
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from ..checking import answers
from . import generate, sandbox, supervise
from ..checking.exercise import PYTHON
from ..lessons.catalogue import find
from .sandbox import Limits
from .verdict import ENDED, clean

CONNECTION_BYTES = 1 << 20     # of the folder that holds the sockets between nbval and the kernel
OUTSIDE_PROCESSES = 24         # pytest, nbval and their threads do not count as the notebook's
OUTSIDE_MEMORY = 1 << 30
START_SECONDS = 30.0
ROOM_BYTES = 1 << 20           # free on the disk of temporary files, or what is missing afterwards says nothing of the answer
START = "import sys; sys.modules['rfc3987_syntax'] = None; import pytest; raise SystemExit(pytest.main())"
"""Starts pytest without jsonschema's optional check of international addresses: notebooks hold none, and its grammar takes one to two seconds to build."""
KERNEL = ("-m", "ipykernel_launcher", "-f", "{connection_file}", "--HistoryManager.enabled=False")


@dataclass(frozen=True)
class NbvalResult:
    """What nbval said of each code cell, by cell id: True only for a test that ran and passed. `error`: '' or why not all of them ran."""

    cells: dict[str, bool] = field(default_factory=dict)
    error: str = ""
    seconds: float = 0.0
    messages: dict[str, str] = field(default_factory=dict)
    """By cell id, what nbval said of a cell that did not pass: the exception's text, or that its output differs."""


def run(notebook: NotebookNode, limits: Limits = Limits(), unsafe: bool = False) -> NbvalResult:
    """Run a pristine notebook, answers in place and hidden checks taken out, under nbval. A dead kernel, an answer that is refused, too
    much output or a limit gives no credit to the cells from there on. Raises SandboxError where nothing isolates and `unsafe` was not given, OSError
    (ENOSPC) where there is no room for temporary files."""
    sandbox.required(unsafe)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    none = dict.fromkeys((cell.id for cell in code), False)
    refused = _refused(code)
    if refused:
        return NbvalResult(none, refused)
    with tempfile.TemporaryDirectory(prefix="hl-", dir="/tmp") as name:
        folder = Path(name)
        _room(folder)
        with _connections(folder, unsafe) as (connections, front):
            _write(folder, notebook, connections, limits, unsafe)
            done = supervise.run([*front, *_pytest(folder, limits)], seconds=limits.seconds, memory_bytes=limits.memory_bytes + OUTSIDE_MEMORY,
                                 output_bytes=limits.output_bytes, processes=limits.processes + sandbox.OWN_PROCESSES + OUTSIDE_PROCESSES,
                                 cwd=folder, env=environment())
        passed, messages, finished = _results(folder)
        if not finished:
            _room(folder)
    error = f"The notebook {ENDED[done.killed]}." if done.killed else "" if finished else "nbval did not finish."
    return NbvalResult({name: passed.get(name, False) for name in none}, error, done.seconds, messages)


def _room(folder: Path) -> None:
    """Raises OSError where the disk is full: an answer would else count as wrong for it."""
    if shutil.disk_usage(folder).free < ROOM_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder.parent))


def _refused(code: Sequence[NotebookNode]) -> str:
    """Why an answer cell is not run ('' when all may be). Leaves out of the cells what only tries an answer."""
    for cell in code:
        role = generate.role(cell)
        if role and role[0] == generate.ANSWER:
            try:
                exercise = find(role[1])
                cell.source = answers.to_run(exercise, cell.source)
                if exercise.kind == PYTHON:
                    _as_written(cell.source)
            except answers.Refused as refused:
                return clean(f"{role[1]} was not tried: {refused}.")
    return ""


def _as_written(text: str) -> None:
    """Raises Refused for Python that IPython would change before it runs it, such as lines after a prompt."""
    from IPython.core.inputtransformer2 import TransformerManager
    try:
        same = ast.dump(ast.parse(TransformerManager().transform_cell(text))) == ast.dump(ast.parse(text))
    except Exception:                                   # of whatever kind: then IPython cannot read it
        same = False
    if not same:
        raise answers.Refused("IPython would read the answer as something else than Python does (a prompt or a magic in it)")


@contextmanager
def _connections(folder: Path, unsafe: bool) -> Iterator[tuple[Path, list[str]]]:
    """A folder for the sockets that both sides may write to, and what stands in front of pytest: with bubblewrap the folder is a file
    system of its own, so that filling it fills nothing else."""
    shared = folder / "c"
    shared.mkdir(mode=0o700)
    front: list[str] = []
    if sandbox.required(unsafe) == "bubblewrap":
        front = ["bwrap", "--dev-bind", "/", "/", "--size", str(CONNECTION_BYTES), "--perms", "0711", "--tmpfs", str(shared), "--die-with-parent", "--"]
    yield shared, front


def _write(folder: Path, notebook: NotebookNode, connections: Path, limits: Limits, unsafe: bool) -> None:
    """The notebook and the plugin's settings."""
    nbformat.write(notebook, folder / "notebook.ipynb")
    argv = sandbox.command([sys.executable, *KERNEL], read_only=[sandbox.PACKAGE], writable=connections, limits=limits, unsafe=unsafe)
    settings = {"kernel": argv, "connections": str(connections), "results": str(folder / "results.json"), "output_bytes": limits.output_bytes,
                "isolated": not unsafe}
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")


def _pytest(folder: Path, limits: Limits) -> list[str]:
    return [sys.executable, "-c", START, "-p", "nbval.plugin", "--nbval", f"--nbval-cell-timeout={limits.cell_seconds:g}",
            f"--nbval-kernel-startup-timeout={START_SECONDS:g}",
            "-p", "hopperlab.grading.nbval_plugin", f"--sandboxed-kernel={folder / 'settings.json'}", "-p", "no:cacheprovider", "-q", "--tb=no", "--color=no",
            "-c", os.devnull, f"--rootdir={folder}", str(folder / "notebook.ipynb")]


def environment() -> dict[str, str]:
    """pytest's: nothing of the caller's but where programs are; this package is the one that is imported."""
    return {"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": str(sandbox.PACKAGE.parent), "LANG": "C.UTF-8", "HOME": "/nonexistent",
            "PYTHONDONTWRITEBYTECODE": "1", "JUPYTER_PLATFORM_DIRS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def _results(folder: Path) -> tuple[dict[str, bool], dict[str, str], bool]:
    """Passed cells, messages, and whether pytest came to its end."""
    try:
        written = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}, {}, False
    return written["passed"], {name: clean(text) for name, text in written["messages"].items()}, written["finished"]


__all__ = ["NbvalResult", "run"]
