# SPDX-License-Identifier: Apache-2.0
"""Whether the stored notebooks are what their sources say, executed whole and not stale. Each finding is one line.

Imported by the tests; `python -m hopperlab.authoring check` prints the findings.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path

import nbformat

from ..stamps import made_of
from . import build, lesson_source, solutions

MAX_CODE_CELLS, MAX_CELL_LINES, MAX_COLUMNS, MAX_BYTES = 25, 15, 110, 220_000
FOLDERS = re.compile(r"/(?:root|home|tmp|work|opt|usr)/[\w.-]+")
PLAIN_ONLY = {"text/plain"}


def check(path: Path) -> list[str]:
    """Findings for one lesson source and its notebook; an empty list means all is well."""
    target = build.notebook_path(path)
    if not target.exists():
        return [f"{target.name}: missing; run `python -m hopperlab.authoring build {path.stem}`"]
    notebook = nbformat.read(target, as_version=4)
    findings = _same_as_source(notebook, build.assemble(lesson_source.read(path))) + check_outputs(notebook) + _shape(notebook)
    size = _bytes_without_stamps(notebook)
    if size > MAX_BYTES:
        findings.append(f"is {size} bytes without its stamps, more than {MAX_BYTES}")
    return [f"{target.name}: {finding}" for finding in findings]


def _bytes_without_stamps(notebook: nbformat.NotebookNode) -> int:
    """The size of the file, but for what its cells' metadata says of their making."""
    bare = copy.deepcopy(notebook)
    for cell in bare.cells:
        cell.metadata.pop("hopperlab", None)
    return len(nbformat.writes(bare).encode())


def check_solution(path: Path) -> list[str]:
    """Findings for one source of exercises and its solution notebook."""
    target = build.notebook_path(path)
    if not target.exists():
        return [f"solutions/{target.name}: missing; run `python -m hopperlab.authoring build {path.stem}`"]
    notebook = nbformat.read(target, as_version=4)
    findings = _same_as_source(notebook, solutions.notebook(lesson_source.read(path))) + check_outputs(notebook)
    return [f"solutions/{target.name}: {finding}" for finding in findings]


def _same_as_source(notebook: nbformat.NotebookNode, made: nbformat.NotebookNode) -> list[str]:
    stored, written = ([(c.id, c.cell_type, c.source, {k: v for k, v in c.metadata.items() if k != "hopperlab"}) for c in found.cells]
                       for found in (notebook, made))
    if stored == written:
        return []
    at = next((i for i, (a, b) in enumerate(zip(stored, written)) if a != b), min(len(stored), len(written)))
    name = written[at][0] if at < len(written) else stored[at][0]
    return [f"differs from its source from cell {name!r} on; build it again"]


def check_outputs(notebook: nbformat.NotebookNode) -> list[str]:
    """Counts 1..n, no error outputs, a fresh hash and a place on every code cell, outputs somewhere, and only plain text where nbval compares."""
    findings, code = [], build.code_cells(notebook)
    counts = [cell.execution_count for cell in code]
    if counts != list(range(1, len(code) + 1)):
        findings.append(f"execution counts are {counts}, not 1..{len(code)}")
    if not any(cell.outputs for cell in code):
        findings.append("has no stored outputs")
    stale = made_of.stale(notebook)
    for cell in code:
        if cell.id in stale:
            findings.append(f"cell {cell.id!r} is stale: {_why(stale[cell.id])}; run `make restamp`")
        findings += _cell_findings(cell)
    return findings


def _why(parts: list[str]) -> str:
    return f"{' and '.join(made_of.WORDS[part] for part in parts)} changed since its output was stored" if parts else "it has not been run"


def not_compared(path: Path) -> str:
    """What this machine cannot tell of a notebook, in words; empty when it can tell everything."""
    today = made_of.now(nbformat.read(path, as_version=4)) if path.exists() else {}
    cells = [name for name, parts in today.items() if parts.get("kernels") == made_of.UNKNOWN]
    return f"{path.name}: whether the kernels of {len(cells)} cells changed needs {made_of.toolchain_name()}, which is not installed here" if cells else ""


def _cell_findings(cell: nbformat.NotebookNode) -> list[str]:
    findings = []
    if not cell.metadata.get("hopperlab", {}).get("place", {}).get("backend"):
        findings.append(f"cell {cell.id!r} does not say where its output came from")
    ignored = made_of.is_ignored(cell)
    for output in cell.outputs:
        if output.output_type == "error":
            findings.append(f"cell {cell.id!r} stored an error: {output.ename}: {output.evalue}")
        rich = set(output.get("data", {})) - PLAIN_ONLY
        if rich and not ignored:
            findings.append(f"cell {cell.id!r} shows {sorted(rich)} but is compared; mark it `ignore`")
        if FOLDERS.search(str(output)):
            findings.append(f"cell {cell.id!r} shows a folder of the machine it ran on: {FOLDERS.search(str(output))[0]!r}")
        if output.get("name") == "stderr":
            findings.append(f"cell {cell.id!r} wrote to stderr: {output.text[:120]!r}")
    return findings


def _shape(notebook: nbformat.NotebookNode) -> list[str]:
    """How long a lesson and its cells are. Cells of %%repair do not count: they hold lines of a kernel, as listings do."""
    code = [cell for cell in build.own_cells(notebook) if not cell.source.startswith("%%repair ")]
    findings = [f"has {len(code)} code cells, more than {MAX_CODE_CELLS}"] if len(code) > MAX_CODE_CELLS else []
    for cell in code:
        lines = cell.source.count("\n") + 1
        if lines > MAX_CELL_LINES:
            findings.append(f"cell {cell.id!r} has {lines} lines, more than {MAX_CELL_LINES}")
        widest = max(map(len, cell.source.split("\n")))
        if widest > MAX_COLUMNS:
            findings.append(f"cell {cell.id!r} has a line of {widest} characters, more than {MAX_COLUMNS}")
    return findings


def places(notebook: Path) -> str:
    """Where the stored outputs of one notebook came from, in words: 'NVIDIA H200, driver 580…, CUDA 13.0' or 'emulator'."""
    if not notebook.exists():
        return "nowhere"
    found = []
    for cell in build.code_cells(nbformat.read(notebook, as_version=4)):
        place = cell.metadata.get("hopperlab", {}).get("place", {})
        words = f"{place['gpu']}, driver {place['driver']}, CUDA {place['cuda']}" if "gpu" in place else place.get("backend", "nowhere")
        if words not in found:
            found.append(words)
    return "; ".join(found) or "nowhere"
