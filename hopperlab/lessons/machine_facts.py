# SPDX-License-Identifier: Apache-2.0
"""What ptxas and nvdisasm say of kernels that lessons ask about, kept for machines that have neither, as a Mac: machine_facts.json, with the version that said it.

A lesson asks here with a key and a function; where that finds no machine code, what is kept under the key is the answer. What is kept, and how it is
written anew: authoring/shipping/machine_code.py.
"""
from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from ..runtime.errors import PtxasWarning, ToolchainError
from ..runtime.module import RawKernel

FILE = Path(__file__).with_suffix(".json")
KINDS = ("register budget", "spill")                # of a kernel's instructions (runtime/sass): what lessons count
Fact = TypeVar("Fact")


@cache
def kept() -> dict[str, Any]:
    """The file: `said_by`, the compiler's version, and `facts` by key."""
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


def fact(key: str, ask: Callable[[], Fact]) -> tuple[Fact, str]:
    """What `ask` finds in machine code made here, and ''; where there is none, what is kept under `key`, and a word that says so. Raises ToolchainError
    where nothing is kept either."""
    try:
        return ask(), ""
    except ToolchainError:
        if key not in kept()["facts"]:
            raise
        found: Fact = kept()["facts"][key]
        return found, f"kept from ptxas {kept()['said_by']}: there is none here"


def of_kernel(path: str, name: str, options: Sequence[str] = ()) -> tuple[dict[str, Any], str]:
    """Of a kernel file: `notes`, ptxas's codes, and for each of KINDS how many instructions; and '' or that this is kept. Raises ToolchainError where
    nobody knows."""
    return fact(key_of(path, options), lambda: ask_here(path, name, options))


def notes_of(kernel: RawKernel, path: str, options: Sequence[str]) -> tuple[str, ...]:
    """The codes of ptxas's notes on a kernel that was compiled; a word that says so where nobody knows them here."""
    info = kernel.module.ptxas_info
    if kernel.mangled in info.kernels:
        return tuple(note.code for note in info.notes)
    known = kept()["facts"].get(key_of(path, options))
    return ("unknown (there is no ptxas here)",) if known is None else tuple(known["notes"])


def key_of(path: str, options: Sequence[str]) -> str:
    """The key of a kernel file compiled with these options."""
    return " ".join((path, *options))


def ask_here(path: str, name: str, options: Sequence[str]) -> dict[str, Any]:
    """The same from the compiler of this machine. Raises ToolchainError without one."""
    from ..runtime.library import load_kernel
    from ..runtime.sass.sass import sass

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PtxasWarning)           # the notes are in the answer
        kernel = load_kernel(path, name, tuple(options), backend="emulator", strict=False)
    counts = sass(kernel).counts(None)
    return {"notes": sorted({note.code for note in kernel.module.ptxas_info.notes}), **{kind: counts.get(kind, 0) for kind in KINDS}}
