# SPDX-License-Identifier: Apache-2.0
"""What a stored output is made of, as hashes that are computed anew without running anything: the cell's source, the kernels behind it, the recordings
and texts it read, and the definitions that draw it.

A cell's metadata says what it used when it ran (`uses`), and what that was then (`made_of`). Its output is stale when `now` says something else.

    source      the cell's text
    kernels     the PTX, without line tables, of what the cell compiled or launched, and of what was launched where its data was made
    lines       the PTX with line tables of the same kernels; only for a cell whose output names a line of a kernel (`file.cu:12`)
    recordings  the files in hopperlab/recordings/ that it read, or that its data was read from
    texts       kernel files whose text it read to show it; the front matter of every lesson, for a cell that lists the lessons
    drawing     the definitions in show/ and lessons/ that its names reach (drawing.py)
    nvrtc       the compiler that made the PTX; another one's PTX cannot be compared
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import nbformat

from ...measure import recordings
from ...runtime.compile import toolchain
from ...runtime.errors import ToolchainError
from .. import hashes
from . import cell_flow, kernel_uses
from .drawing import Drawing, imported

LINES = re.compile(r"\.cuh?:\d+")
LISTING = re.compile(r"\blanding(?:_page)?\.(?:syllabus|paths)\(")
LOAD = r"measure\.load\('[\w-]+'\)"                         # a statement that reads recordings is the same in both places
LOADS = re.compile(rf"[\w, ()]+ = (?:\(?(?:{LOAD}(?:, )?)+\)?|show\.if_recorded\(lambda: {LOAD}\)|lesson\.if_recorded\(\))")
UNKNOWN = "unknown"         # in place of the hash of kernels that this machine cannot compile
PARTS = ("source", "kernels", "lines", "recordings", "texts", "drawing", "nvrtc")


def uses(noted: Mapping[str, Any], cells: Mapping[str, str]) -> dict[str, Any]:
    """What the recorder noted of one cell, as its metadata keeps it; cells: the notebook's sources by id."""
    launched = noted["launched"]
    kernels = [kernel_uses.reference(one, one in launched, cells) for one in [*launched, *(one for one in noted["compiled"] if one not in launched)]]
    edited = {kernel["name"] for kernel in kernels}
    found = {"kernels": kernels, "recordings": noted["recordings"], "texts": sorted(set(noted["read"]) - edited | set(noted.get("shown", ()))),
             "place": bool(noted["place"])}
    return {key: value for key, value in found.items() if value}


def now(notebook: nbformat.NotebookNode) -> dict[str, dict[str, str]]:
    """For each code cell that has run, by id: what its stored output would be made of today."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    used = {cell.id: cell.metadata.get("hopperlab", {}).get("uses") for cell in code}
    cells = {cell.id: cell.source for cell in code}
    listed = [statement for cell in code for statement in cell_flow.statements(cell.id, cell.source)]
    names = _names(listed)
    return {cell.id: _made_of(cell, cell_flow.behind(cell.id, listed), used, cells, names) for cell in code if used[cell.id] is not None}


def _names(listed: Iterable[cell_flow.Statement]) -> dict[str, tuple[str, str]]:
    """What every imported name of the notebook means."""
    return {name: means for statement in listed if statement.imported for name, means in imported(statement.tree, "").items()}


def _made_of(cell: nbformat.NotebookNode, behind: cell_flow.Behind, used: Mapping[str, Any], cells: Mapping[str, str],
             names: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    own = used[cell.id]
    kernels = list(own.get("kernels", ()))
    for other in _makers(cell, behind):
        kernels += [kernel for kernel in (used.get(other) or {}).get("kernels", ()) if kernel.get("launched")]
    read = [own, *(used.get(other) or {} for other in _readers(behind, names) - {cell.id})]
    drawing = _drawing()
    roots = [root for statement in behind.code for root in drawing.meant(statement.tree, names)]
    found = {"source": _hash(cell.source),
             **_kernels(kernels, cells, lines=shows_lines(cell)),
             "recordings": _files(_recording(name) for one in read for name in one.get("recordings", ())),
             "texts": _files(toolchain.KERNELS / name for one in read for name in one.get("texts", ())),
             "drawing": drawing.digest(drawing.reached([*roots, *drawing.checked_by(cell.source)]))}
    if LISTING.search(cell.source):
        found["texts"] = _hash(found["texts"] + hashes.catalogue())
    return {part: found[part] for part in PARTS if found.get(part)}


def _recording(noted: str) -> Path:
    """The file that the recorder noted: a name of the lessons' board, or BOARD/NAME."""
    board, _, name = noted.rpartition("/")
    return recordings.FOLDER / (board or recordings.LESSONS_BOARD) / f"{name}.json"


