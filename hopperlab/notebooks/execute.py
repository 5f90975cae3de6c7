"""Running a notebook top to bottom on this machine and storing its outputs, each stamped with the place it came from.

Needs nbclient and ipykernel, no network. Widget state is dropped (its ids are random); what a cell shows without widgets stays.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from . import build, hashes

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
PLACE_LINE = "hopperlab: kernels run"      # what the runtime says on standard error when it chose the place by itself
CELL_LIMIT = 600         # seconds a cell may take before the run is given up
MARK = "hopperlab-place:"
ASK = f"""
import json as _json
from hopperlab.notebooks import place as _place
print({MARK!r} + _json.dumps(_place.describe()))
del _json, _place
"""


def execute(path: Path, backend: str | None = None) -> tuple[Path, float, dict]:
    """Execute the notebook at `path` in place; returns (path, seconds, place).

    backend: 'gpu', 'emulator' or None (HOPPERLAB_BACKEND, else automatic). Raises nbclient's CellExecutionError when a
    cell raises, and leaves the stored file untouched then.
    """
    notebook = nbformat.read(path, as_version=4)
    began = time.perf_counter()
    place = run(notebook, path.parent, backend)
    seconds = time.perf_counter() - began
    clean(notebook)
    stamp(notebook, place)
    build.write(notebook, path)
    return path, seconds, place


def run(notebook: nbformat.NotebookNode, folder: Path, backend: str | None = None) -> dict:
    """Run every cell of `notebook` in a fresh kernel in `folder`, counts from 1; returns what the kernel said of its place."""
    client = NotebookClient(notebook, timeout=CELL_LIMIT, kernel_name="python3", coalesce_streams=True, resources={"metadata": {"path": str(folder)}})
    with client.setup_kernel(env=_environment(backend)):
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type == "code":
                client.execute_cell(cell, index)
        place = _ask_place(client)
    for count, cell in enumerate(build.code_cells(notebook), 1):
        _recount(cell, count)
    return place


def _environment(backend: str | None) -> Mapping[str, str]:
    chosen = {"HOPPERLAB_BACKEND": backend} if backend else {}
    search = os.pathsep.join(filter(None, [str(hashes.ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": search, "PYTHONHASHSEED": "0", **chosen}


def _ask_place(client: NotebookClient) -> dict:
    probe = nbformat.v4.new_code_cell(ASK)
    client.nb.cells.append(probe)
    try:
        client.execute_cell(probe, len(client.nb.cells) - 1, store_history=False)
    finally:
        client.nb.cells.remove(probe)
    text = "".join(output.get("text", "") for output in probe.outputs)
    found = re.search(re.escape(MARK) + r"(\{.*\})", text)
    if not found:
        raise RuntimeError(f"the kernel did not say where it runs; it printed: {text!r}")
    return json.loads(found[1])


def _recount(cell: nbformat.NotebookNode, count: int) -> None:
    cell.execution_count = count
    for output in cell.outputs:
        if output.output_type == "execute_result":
            output.execution_count = count


def clean(notebook: nbformat.NotebookNode) -> None:
    """Drop what differs from run to run and helps no reader: widget views and state, execution times, the kernel's version, the line that names the place."""
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in build.code_cells(notebook):
        cell.metadata.pop("execution", None)
        kept = []
        for output in cell.outputs:
            if output.get("name") == "stderr" and output.text.startswith(PLACE_LINE):
                continue
            data = output.get("data")
            if data is not None:
                data.pop(WIDGET_VIEW, None)
                if not data:
                    continue
            kept.append(output)
        cell.outputs = kept


def stamp(notebook: nbformat.NotebookNode, place: Mapping[str, str]) -> None:
    """Write place and hash into every code cell's metadata."""
    code = build.code_cells(notebook)
    for cell, digest in zip(code, hashes.cell_hashes([c.source for c in code])):
        cell.metadata["hopperlab"] = {"place": dict(place), "hash": digest}
