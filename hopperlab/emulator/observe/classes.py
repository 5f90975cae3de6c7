# SPDX-License-Identifier: Apache-2.0
"""Which class an instruction counts in (counters.CLASSES): what its row in ptx/instructions.py says, or where that is left open, as for arithmetic, what its type says.

An instruction without a class is an error.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from ..isa import UnsupportedInstruction
from ..ptx.instructions import INSTRUCTIONS

if TYPE_CHECKING:
    from ..ptx.ir import Instr

FLOAT = frozenset("f16 f16x2 bf16 bf16x2 f32 f64".split())
INTEGER = frozenset("u16 s16 b16 u16x2 s16x2 u32 s32 b32 u64 s64 b64 pred".split())


def instruction_class(instr: Instr) -> str:
    """The class (counters.CLASSES) that a PTX instruction counts in. Raises UnsupportedInstruction for one that has none."""
    known = INSTRUCTIONS.get(instr.op)
    if known is not None:
        if known.counts:
            return known.counts
        for kind in reversed(instr.mods):               # the last type that the opcode names
            if kind in FLOAT or kind in INTEGER:
                return "float" if kind in FLOAT else "integer"
    raise UnsupportedInstruction(instr.opcode, instr.ptx_line, "it has no class to count in (emulator/ptx/instructions.py)")
