# SPDX-License-Identifier: Apache-2.0
"""Which class an instruction counts in (counters.CLASSES): one table by first word; arithmetic that several types share goes by its type.

An instruction without a class is an error: a new one needs a word here.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from ..isa import UnsupportedInstruction

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
    "float": "copysign cos ex2 fma lg2 rcp rsqrt sin sqrt tanh testp",
    "integer": "addc and bfe bfi bfind bmsk brev clz cnot dp2a dp4a fns lop3 mad24 madc mul24 not or popc prmt rem sad shf shl shr subc szext xor "
               "alloca stacksave stackrestore vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4 "
               "vset vset2 vset4 vshl vshr vsub vsub2 vsub4",
    "other": "pmevent",
}
CLASS_OF = {word: name for name, words in WORDS.items() for word in words.split()}
BY_TYPE = frozenset("abs add div mad max min mul neg set setp slct sub".split())
FLOAT = frozenset("f16 f16x2 bf16 bf16x2 f32 f64".split())
INTEGER = frozenset("u16 s16 b16 u16x2 s16x2 u32 s32 b32 u64 s64 b64 pred".split())


def instruction_class(instr: Instr) -> str:
    """The class (counters.CLASSES) that a PTX instruction counts in. Raises UnsupportedInstruction for one that has none."""
    known = CLASS_OF.get(instr.op)
    if known is not None:
        return known
    if instr.op in BY_TYPE:
        for kind in reversed(instr.mods):
            if kind in FLOAT or kind in INTEGER:
                return "float" if kind in FLOAT else "integer"
    raise UnsupportedInstruction(instr.opcode, instr.ptx_line, "it has no class to count in (emulator/observe/classes.py)")
