# SPDX-License-Identifier: Apache-2.0
"""Mutations of the lessons' kernels, and whether a lesson's compared cell notices them, as nbval compares.

`tests/notebooks/mutations.toml` lists them. Each is applied to a copy of the kernels, only the cells that the compared one needs are run, and
nbval's own comparison sees its outputs beside the stored ones. Needs nbval; runs in the emulator.
"""

from __future__ import annotations

import ast
import contextlib
import io
import shutil
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import nbformat

from ...runtime import library
from ...runtime.compile import toolchain
from ...runtime.errors import CompileError, ToolchainError
from ..stamps.cell_flow import needed
from . import build

FIELDS = {"mechanism", "lesson", "cell", "file", "in_cell", "find", "into", "needs"}
NOT_COMPARED = ("metadata", "traceback", "prompt_number", "output_type", "name", "execution_count", "application/vnd.jupyter.widget-view+json",
                "image/png", "image/jpeg")


UNFIT = (CompileError, ToolchainError, NameError, SyntaxError, ImportError)         # a mutation that breaks the program instead of changing it


class MutationError(ValueError):
    """An entry that cannot be applied: it names a file, cell or text that is not there, or does not compile."""


@dataclass(frozen=True)
class Mutation:
    """One change and the compared cell that must notice it.

    mechanism: what is taken away, in the words of the curriculum. lesson: its number. cell: the compared cell's id. file: a kernel or header below
    hopperlab/kernels (or in_cell: the id of a code cell) in which the text `find`, which occurs once, becomes `into`. needs: cells
    to run before, where the names they define do not say so.
    """

    mechanism: str
    lesson: str
    cell: str
    find: str
    into: str
    file: str = ""
    in_cell: str = ""
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What tests and messages call it."""
        return f"{self.lesson}: {self.mechanism} ({self.cell})"


def read(path: Path) -> list[Mutation]:
    """The entries of a mutations.toml. Raises MutationError for one that lacks something or says the same twice."""
    found = []
    for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("mutation", []):
        what = entry.get("mechanism", "an entry without a mechanism")
        if set(entry) - FIELDS:
            raise MutationError(f"{what}: unknown {sorted(set(entry) - FIELDS)}; known: {sorted(FIELDS)}")
        missing = {"mechanism", "lesson", "cell", "find", "into"} - set(entry)
        if missing or ("file" in entry) == ("in_cell" in entry):
            raise MutationError(f"{what}: needs {sorted(missing) or 'either file or in_cell'}")
        found.append(Mutation(**entry | {"needs": tuple(entry.get("needs", ()))}))
    if len({m.name for m in found}) < len(found):
        raise MutationError(f"named twice: {sorted({m.name for m in found if [n.name for n in found].count(m.name) > 1})}")
    return found


def outcome(mutation: Mutation | None, lesson: str, cell: str, needs: Sequence[str] = ()) -> str:
    """What nbval says of the compared cell with the mutation applied (None: with nothing changed): '' when it passes, else why it fails.

    Raises MutationError when the entry does not apply or does not compile; without a mutation, whatever a cell raises.
    """
    notebook = _notebook(lesson)
    sources = {c.id: c.source for c in build.own_cells(notebook)}
    stored = _compared(notebook, cell)
    if mutation is not None and mutation.in_cell:
        sources[mutation.in_cell] = replaced(sources.get(mutation.in_cell, ""), mutation, f"cell {mutation.in_cell!r}")
    chosen = needed(sources, cell, needs)
    if mutation is not None and mutation.in_cell and mutation.in_cell not in chosen:
        raise MutationError(f"{mutation.name}: {cell!r} does not run {mutation.in_cell!r}")
    with kernels_with(mutation):
        try:
            outputs = run([sources[name] for name in chosen])
        except UNFIT as problem:
            raise MutationError(f"{mutation.name if mutation else cell}: {type(problem).__name__}: {problem}") from problem
        except Exception as problem:        # nbval fails a cell that raises, whatever it raises
            if mutation is None:
                raise
            return f"{type(problem).__name__}: {(str(problem).splitlines() or [''])[0]}"
    return compare(outputs, stored)


def _notebook(lesson: str) -> nbformat.NotebookNode:
    paths = [path for path in build.lesson_sources() if path.stem.split("_")[0] == lesson]
    if not paths:
        raise MutationError(f"there is no lesson {lesson!r}")
    return nbformat.read(build.notebook_path(paths[0]), as_version=4)


def _compared(notebook: nbformat.NotebookNode, cell: str) -> list:
    found = next((c for c in build.code_cells(notebook) if c.id == cell), None)
    if found is None:
        raise MutationError(f"the lesson has no code cell {cell!r}")
    if "nbval-ignore-output" in found.metadata.get("tags", []):
        raise MutationError(f"nbval does not compare the cell {cell!r}")
    return found.outputs


def replaced(text: str, mutation: Mutation, where: str) -> str:
    """The text with the change made. Raises MutationError unless `find` occurs exactly once."""
    count = text.count(mutation.find)
    if count != 1:
        raise MutationError(f"{mutation.name}: {mutation.find!r} occurs {count} times in {where}, not once")
    return text.replace(mutation.find, mutation.into)


@contextlib.contextmanager
def kernels_with(mutation: Mutation | None) -> Iterator[None]:
    """The course's kernels, with the mutation in one of them, for whoever compiles inside the block."""
    if mutation is None or not mutation.file:
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        kernels = Path(folder).resolve() / "kernels"
        shutil.copytree(toolchain.KERNELS, kernels, ignore=shutil.ignore_patterns("__pycache__"))
        file = kernels / mutation.file
        if not file.is_file():
            raise MutationError(f"{mutation.name}: there is no kernel file {mutation.file!r}")
        file.write_text(replaced(file.read_text(encoding="utf-8"), mutation, mutation.file), encoding="utf-8")
        with mock.patch.object(toolchain, "KERNELS", kernels), mock.patch.object(toolchain, "OWN_INCLUDE", kernels / "include"), \
                mock.patch.object(library, "KERNELS", kernels):
            toolchain.include_directories.cache_clear()
            try:
                yield
            finally:
                toolchain.include_directories.cache_clear()


