# SPDX-License-Identifier: Apache-2.0
"""What ptxas and nvdisasm say of kernels that lessons ask about, kept for machines that have neither, as a Mac: machine_facts.json, with the version that said it.

A lesson asks here with a key and a function; where that finds no machine code, what is kept under the key is the answer. asked() has all that is kept;
`python -m hopperlab.lessons.machine_facts` writes it anew on Linux (tests/lessons/test_machine_facts.py).
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
    return fact(key_of(path, options), lambda: _asked_here(path, name, options))


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


def _asked_here(path: str, name: str, options: Sequence[str]) -> dict[str, Any]:
    from ..runtime.library import load_kernel
    from ..runtime.sass.sass import sass

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PtxasWarning)           # the notes are in the answer
        kernel = load_kernel(path, name, tuple(options), backend="emulator", strict=False)
    counts = sass(kernel).counts(None)
    return {"notes": sorted({note.code for note in kernel.module.ptxas_info.notes}), **{kind: counts.get(kind, 0) for kind in KINDS}}


def asked() -> dict[str, Callable[[], Any]]:
    """All that is kept: how to ask for it, by key."""
    from .l08_wgmma.one_tile import EARLY, options_of
    from .l10_warp_specialization.elected import CHOICES, issuing_lines
    from .l11_setmaxnreg.budget import BUILDS
    from .l12_clusters.hand_back import SCOPES, fences

    tiles = [options_of(64, blocks, in_flight=1, options=EARLY) for blocks in (1, 4)]
    kernels = [("wgmma/one_tile.cu", "one_tile", options) for options in tiles] + [("registers/roles.cu", "gemm", roles.options) for roles in BUILDS]
    return {**{key_of(path, options): lambda path=path, name=name, options=options: _asked_here(path, name, options) for path, name, options in kernels},
            **{f"one_load: {choice}": lambda choice=choice: issuing_lines(choice) for choice in CHOICES},
            **{f"hand_back: {scope}": lambda scope=scope: fences(scope) for scope in SCOPES}}


def write() -> None:
    """Ask ptxas and nvdisasm of this machine, and keep what they say."""
    from ..runtime.compile.toolchain import nvrtc_version

    said = {"said_by": ".".join(map(str, nvrtc_version())), "facts": {key: ask() for key, ask in asked().items()}}
    FILE.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
