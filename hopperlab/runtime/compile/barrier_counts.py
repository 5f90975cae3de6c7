# SPDX-License-Identifier: Apache-2.0
"""An mbarrier for no arrivals, found in the PTX before NVIDIA's assembler is asked.

A phase expects 1 to 2^20 - 1 arrivals (PTX ISA 9.7.13.15.9). ptxas does not refuse the constant 0: it ends with a segmentation fault (13.0), inside NVRTC
too, and so ends the notebook that compiles. What may say 0 is found in the text, which costs nothing; only then the PTX is made and read beforehand.
"""
from __future__ import annotations

import os
import re
from collections import defaultdict
from typing import Any

CALL = re.compile(r"\w*init\w*\s*(?:<[^<>;]*>)?\s*\(")
COUNT = re.compile(r"[1-9]\d*[uU]?")


def doubtful(code: str) -> bool:
    """True when `code` (CUDA) initialises a barrier by a count that is not plainly a positive number: 0, a constant's name, an expression. (Fences of
    barriers that were initialised have init in their names too, and no arguments.)"""
    if "barrier" not in code:
        return False
    calls = (text.partition(";")[0].rpartition(")")[0].split(",") for text in CALL.split(code)[1:] if not text.startswith(")"))
    return "mbarrier.init" in code or any(not COUNT.fullmatch(arguments[-1].strip()) or "0" in map(str.strip, arguments) for arguments in calls)


def without_arrivals(ptx: str, name: str) -> str:
    """'' or an error, in the compiler's form, for the first mbarrier.init of `ptx` whose count is the constant 0; `name` is the source's name in it."""
    from ...emulator.ptx.ir import PtxSyntaxError
    from ...emulator.ptx.parser import parse

    try:
        functions = parse(ptx).functions.values()
    except PtxSyntaxError:          # ptxas says what is wrong with it
        return ""
    for function in functions:
        made = defaultdict(list)
        for instruction in function.body:
            for register in instruction.dsts():
                made[register].append(instruction)
        for instruction in function.body:
            if instruction.opcode.startswith("mbarrier.init") and _zero(instruction.operands[-1], made):
                return _error(instruction.site, name)
    return ""


def _zero(count: Any, made: dict[Any, list[Any]], depth: int = 8) -> bool:
    """True for the constant 0, and for a register that is never anything else."""
    value = getattr(count, "value", None)
    if value is not None or not depth:
        return value == 0
    return bool(made.get(count)) and all(one.op == "mov" and _zero(one.operands[-1], made, depth - 1) for one in made[count])


def _error(site: Any, name: str) -> str:
    where = f"{name}(?)" if site is None else f"{os.path.basename(site.outermost.file)}({site.outermost.line})"
    return (f"{where}: error: this mbarrier is initialised for 0 arrivals, and a phase expects 1 to 1048575 (PTX ISA 9.7.13.15.9): count who arrives in one phase.\n"
            "A barrier that only the bytes of copies complete still needs one arrival, that of the thread which announces them (expect_tx).")
