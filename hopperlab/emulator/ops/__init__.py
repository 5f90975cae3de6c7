# SPDX-License-Identifier: Apache-2.0
"""What the engine does for every instruction that touches memory, other threads or time: one module a family.

`RESOLVERS` maps the first component of an opcode to a function (instr, function) -> MachineOp or None (None: plain
arithmetic, see isa/). To add an instruction, write a resolver and a handler beside its relatives and name it here.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from . import atomics, bar, calls, control, cp_async, foreign, forms, hints, loadstore, mbarrier, mma, moves, stack, tensormaps, warp, wgmma, wmma

if TYPE_CHECKING:
    from ..compile.translated import MachineOp
    from ..ptx.ir import Function, Instr

RESOLVERS = {}
for _module in (atomics, bar, calls, control, cp_async, foreign, hints, loadstore, mbarrier, mma, moves, stack, tensormaps, warp, wgmma, wmma):
    RESOLVERS.update(_module.RESOLVERS)


def resolve(instr: Instr, function: Function) -> MachineOp | None:
    """The MachineOp of an instruction, or None when it is plain arithmetic."""
    forms.check(instr)
    resolver = RESOLVERS.get(instr.op)
    return resolver(instr, function) if resolver is not None else None
