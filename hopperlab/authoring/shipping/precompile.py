# SPDX-License-Identifier: Apache-2.0
"""Collecting the PTX that ships with the package: run a lesson here, try every setting of its panels, keep what was compiled.

`python -m hopperlab.authoring precompile [lessons]`; needs NVRTC, no GPU. A lesson whose code cells are as they were is not run, unless it edits
the course's kernels: what its archive holds is compiled again. A lesson's archive carries a stamp of its code cells and kernels, so that a
test notices when it is out of date.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat

from ...grading import generate, regions
from ...runtime import probe
from ...runtime.compile import precompiled_ptx, toolchain
from ...runtime.compile.nvrtc import Source, compile_source
from .. import hashes
from ..notebooks import build, execute, lesson_source

PROBE = "doctor"
EXERCISES = "exercises"         # the archive of all exercises: solutions, and what learners start from
SWEEP = """
import gc as _gc
from hopperlab.authoring.shipping import precompile as _precompile
from hopperlab.show import Panel as _Panel
for _panel in [o for o in _gc.get_objects() if isinstance(o, _Panel)]:
    _precompile.try_settings(_panel)
"""


def archive(path: Path) -> Path:
    """Where the archive of a lesson's source stands."""
    return precompiled_ptx.FOLDER / f"{path.stem}{precompiled_ptx.SUFFIX}"


def drop_others(lessons: Iterable[Path]) -> None:
    """Remove the archives that belong to none of these lessons, nor to the exercises or the probe."""
    kept = {*map(archive, lessons), exercises_archive(), _probe_archive()}
    for path in set(precompiled_ptx.FOLDER.glob(f"*{precompiled_ptx.SUFFIX}")) - kept:
        path.unlink()


def stamp(path: Path) -> str:
    """Changes whenever a code cell of the lesson, a kernel file that one of them names, or the pinned compiler does."""
    code = "\n\n".join(cell.text for cell in lesson_source.read(path).cells if cell.kind == "code")
    kernels = [toolchain.read_source(file) for file in hashes.kernel_files(code)]
    return hashlib.sha256("\n\n".join([hashes.toolchain(), code, *kernels]).encode()).hexdigest()[:16]


def cells_stamp(path: Path) -> str:
    """Changes whenever a code cell of the lesson does."""
    return hashlib.sha256("\n\n".join(cell.text for cell in lesson_source.read(path).cells if cell.kind == "code").encode()).hexdigest()[:16]


def bring_up_to_date(path: Path) -> tuple[int, int]:
    """Write the lesson's archive anew: by compiling what it holds again where only kernels changed, else by running the lesson. A lesson that
    edits a kernel of the course is run as well: what is stored is the old kernel's text, edited.

    Returns (kernels, bytes).
    """
    file = archive(path)
    if not file.is_file() or precompiled_ptx.read(file).get("cells") != cells_stamp(path):
        return collect(path)
    stored = list(precompiled_ptx.read(file)["entries"].values())
    if any((toolchain.KERNELS / entry["name"]).is_file() != (entry["code"] is None) for entry in stored):     # edited, or gone
        return collect(path)
    with recorded() as entries:
        for entry in stored:
            kernel = toolchain.KERNELS / entry["name"]
            code = toolchain.read_source(kernel) if entry["code"] is None else entry["code"]
            compile_source(Source(code, entry["name"], tuple(entry["options"]), tuple(entry["name_expressions"]), entry["arch"]), only_nvrtc=True)
    return len(entries), precompiled_ptx.write(file, stamp(path), cells_stamp(path), entries)


def collect(path: Path) -> tuple[int, int]:
    """Run the lesson in the emulator, with every setting of its panels, and write its archive. Returns (kernels, bytes).

    Raises CellExecutionError when a cell raises.
    """
    notebook = build.assemble(lesson_source.read(path))
    notebook.cells.append(nbformat.v4.new_code_cell(SWEEP))
    with recorded() as entries:
        execute.run(notebook, path.parent.parent, "emulator")
    return len(entries), precompiled_ptx.write(archive(path), stamp(path), cells_stamp(path), entries)


