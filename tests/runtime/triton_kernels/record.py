# SPDX-License-Identifier: Apache-2.0
"""Writes stored/, and the PTX of lesson 18: what Triton makes of every case, so that the tests run it where Triton is not installed. Where it is (Linux, no GPU needed):

    PYTHONPATH=tests python -m runtime.triton_kernels.record
"""
from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import Any

import hopperlab as hl

from . import cases
from .cases import STORED


def compiled(case: cases.Case, **more: Any) -> Any:
    """The case's kernel by from_triton."""
    from triton.experimental.gluon import language as gl

    from . import triton_examples
    constexprs = {**case.constexprs, **{name: eval(text, vars(gl)) for name, text in case.gluon.items()}}
    return hl.from_triton(getattr(triton_examples, case.kernel), case.signature, constexprs, backend="emulator", **{"num_warps": 4, **case.options, **more})


def without_debug(ptx: str) -> str:
    """The PTX without DWARF sections (which hold folders) and comments, but for the names of inlined functions."""
    text = re.sub(r"\n\t\.section\t\.debug_(?!str)\w+\s*\{[^}]*\}", "", ptx)
    return "\n".join(line for line in (re.sub(r"\s*//.*", "", line).rstrip() for line in text.splitlines()) if line) + "\n"


def main() -> None:
    """Write a PTX file a case, and stored.json."""
    import triton
    STORED.mkdir(exist_ok=True)
    told = {}
    for name, case in cases.CASES.items():
        kernel = compiled(case)
        cases.stored_ptx(name).write_text(without_debug(kernel.ptx))
        told[name] = {"parameters": [p.name for p in kernel.parameters], "built": {key: value for key, value in asdict(kernel.metadata).items() if key != "ptx"}}
    (STORED / "stored.json").write_text(json.dumps({"triton": triton.__version__, "cases": told}, indent=1) + "\n")


if __name__ == "__main__":
    main()
