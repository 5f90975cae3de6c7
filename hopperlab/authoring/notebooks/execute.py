# SPDX-License-Identifier: Apache-2.0
"""Running a notebook top to bottom on this machine and storing its outputs, each stamped with the place it came from.

Needs nbclient and ipykernel, no network. Widget state is dropped (its ids are random); what a cell shows without widgets stays.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from ...grading import generate
from .. import hashes
from ..stamps import made_of
from . import build

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
CELL_LIMIT = 600         # seconds a cell may take before the run is given up
MARK = "hopperlab-place:"
ASK = f"""
import json as _json
from hopperlab.authoring.notebooks import place as _place
print({MARK!r} + _json.dumps(_place.describe()))
del _json, _place
"""
RECORD = """
from hopperlab.authoring.notebooks import recorder as _recorder
_recorder.install(get_ipython())
del _recorder
"""
WRITE_NOTES = """
from hopperlab.authoring.notebooks import recorder as _recorder
_recorder.write({path!r})
del _recorder
"""


@dataclass(frozen=True)
class Ran:
    """What a run tells besides its outputs: the place (place.describe), and for each code cell what it used (recorder.py)."""

    place: dict
    notes: list[dict]


def execute(path: Path, backend: str | None = None) -> tuple[Path, float, dict]:
    """Execute the notebook at `path` in place; returns (path, seconds, place).

    backend: 'gpu', 'emulator' or None (HOPPERLAB_BACKEND, else automatic). Raises nbclient's CellExecutionError when a
    cell raises, and leaves the stored file untouched then.
    """
    notebook = nbformat.read(path, as_version=4)
    began = time.perf_counter()
    ran = run(notebook, path.parent, backend)
    seconds = time.perf_counter() - began
    clean(notebook)
    stamp(notebook, ran)
    build.write(notebook, path)
    return path, seconds, ran.place


def run(notebook: nbformat.NotebookNode, folder: Path, backend: str | None = None, progress: Callable[[int, int], None] | None = None) -> Ran:
    """Run every cell of `notebook` in a fresh kernel in `folder`, counts from 1; returns what the kernel said of its place and noted of each cell.

    progress: called before each code cell with how many have run and how many there are.
    """
    code = build.code_cells(notebook)
    client = NotebookClient(notebook, timeout=CELL_LIMIT, kernel_name="python3", coalesce_streams=True, resources={"metadata": {"path": str(folder)}},
                            extra_arguments=["--log-level=ERROR"])
    with client.setup_kernel(env=_environment(backend)), tempfile.TemporaryDirectory() as notes:
        _hidden(client, RECORD)
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type == "code":
                if progress is not None:
                    progress(code.index(cell), len(code))
                client.execute_cell(cell, index)
        file = Path(notes) / "notes.json"
        _hidden(client, WRITE_NOTES.format(path=str(file)))
        ran = Ran(_ask_place(client), json.loads(file.read_text(encoding="utf-8")))
    for count, cell in enumerate(code, 1):
        recount(cell, count)
    return ran


def _environment(backend: str | None) -> Mapping[str, str]:
    chosen = {"HOPPERLAB_BACKEND": backend} if backend else {}
    search = os.pathsep.join(filter(None, [str(hashes.ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": search, "PYTHONHASHSEED": "0", **chosen}


def _hidden(client: NotebookClient, source: str) -> str:
    """Run a cell that is not the notebook's; returns what it printed."""
    probe = nbformat.v4.new_code_cell(source)
    client.nb.cells.append(probe)
    try:
        client.execute_cell(probe, len(client.nb.cells) - 1, store_history=False)
    finally:
        client.nb.cells.remove(probe)
    return "".join(output.get("text", "") for output in probe.outputs)


def _ask_place(client: NotebookClient) -> dict:
    text = _hidden(client, ASK)
    found = re.search(re.escape(MARK) + r"(\{.*\})", text)
    if not found:
        raise RuntimeError(f"the kernel did not say where it runs; it printed: {text!r}")
    return json.loads(found[1])


def recount(cell: nbformat.NotebookNode, count: int) -> None:
    cell.execution_count = count
    for output in cell.outputs:
        if output.output_type == "execute_result":
            output.execution_count = count


def clean(notebook: nbformat.NotebookNode) -> None:
    """Drop what differs from run to run and helps no reader: widget views and state, execution times, the kernel's version, the line that names the place, and the
    times that a check of speed tells beside its line."""
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in build.code_cells(notebook):
        cell.metadata.pop("execution", None)
        kept = []
        timed = (generate.role(cell) or ("",))[0] == generate.FAST
        for output in build.without_places(cell.outputs):
            if timed and output.get("name") == "stderr":
                continue
            data = output.get("data")
            if data is not None:
                data.pop(WIDGET_VIEW, None)
                if not data:
                    continue
            kept.append(output)
        cell.outputs = kept


def stamp(notebook: nbformat.NotebookNode, ran: Ran) -> None:
    """Write into every code cell's metadata where its output came from, what it used, and hashes of what it is made of."""
    code = build.code_cells(notebook)
    cells = {cell.id: cell.source for cell in code}
    for cell, noted in zip(code, ran.notes, strict=True):
        cell.metadata["hopperlab"] = {"place": dict(ran.place), "uses": made_of.uses(noted, cells)}
    now = made_of.now(notebook)
    for cell in code:
        cell.metadata["hopperlab"]["made_of"] = now[cell.id]
