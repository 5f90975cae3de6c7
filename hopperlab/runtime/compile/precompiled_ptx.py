# SPDX-License-Identifier: Apache-2.0
"""PTX of the lessons' own kernels, compiled beforehand, for machines without NVRTC (macOS has none).

`hopperlab/precompiled/NN_topic.xz` holds every compilation that a lesson makes, its panels' settings included; `python -m
hopperlab.authoring precompile` writes it. A compilation is found by what goes into it (source, headers, options), so edited CUDA is not
found and says so. With HOPPERLAB_RECORD_PTX=FOLDER each compilation also leaves its entry in that folder.
"""
from __future__ import annotations

import hashlib
import json
import lzma
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import ToolchainError
from .toolchain import KERNELS, read_source

FOLDER = Path(__file__).resolve().parents[2] / "precompiled"
SUFFIX = ".xz"
WAYS_OUT = """Ways out:
  - install clang, which compiles for the emulator on every system: python -m pip install ziglang
  - open the course on Linux or Windows, or on a hosted Linux notebook (Binder, Colab): there edited kernels compile
  - run the container that comes with the course: docker build -t hopperlab . && docker run -p 8888:8888 hopperlab
  - compile the source elsewhere, and load its PTX: hl.RawModule(ptx=text)
  - take your changes back (hopperlab restore NN): unchanged kernels run from their stored PTX"""


def key_of(code: str, name: str, options: Sequence[str], name_expressions: Sequence[str], arch: str, texts: Mapping[str, str]) -> str:
    """What names a compilation on every machine: its source, options, target, and the text of each header by file name."""
    parts = [name, code, list(options), list(name_expressions), arch, sorted((os.path.basename(path), text) for path, text in texts.items())]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def look_up(key: str) -> dict[str, Any] | None:
    """The entry of a compilation: ptx, log, lowered; None when it is not among the stored ones."""
    for path in sorted(FOLDER.glob(f"*{SUFFIX}")):
        entry: dict[str, Any] | None = read(path)["entries"].get(key)
        if entry is not None:
            return entry
    return None


def find(key: str, name: str) -> dict[str, Any]:
    """The entry of a compilation. Raises ToolchainError, with the ways out, when it is not among the stored ones."""
    if (entry := look_up(key)) is not None:
        return entry
    raise ToolchainError(f"{name} cannot be compiled here: NVRTC is not installed (macOS has none), nor does clang stand in, and this is not one of the lessons' own "
                         f"kernels, which come compiled: it is new, or was edited, or has other options.\n{WAYS_OUT}")


def record(key: str, code: str, entry: Mapping[str, Any]) -> None:
    """Leave the entry in HOPPERLAB_RECORD_PTX, where that is set; with its code, unless that is the kernel file of its name."""
    folder = os.environ.get("HOPPERLAB_RECORD_PTX")
    if folder:
        file = KERNELS / entry["name"]
        own = file.is_file() and read_source(file) == code
        Path(folder, f"{key}.json").write_text(json.dumps({**entry, "code": None if own else code}), encoding="utf-8")


@lru_cache(maxsize=64)
def read(path: Path) -> dict[str, Any]:
    """One archive: `stamp` and `cells` (what it was made from) and `entries` by key."""
    archive: dict[str, Any] = json.loads(lzma.decompress(path.read_bytes()))
    return archive


def write(path: Path, stamp: str, cells: str, entries: Mapping[str, Mapping[str, Any]]) -> int:
    """Write an archive; returns its size in bytes. Equal contents give equal bytes."""
    text = json.dumps({"stamp": stamp, "cells": cells, "entries": {key: entries[key] for key in sorted(entries, key=lambda k: (entries[k]["name"], k))}})
    path.parent.mkdir(parents=True, exist_ok=True)
    data = lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)
    path.write_bytes(data)
    read.cache_clear()
    return len(data)