def exercises_archive() -> Path:
    """Where the archive of the exercises stands."""
    return precompiled_ptx.FOLDER / f"{EXERCISES}{precompiled_ptx.SUFFIX}"


def exercises_stamp() -> str:
    """Changes whenever a code cell of a solution notebook, one of the course's headers or the pinned compiler does."""
    code = [cell.source for path in generate.solutions(hashes.ROOT) for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    headers = [toolchain.read_source(path) for path in sorted((toolchain.KERNELS / "include").rglob("*.cuh"))]
    return hashlib.sha256("\n\n".join([hashes.toolchain(), *code, *headers]).encode()).hexdigest()[:16]


def collect_exercises() -> tuple[int, int]:
    """Run every solution notebook in the emulator, compile its answers as somebody would hand them in and what learners start from, and write
    the archive. Returns (kernels, bytes). Raises CellExecutionError when a check fails."""
    from ...runtime.module import RawModule

    with recorded() as entries:
        for path in generate.solutions(hashes.ROOT):
            notebook = nbformat.read(path, as_version=4)
            for cell in generate.answers_of(notebook).values():
                if cell.startswith("%%cuda "):
                    for text in (cell, regions.solution_without_stubs(cell), regions.without_solutions(cell)):
                        first, code = text.split("\n", 1)
                        for ended in (code, code + "\n"):          # as a file holds it, and as IPython hands it over
                            RawModule(code=ended, name=f"{first.split()[1]}.cu", backend="emulator")
            execute.run(notebook, path.parent, "emulator")
    return len(entries), precompiled_ptx.write(exercises_archive(), exercises_stamp(), "", entries)


def collect_probe() -> tuple[int, int]:
    """The small kernel that `hopperlab doctor` launches."""
    with recorded() as entries:
        probe.compiled("emulator")
    return len(entries), precompiled_ptx.write(_probe_archive(), "", "", entries)


def _probe_archive() -> Path:
    return precompiled_ptx.FOLDER / f"{PROBE}{precompiled_ptx.SUFFIX}"


@contextmanager
def recorded() -> Iterator[dict[str, dict[str, Any]]]:
    """A dictionary of entries by key, filled when the block ends with what this process and its children compiled in it."""
    entries: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("HOPPERLAB_RECORD_PTX")
        os.environ["HOPPERLAB_RECORD_PTX"] = folder
        try:
            yield entries
        finally:
            if before is None:
                del os.environ["HOPPERLAB_RECORD_PTX"]
            else:
                os.environ["HOPPERLAB_RECORD_PTX"] = before
        entries.update((file.stem, json.loads(file.read_text())) for file in Path(folder).glob("*.json"))


def try_settings(panel: Any) -> int:
    """Call the panel's launch while kernels compile but do not run: each control over its values, and those controls that change what
    is compiled in every combination. Returns how many settings were tried.
    """
    from itertools import product
    from unittest import mock

    import hopperlab as hl

    controls = {name: [control.start, *(v for v in control.values if v != control.start)] for name, control in panel._controls.items()}
    start = {name: values[0] for name, values in controls.items()}
    compiled, tried = _compiled(), 0
    with mock.patch.object(hl.RawKernel, "__call__", lambda *args, **kwargs: None):
        matters = []
        for name, values in controls.items():
            for value in values:
                _try(panel, start | {name: value})
            tried += len(values)
            if _compiled() > compiled:
                matters.append(name)
                compiled = _compiled()
        for values in product(*(controls[name] for name in matters)):
            _try(panel, start | dict(zip(matters, values, strict=True)))
            tried += 1
    return tried


def _compiled() -> int:
    """How many compilations have been recorded so far."""
    return sum(1 for _ in Path(os.environ["HOPPERLAB_RECORD_PTX"]).glob("*.json"))


def _try(panel, values: dict) -> None:
    with contextlib.suppress(Exception):        # an illegal setting, or a picture of a run that did not happen
        panel._launch(**values)
