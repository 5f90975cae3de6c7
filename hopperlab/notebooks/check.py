"""Whether the stored notebooks are what their sources say, executed whole and not stale. Each finding is one line.

Imported by the tests; `python -m hopperlab.notebooks check` prints the findings.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat

from . import build, hashes, source

MAX_CODE_CELLS, MAX_CELL_LINES, MAX_COLUMNS, MAX_BYTES = 25, 15, 110, 200_000
FOLDERS = re.compile(r"/(?:root|home|tmp|work|opt|usr)/[\w.-]+")
PLAIN_ONLY = {"text/plain"}


def check(path: Path) -> list[str]:
    """Findings for one lesson source and its notebook; an empty list means all is well."""
    target = build.notebook_path(path)
    if not target.exists():
        return [f"{target.name}: missing; run `python -m hopperlab.notebooks build {path.stem}`"]
    notebook = nbformat.read(target, as_version=4)
    findings = _same_as_source(notebook, source.read(path)) + check_outputs(notebook) + _shape(notebook)
    if target.stat().st_size > MAX_BYTES:
        findings.append(f"is {target.stat().st_size} bytes, more than {MAX_BYTES}")
    return [f"{target.name}: {finding}" for finding in findings]


def _same_as_source(notebook: nbformat.NotebookNode, lesson: source.Lesson) -> list[str]:
    stored = [(c.id, c.cell_type, c.source) for c in notebook.cells]
    written = [(c.id, c.cell_type, c.source) for c in build.assemble(lesson).cells]
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
    for cell, digest in zip(code, hashes.cell_hashes([c.source for c in code])):
        findings += _cell_findings(cell, digest)
    return findings


def _cell_findings(cell: nbformat.NotebookNode, digest: str) -> list[str]:
    findings = []
    record = cell.metadata.get("hopperlab", {})
    if record.get("hash") != digest:
        findings.append(f"cell {cell.id!r} is stale: cell, kernel, recording or toolchain changed since its output was stored")
    if not record.get("place", {}).get("backend"):
        findings.append(f"cell {cell.id!r} does not say where its output came from")
    ignored = "nbval-ignore-output" in cell.metadata.get("tags", [])
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
    code = build.own_cells(notebook)
    findings = [f"has {len(code)} code cells, more than {MAX_CODE_CELLS}"] if len(code) > MAX_CODE_CELLS else []
    for cell in code:
        lines = cell.source.count("\n") + 1
        if lines > MAX_CELL_LINES:
            findings.append(f"cell {cell.id!r} has {lines} lines, more than {MAX_CELL_LINES}")
        widest = max(map(len, cell.source.split("\n")))
        if widest > MAX_COLUMNS:
            findings.append(f"cell {cell.id!r} has a line of {widest} characters, more than {MAX_COLUMNS}")
    return findings


def places(path: Path) -> str:
    """Where the stored outputs of one lesson came from, in words: 'NVIDIA H200, driver 580…, CUDA 13.0' or 'emulator'."""
    target = build.notebook_path(path)
    if not target.exists():
        return "nowhere"
    found = []
    for cell in build.code_cells(nbformat.read(target, as_version=4)):
        place = cell.metadata.get("hopperlab", {}).get("place", {})
        words = f"{place['gpu']}, driver {place['driver']}, CUDA {place['cuda']}" if "gpu" in place else place.get("backend", "nowhere")
        if words not in found:
            found.append(words)
    return "; ".join(found) or "nowhere"