def run(cells: Sequence[str]) -> list[dict]:
    """Run cell sources in one fresh namespace; returns the outputs of the last one, as a notebook stores them."""
    return list(run_each(cells))[-1]


def run_each(cells: Iterable[str]) -> Iterator[list[dict]]:
    """Run cell sources one by one in one fresh namespace; yields the outputs of each, as a notebook stores them."""
    space: dict = {"__name__": "__main__"}
    for text in cells:
        printed, value = io.StringIO(), None
        tree = _tree(text)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, "<cell>", "exec"), space)        # noqa: S102 - a lesson's own cell
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), space) if last else None
        outputs = [{"output_type": "stream", "name": "stdout", "text": printed.getvalue()}] if printed.getvalue() else []
        yield outputs + ([{"output_type": "execute_result", "data": {"text/plain": repr(value)}, "metadata": {}}] if value is not None else [])


def _tree(text: str) -> ast.Module:
    """A cell as Python; one of %%repair as the call that it is."""
    if not text.startswith("%%repair"):
        return ast.parse(text)
    line, _, body = text.partition("\n")
    return ast.parse(f"from hopperlab.lessons.magic import repair as _repair; _repair({line[9:]!r}, {body!r}); _repair = None")


def compare(outputs: Sequence[dict], stored: Sequence[dict]) -> str:
    """nbval's verdict on outputs beside stored ones: '' when they are equal, else its first lines."""
    from nbval.plugin import IPyNbCell, nocolors

    told: list[str] = []
    this = SimpleNamespace(parent=SimpleNamespace(skip_compare=NOT_COMPARED), colors=nocolors, sanitize=lambda text: text, comparison_traceback=[],
                           format_output_compare=lambda key, left, right: told.append(f"{key}: {left!r} is not {right!r}"))
    equal = IPyNbCell.compare_outputs(this, [nbformat.from_dict(o) for o in outputs], [nbformat.from_dict(o) for o in stored])
    return "" if equal else ("; ".join([*told, *map(str, this.comparison_traceback)]) or "the outputs differ")[:400]
