# SPDX-License-Identifier: Apache-2.0
"""The kernels that a cell used, written down so that they can be compiled again without running the cell, and hashes of their PTX.

A kernel is named by its file and options where its text is that file's; a text that was edited from a file or from a `%%cuda` cell is written as the
edits; any other text is kept whole.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ...runtime.compile import toolchain
from ...runtime.compile.nvrtc import ARCH, Source, compile_source
from ...runtime.errors import CompileError
from .cell_flow import CUDA

LINE_TABLE = re.compile(r"^\s*\.(?:loc|file)\b|^\s*//")
GONE = "gone"               # stands for a kernel that can no longer be found or compiled


def reference(noted: Mapping[str, Any], launched: bool, cells: Mapping[str, str]) -> dict[str, Any]:
    """A noted compilation (nvrtc.Source as a dictionary) as a notebook stores it; cells: the notebook's sources by id."""
    found: dict[str, Any] = {"name": noted["name"]}
    found.update((key, list(noted[key])) for key in ("options", "name_expressions") if noted[key])
    if noted["arch"] != ARCH:
        found["arch"] = noted["arch"]
    if launched:
        found["launched"] = True
    return found | _text(noted["code"], noted["name"], cells)


def _text(code: str, name: str, cells: Mapping[str, str]) -> dict[str, Any]:
    """How the text of a kernel is found again: nothing for a file's own, else `cell`, `edits` or `code`."""
    file = _file(name)
    if code == file:
        return {}
    bases = {"": file} if file is not None else {}
    bases |= {cell: _body(source) for cell, source in cells.items() if source.startswith(CUDA)}
    for cell, base in bases.items():
        edits = _edits(base, code)
        if edits is not None and len(str(edits)) < len(code) // 2:
            return ({"cell": cell} if cell else {}) | ({"edits": edits} if edits else {})
    return {"code": code}


def source(stored: Mapping[str, Any], cells: Mapping[str, str]) -> Source | None:
    """What a stored reference means today; None when its file or cell is gone, or an edit finds no text to change."""
    code = stored.get("code")
    if code is None:
        code = _body(cells.get(stored["cell"], "")) if "cell" in stored else _file(stored["name"])
    for old, new in stored.get("edits", ()):
        code = code.replace(old, new) if code is not None and code.count(old) == 1 else None
    if code is None:
        return None
    return Source(code, stored["name"], tuple(stored.get("options", ())), tuple(stored.get("name_expressions", ())), stored.get("arch", ARCH))


def _file(name: str) -> str | None:
    path = toolchain.KERNELS / name
    return toolchain.read_source(path) if path.is_file() else None


def _body(cell: str) -> str:
    """The CUDA below a cell's first line, as IPython hands it over."""
    return cell.partition("\n")[2].rstrip("\n") + "\n"


def _edits(base: str, code: str) -> list[list[str]] | None:
    """[old, new] pairs that make `code` of `base`, one after the other, each `old` there exactly once; None when there is no such list."""
    old, new = base.splitlines(keepends=True), code.splitlines(keepends=True)
    found, text = [], base
    for kind, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        above, below = a, b
        while text.count("".join(old[above:below])) != 1:
            if above == 0 and below == len(old):
                return None
            above, below = max(0, above - 1), min(len(old), below + 1)
        found.append(["".join(old[above:below]), "".join([*old[above:a], *new[c:d], *old[b:below]])])
        text = text.replace(*found[-1])
    return found if text == code else None


@lru_cache(maxsize=1024)
def digests(kernel: Source | None) -> tuple[str, str]:
    """(hash of the PTX without its line table, hash of the PTX with it). GONE for a kernel that is not there or does not compile.

    Raises ToolchainError without NVRTC.
    """
    if kernel is None:
        return GONE, GONE
    try:
        ptx = compile_source(kernel, only_nvrtc=True).ptx
    except CompileError:
        return GONE, GONE
    code = "\n".join(line for line in ptx.split("\t.section\t.debug_")[0].split("\n") if line.strip() and not LINE_TABLE.match(line))
    lined = "\n".join(line for line in ptx.split("\n") if not line.startswith("//"))
    return tuple(hashlib.sha256(text.encode()).hexdigest()[:12] for text in (code, lined))
