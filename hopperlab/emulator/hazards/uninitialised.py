# SPDX-License-Identifier: Apache-2.0
"""Accumulators that nothing writes: C of an mma.sync, or D of a wgmma that adds to it, in registers that no instruction of the kernel sets.

Which registers those are is worked out once a kernel; product_order.py asks when products run. A register
that anything writes anywhere, under whatever condition, counts as set: only what is certain is told.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ptx.ir import Reg

if TYPE_CHECKING:
    from ..compile.translated import MachineOp
    from ..ptx.ir import Function, Instr


def accumulators(function: Function, ops: dict[int, MachineOp]) -> dict[int, int]:
    """{instruction: position of a register of its accumulator} for accumulators with a register that only products and copies of
    such registers write. A product sets its result only if what it adds to is set (wgmma with scale-d false: see `began`)."""
    products = [i for i in function.body if i.index in ops and ops[i.index].raw]     # beside wgmma, an mma.sync is like any other instruction
    products = products or [i for i in function.body if i.op == "mma" and i.mods[0] == "sync"]
    if not products:
        return {}
    names = {i.index: [getattr(r, "name", None) for r in _read(i)] for i in products}
    passed: dict[str, list[str | None]] = {}      # register -> registers whose values it is handed
    for i in products:
        targets, sources = [r.name for r in i.dsts()], names[i.index]
        for k, target in enumerate(targets):        # D of another type than C may have fewer registers
            passed.setdefault(target, []).extend(sources[k:k + 1] if len(targets) == len(sources) else sources)
    own = {i.index for i in products}
    known: set[str | None] = {None}               # an accumulator of constants
    for i in function.body:
        if i.index in own:
            continue
        copy = i.op == "mov" and type(i.operands[1]) is Reg and type(i.operands[0]) is Reg
        for d in i.dsts():
            if copy:
                passed.setdefault(d.name, []).append(i.operands[1].name)
            else:
                known.add(d.name)
    before = -1
    while len(known) > before:
        before = len(known)
        known.update(d for d, sources in passed.items() if not known.isdisjoint(sources))
    return {index: next(k for k, n in enumerate(read) if n not in known) for index, read in names.items() if not known.issuperset(read)}


def _items(operand: Any) -> tuple[Any, ...]:
    return getattr(operand, "items", (operand,))


def _read(instr: Instr) -> tuple[Any, ...]:
    """Registers of the accumulator that an instruction reads."""
    return _items(instr.operands[3 if instr.op == "mma" else 0])
