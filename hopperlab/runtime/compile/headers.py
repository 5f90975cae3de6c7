# SPDX-License-Identifier: Apache-2.0
"""Which header files a source includes, so that the cache notices when one of them changes.

Only the course's and the caller's folders are looked into; headers of the CUDA wheels are covered by their version.
"""
from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from .toolchain import read_source

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|([A-Za-z_]\w*))', re.MULTILINE)
_LIBCUDACXX = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"](cuda/|cub/|thrust/|nv/|cooperative_groups|mma\.h)', re.MULTILINE)
_SUFFIXES = {".cuh", ".h", ".hpp", ".cu", ".inc", ""}


def included_files(code: str, directories: Sequence[str], extra: Iterable[str] = ()) -> dict[str, str]:
    """Text of every file that `code` includes, directly or not, by its name as written.

    directories: searched in order. extra: files included from the command line. The preprocessor's conditions are not
    evaluated: a file behind an `#if` counts. An include whose name is a macro adds every header of the directories.
    """
    found: dict[str, str] = {}
    todo: list[tuple[str, Path | None]] = [(code, None)]
    everything = False
    for name in extra:
        _visit(name, None, directories, found, todo)
    while todo:
        text, folder = todo.pop()
        for quoted, angled, macro in _INCLUDE.findall(text):
            if macro and not everything:
                found.update(_all_headers(directories))
                everything = True
            elif macro:
                continue
            else:
                _visit(quoted or angled, folder if quoted else None, directories, found, todo)
    return found


def _visit(name: str, folder: Path | None, directories: Sequence[str], found: dict[str, str], todo: list[tuple[str, Path | None]]) -> None:
    for place in ([folder] if folder else []) + [Path(d) for d in directories]:
        path = place / name
        if path.is_file():
            if str(path) not in found:
                text = read_source(path, errors="replace")
                found[str(path)] = text
                todo.append((text, path.parent))
            return


def _all_headers(directories: Sequence[str]) -> dict[str, str]:
    files = [p for d in directories for p in sorted(Path(d).rglob("*")) if p.is_file() and p.suffix in _SUFFIXES]
    return {str(p): read_source(p, errors="replace") for p in files}


def uses_libcudacxx(texts: Iterable[str]) -> bool:
    """True when one of the texts includes libcu++ (or a header as heavy), for which a precompiled header pays."""
    return any(_LIBCUDACXX.search(text) for text in texts)
