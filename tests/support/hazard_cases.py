# SPDX-License-Identifier: Apache-2.0
"""Reads the kernels that commit hazards, each both a bug and its clean twin: those of docs/hazards, and more of tests/emulator/hazards.

A page docs/hazards/KIND.md shows listings under `## A kernel that commits it` and as many under `## Its clean twin`, each whole, with a line
    // launch: grid=1, block=64, args=(x, y)               (and shared_mem=, in Python; x, y, bf16, np and hl as docs/hazards/README.md says)

A file KIND.cu holds further cases of one hazard kind. A case starts with lines `//!`:
    //! case NAME              then, one per line:
    //! launch block=64 grid=1 shared=0 [cluster=2]
    //! args f32[64] int:5 map:bf16:64x64:64x64:128B        (array shape, number, tensor map: dtype, shape, box, swizzle)
    //! ptx fewer TEXT | more TEXT | differs                 (what the bug does to the PTX, compared with the twin)
    //! also KIND ...                                        (further kinds that the same bug may show)
    //! warning                                              (legal and suspicious: found in session.warnings, and no hazard)
    //! clean                                                (there is no bug: the kernel must be silent)
The code sees BUG as 1 or 0.

In both, lines marked `// HAZARD` are where the report points, `// OTHER` its other end. On a page `// HAZARD (a warning)` says that it is one, and
`// HAZARD (also KIND)` that a further kind is reported.
"""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import hopperlab as hl
import ml_dtypes
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
ROOM = ROOT / "tests" / "emulator" / "hazards" / "kernels"
PAGES = ROOT / "docs" / "hazards"
PARTS = ("## A kernel that commits it", "## Its clean twin")
LISTING = re.compile(r"^```cuda\n(.*?)^```", re.MULTILINE | re.DOTALL)
PRELUDE = (ROOM / "prelude.cuh").read_text()
DTYPES = {"f32": np.float32, "i32": np.int32, "u8": np.uint8, "u32": np.uint32, "u64": np.uint64, "bf16": ml_dtypes.bfloat16,
          "u16": np.uint16}


@dataclass(frozen=True)
class Case:
    """One kernel in two versions. line0: line of its first code line in its file; twin: the clean version where it is not `code` with BUG 0; given: how a page says
    that the twin and the bug are launched."""

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
    twin: str = ""
    given: tuple[str, ...] = ()

    def lines(self, mark: str) -> set[int]:
        """Lines of the file that carry a mark."""
        return {self.line0 + k for k, line in enumerate(self.code.splitlines()) if mark in re.findall(r"\w+", line.partition("// ")[2])}


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


def shown(page: Path) -> list[Case]:
    """The kernels of a page of docs/hazards, each with the twin that has its place among the clean ones. Raises ValueError where one has no twin."""
    text = page.read_text(encoding="utf-8")
    under = {part: text.find(f"\n{part}\n") for part in PARTS}
    bugs, twins = ([(at.start(1), at[1]) for at in LISTING.finditer(text) if text.rfind("\n## ", 0, at.start()) == under[part]] for part in PARTS)
    if not bugs or len(bugs) != len(twins):
        raise ValueError(f"{page.name}: {len(bugs)} kernels commit it, and {len(twins)} are clean twins")
    return [Case(page.stem, f"shown{n or ''}", code, page.name, text.count("\n", 0, at) + 1, twin=twin,
                 given=tuple(re.search(r"// launch: (.*)", one)[1] for one in (twin, code)),
                 warning="// HAZARD (a warning)" in code, also=tuple(re.findall(r"// HAZARD \(also ([a-z-]+)\)", code)))
            for n, ((at, code), (_, twin)) in enumerate(zip(bugs, twins, strict=True))]


def all_cases() -> list[Case]:
    """Every case of every page and every file, by kind and name."""
    pages = [case for page in sorted(PAGES.glob("*.md")) if page.stem != "README" for case in shown(page)]
    return [*pages, *(case for path in sorted(ROOM.glob("*.cu")) for case in read(path))]


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


def given(case: Case, bug: int) -> dict:
    """How a page launches one version of its kernel, evaluated: grid, block, args and perhaps shared_mem, fresh."""
    names = {"hl": hl, "np": np, "x": np.arange(4096, dtype=np.float32), "y": np.zeros(4096, np.float32),
             "bf16": (np.arange(4096) % 5).astype(ml_dtypes.bfloat16).reshape(64, 64)}
    return eval(f"dict({case.given[bug]})", names)                # the page's own line


@cache
def module(case: Case, bug: int) -> hl.RawModule:
    """The compiled kernel."""
    code, prelude = (case.twin if case.twin and not bug else case.code), ("" if case.twin else PRELUDE)
    return hl.RawModule(code=f'{prelude}#line {case.line0} "{case.file}"\n{code}', options=(f"-DBUG={bug}",), backend="emulator", name="prelude.cuh")


def run(case: Case, bug: int, schedule: str, seed: int = 0):
    """(session, arrays) of one launch, with hazards collected."""
    if case.given:
        how = given(case, bug)
        values, shape = how["args"], (how["grid"], how["block"], how.get("shared_mem", 0))
        arrays = [value for value in values if isinstance(value, np.ndarray)]
    else:
        values, arrays = arguments(case)
        shape = case.launch.get("grid", 1), case.launch.get("block", 32), case.launch.get("shared", 0)
    kernel = module(case, bug).get_function("k")
    with hl.emulate(schedule=schedule, seed=seed, hazards="collect", levels={"unfenced-overwrite": "warning"}) as session:
        kernel((shape[0],), (shape[1],), values, shared_mem=shape[2])
    return session, arrays
