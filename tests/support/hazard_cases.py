# SPDX-License-Identifier: Apache-2.0
"""Reads the kernels of tests/emulator/hazards: small CUDA files with a header a case, each both a bug and its clean twin.

A file KIND.cu holds cases of one hazard kind. A case starts with lines `//!`:
    //! case NAME              then, one a line:
    //! launch block=64 grid=1 shared=0 [cluster=2]
    //! args f32[64] int:5 map:bf16:64x64:64x64:128B        (array shape, number, tensor map: dtype, shape, box, swizzle)
    //! ptx fewer TEXT | more TEXT | differs                 (what the bug does to the PTX, compared with the twin)
    //! also KIND ...                                        (further kinds that the same bug may show)
    //! warning                                              (legal and suspicious: found in session.warnings, and no hazard)
    //! clean                                                (there is no bug: the kernel must be silent)
The code sees BUG as 1 or 0. Lines marked `// HAZARD` are where the report points, `// OTHER` its other end.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import hopperlab as hl
import ml_dtypes
import numpy as np

ROOM = Path(__file__).resolve().parent.parent / "emulator" / "hazards" / "kernels"
PRELUDE = (ROOM / "prelude.cuh").read_text()
DTYPES = {"f32": np.float32, "i32": np.int32, "u8": np.uint8, "u32": np.uint32, "u64": np.uint64, "bf16": ml_dtypes.bfloat16,
          "u16": np.uint16}


@dataclass(frozen=True)
class Case:
    """One kernel in two versions. `line0`: line of its first code line in its file."""

    kind: str
    name: str
    code: str
    file: str
    line0: int
    launch: dict = field(default_factory=dict, hash=False)
    args: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    clean: bool = False
    warning: bool = False

    def lines(self, mark: str) -> set[int]:
        """Lines of the file that carry a mark."""
        return {self.line0 + k for k, line in enumerate(self.code.splitlines()) if mark in line.partition("// ")[2].split()}


def read(path: Path) -> list[Case]:
    """All cases of a file."""
    cases, current, lines = [], None, path.read_text().splitlines()
    for number, line in enumerate(lines, 1):
        if line.startswith("//! case "):
            current = {"kind": path.stem.replace("_", "-"), "name": line.split()[2], "file": path.name, "code": [], "line0": 0}
            cases.append(current)
        elif line.startswith("//!") and current is not None:
            _header(current, line[3:].split(maxsplit=1))
        elif current is not None:
            current["line0"] = current["line0"] or number
            current["code"].append(line)
    return [Case(**{**c, "code": "\n".join(c["code"]) + "\n"}) for c in cases]


def _header(current: dict, words: list[str]) -> None:
    key, value = words[0], words[1] if len(words) > 1 else ""
    if key == "launch":
        current["launch"] = {k: int(v) for k, v in (pair.split("=") for pair in value.split())}
    elif key == "ptx":
        current["ptx"] = tuple(value.split(maxsplit=1))
    elif key in ("clean", "warning"):
        current[key] = True
    else:
        current[key] = tuple(value.split())


def all_cases() -> list[Case]:
    """Every case of every file, by kind and name."""
    return [case for path in sorted(ROOM.glob("*.cu")) for case in read(path)]


def _numbers(dtype: str, shape: str) -> np.ndarray:
    dims = tuple(int(x) for x in shape.split("x"))
    return (np.arange(int(np.prod(dims))) % 7).reshape(dims).astype(DTYPES[dtype])


def arguments(case: Case) -> tuple[list, list[np.ndarray]]:
    """(arguments, the arrays among them), fresh."""
    values, arrays = [], []
    for word in case.args:
        if word.startswith("int:"):
            values.append(np.int32(int(word[4:])))
        elif word.startswith("map:"):
            _, dtype, shape, box, swizzle = word.split(":")
            array = _numbers(dtype, shape)
            arrays.append(array)
            values.append(hl.TensorMap.tiled(array, box=tuple(int(x) for x in box.split("x")), swizzle=swizzle))
        else:
            dtype, shape = word.rstrip("]").split("[")
            arrays.append(_numbers(dtype, shape))
            values.append(arrays[-1])
    return values, arrays


@cache
def module(case: Case, bug: int) -> hl.RawModule:
    """The compiled kernel."""
    text = f'{PRELUDE}#line {case.line0} "{case.file}"\n{case.code}'
    return hl.RawModule(code=text, options=(f"-DBUG={bug}",), backend="emulator", name="prelude.cuh")


def run(case: Case, bug: int, schedule: str, seed: int = 0):
    """(session, arrays) of one launch, with hazards collected."""
    values, arrays = arguments(case)
    kernel = module(case, bug).get_function("k")
    with hl.emulate(schedule=schedule, seed=seed, hazards="collect", levels={"unfenced-overwrite": "warning"}) as session:
        kernel((case.launch.get("grid", 1),), (case.launch.get("block", 32),), values, shared_mem=case.launch.get("shared", 0))
    return session, arrays
