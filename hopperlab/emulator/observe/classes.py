# SPDX-License-Identifier: Apache-2.0
"""Which class an instruction counts in (counters.CLASSES): one table by first word; what isa/ computes and the table does not name goes by its type.

An instruction without a class is an error: a new one that touches memory, other threads or time needs a word here.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from ..isa import UnsupportedInstruction, covered

if TYPE_CHECKING:
    from ..ptx.ir import Instr

WORDS = {
    "control": "bra brx ret exit call trap brkpt nanosleep griddepcontrol setmaxnreg",
    "barrier": "bar barrier fence membar",
    "warp": "shfl vote match redux elect activemask",
    "memory": "ld ldu st atom red prefetch prefetchu applypriority discard ldmatrix stmatrix tensormap",
    "move": "mov mapa cvta isspacep getctarank selp movmatrix createpolicy",
    "tensor": "wgmma mma wmma",
    "async_copy": "cp",
    "mbarrier": "mbarrier",
    "convert": "cvt",
    "integer": "alloca stacksave stackrestore",
    "other": "pmevent",
}
CLASS_OF = {word: name for name, words in WORDS.items() for word in words.split()}
ARITHMETIC = covered() - CLASS_OF.keys()            # float or integer, by the last type that the opcode names
FLOAT = frozenset("f16 f16x2 bf16 bf16x2 f32 f64".split())
INTEGER = frozenset("u16 s16 b16 u16x2 s16x2 u32 s32 b32 u64 s64 b64 pred".split())


def instruction_class(instr: Instr) -> str:
    """The class (counters.CLASSES) that a PTX instruction counts in. Raises UnsupportedInstruction for one that has none."""
    known = CLASS_OF.get(instr.op)
    if known is not None:
        return known
    if instr.op in ARITHMETIC:
        for kind in reversed(instr.mods):
            if kind in FLOAT or kind in INTEGER:
                return "float" if kind in FLOAT else "integer"
    raise UnsupportedInstruction(instr.opcode, instr.ptx_line, "it has no class to count in (emulator/observe/classes.py)")