def _makers(cell: nbformat.NotebookNode, behind: cell_flow.Behind) -> set[str]:
    """The other cells whose launches may have made the data that this cell shows. Where its text is compared, any that got this data counts."""
    written = set() if is_ignored(cell) else behind.written
    return ({statement.cell for statement in behind.data} | written) - {cell.id}


def _readers(behind: cell_flow.Behind, names: Mapping[str, tuple[str, str]]) -> set[str]:
    """The cells whose statements made its data by something of the course beyond the plain names of `hl`: these may have read a recording."""
    ours = {name for name, (module, _) in names.items() if module.startswith("hopperlab")} - {name for name, means in names.items() if means == ("hopperlab", "")}
    defined = set().union(*(statement.defined for statement in behind.code))
    return {statement.cell for statement in behind.data if statement.used & (ours | defined)}


def _kernels(kernels: Sequence[Mapping[str, Any]], cells: Mapping[str, str], lines: bool) -> dict[str, str]:
    if not kernels:
        return {}
    if not comparable():
        return {"kernels": UNKNOWN, "nvrtc": toolchain_name()}
    try:
        found = sorted({(kernel["name"], kernel_uses.digests(kernel_uses.source(kernel, cells))) for kernel in kernels})
    except ToolchainError:
        return {"kernels": UNKNOWN, "nvrtc": toolchain_name()}
    made = {"kernels": _hash(str([(name, code) for name, (code, _) in found])), "nvrtc": toolchain_name()}
    return made | ({"lines": _hash(str([(name, lined) for name, (_, lined) in found]))} if lines else {})


WORDS = {"source": "its source", "kernels": "a kernel", "lines": "a kernel's line numbers", "recordings": "a recording", "texts": "a text it shows",
         "drawing": "what draws it", "nvrtc": "the pinned compiler"}


def changed(stored: Mapping[str, str], today: Mapping[str, str]) -> list[str]:
    """The parts that differ, in the order of PARTS; those that this machine cannot compute are left out."""
    unknown = ("kernels", "lines", "nvrtc") if today.get("kernels") == UNKNOWN else ()
    return [part for part in PARTS if part not in unknown and stored.get(part) != today.get(part)]


def stale(notebook: nbformat.NotebookNode) -> dict[str, list[str]]:
    """The stale code cells, by id, with what changed; an empty list for a cell of which nobody noted what it used."""
    today = now(notebook)
    found = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            stored = cell.metadata.get("hopperlab", {}).get("made_of")
            parts = changed(stored, today[cell.id]) if stored and cell.id in today else []
            if parts or not stored or cell.id not in today:
                found[cell.id] = parts
    return found


def asks_for_the_place(notebook: nbformat.NotebookNode, cell: nbformat.NotebookNode) -> bool:
    """True when the cell, or one whose data it shows, asked where kernels run or launched one there: on a GPU its output may be another."""
    code = [other for other in notebook.cells if other.cell_type == "code"]
    listed = [statement for other in code for statement in cell_flow.statements(other.id, other.source)]
    behind = cell_flow.behind(cell.id, listed)
    behind.data = {statement for statement in behind.data if not LOADS.fullmatch(ast.unparse(statement.tree))}
    makers = {cell.id, *_readers(behind, _names(listed))}
    return any(other.metadata.get("hopperlab", {}).get("uses", {}).get("place") for other in code if other.id in makers)


def is_ignored(cell: nbformat.NotebookNode) -> bool:
    """True when nbval does not compare the cell's output."""
    return "nbval-ignore-output" in cell.metadata.get("tags", [])


def shows_lines(cell: nbformat.NotebookNode) -> bool:
    """True when the stored output names a line of a kernel, as hazard reports do."""
    return LINES.search(str(cell.outputs)) is not None


@lru_cache(maxsize=1)
def _drawing() -> Drawing:
    return Drawing()


@lru_cache(maxsize=1)
def toolchain_name() -> str:
    """The compiler that hashes of kernels are for: the one pinned in constraints.txt, such as 'nvrtc 13.0.88'."""
    return hashes.toolchain()


@lru_cache(maxsize=1)
def comparable() -> bool:
    """True where the pinned NVRTC is installed: hashes of kernels are of what it makes."""
    return toolchain.has_nvrtc() and toolchain_name() == f"nvrtc {toolchain.compiler_version().partition('+')[0]}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _files(paths: Iterable[Path]) -> str:
    found = sorted({(path.name, _hash(toolchain.read_source(path)) if path.is_file() else kernel_uses.GONE) for path in paths})
    return _hash(str(found)) if found else ""
