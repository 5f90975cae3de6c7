# SPDX-License-Identifier: Apache-2.0
"""What CUDA answers compile to, as far as they are compared (likeness.py): instructions without registers, labels, symbols and order.

Imports little, because each verdict's process in the sandbox does this once.
"""
from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

import hopperlab as hl

from ..checking import answers
from ..checking.exercise import Exercise

SPECIAL = re.compile(r"%(?:tid|ntid|ctaid|nctaid|laneid|warpid|cluster\w*|clock\w*|globaltimer\w*|smid|nsmid|gridid"
                     r"|dynamic_smem\w*|total_smem\w*|lanemask\w*)(?:\.[xyz])?$")


def digest(lines: Iterable[str]) -> str:
    """Of lines in any order."""
    return hashlib.sha256("\n".join(sorted(lines)).encode("utf-8", "replace")).hexdigest()


def ptx_form(ptx: str) -> str:
    """A digest of a module's instructions: opcodes and immediates, whatever the registers, labels, symbols and their order."""
    lines = []
    for line in re.sub(r"/\*.*?\*/", " ", ptx, flags=re.DOTALL).split("\n"):
        for statement in line.split("//", 1)[0].split(";"):
            words = statement.strip().strip("{}").strip()
            if words and not words.startswith((".", ")", "(")) and not words.endswith(":"):
                lines.append(_instruction(words))
    return digest(line for line in lines if line)


def _instruction(words: str) -> str:
    guard = re.match(r"@(!?)%?\w+\s+", words)
    rest = words[guard.end():] if guard else words
    opcode, operands = [*rest.split(None, 1), "", ""][:2]
    if not re.match(r"[a-z]", opcode):
        return ""
    operands = re.sub(r"[%$]?[A-Za-z_$][\w$]*(?:\.[xyz])?", lambda found: found[0] if SPECIAL.match(found[0]) else "_",
                      re.sub(r"\b0[fFdD]([0-9a-fA-F]+)", r"0\1", operands))
    return f"{'@' + guard[1] if guard else ''} {opcode} {''.join(operands.split())}"


def compiled_form(exercise: Exercise, cell: str) -> str:
    """The PTX form of a CUDA answer, which is compiled here: for texts of the course, or inside the sandbox. '' for what does not compile."""
    try:
        return ptx_form(hl.RawModule(code=answers.body(exercise, cell), name=f"{exercise.name}.cu", backend="emulator", strict=True).ptx)
    except (answers.Refused, hl.HopperlabError):
        return ""
