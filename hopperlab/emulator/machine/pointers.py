# SPDX-License-Identifier: Apache-2.0
"""Which arrays an address was computed from: followed back through the kernel's instructions to its pointer arguments and variables.

Asked only when an address is wrong, so that a report names the array that was meant and not the one that happens to lie before it.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ptx.ir import Addr, Reg, Sym

if TYPE_CHECKING:
    from .memory import Allocation

POINTER = 8          # bytes


def nearest(M: Any, index: int, address: int) -> str:
    """A learner's description of where the bad address of instruction `index` lies."""
    return M.memory.nearest(address, behind(M, index) or arguments(M))


def behind(M: Any, index: int) -> list[Allocation]:
    """The arrays whose addresses flow into those of an instruction, through any arithmetic but not through memory."""
    writers = M.translation.once("writers", _writers)
    work = [base for operand in M.body[index].operands if type(operand) is Addr for base in (operand.base,)]
    seen, found = set(), []
    while work:
        one = work.pop()
        if type(one) is Sym:
            found.append(M.memory.find(int(M.symbols.get(one.name, 0))))
        if type(one) is not Reg or one.name in seen:
            continue
        seen.add(one.name)
        for instr in writers.get(one.name, ()):
            if instr.op != "ld":
                work += [o.base if type(o) is Addr else o for o in instr.operands[1:]] + list(instr.srcs())
            elif type(instr.operands[1]) is Addr and type(base := instr.operands[1].base) is Sym and base.name in M.layout.params:
                found.append(_pointed(M, M.layout.params[base.name] + instr.operands[1].offset))
    return _distinct(found)


def arguments(M: Any) -> list[Allocation]:
    """The arrays that the kernel's parameters point to, in structs as well."""
    return _distinct([_pointed(M, at) for at in range(0, len(M.params), POINTER)])


def _writers(translation: Any) -> dict[str, list]:
    """The instructions that write each register."""
    found: dict[str, list] = {}
    for instr in translation.function.body:
        for reg in instr.dsts():
            found.setdefault(reg.name, []).append(instr)
    return found


def _pointed(M: Any, at: int) -> Allocation | None:
    """The array that the pointer at a byte of the parameters points into."""
    return M.memory.find(int.from_bytes(M.params[at:at + POINTER], "little"))


def _distinct(found: list) -> list[Allocation]:
    return list({id(a): a for a in found if a is not None}.values())
