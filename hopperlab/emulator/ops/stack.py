# SPDX-License-Identifier: Apache-2.0
"""alloca, stacksave and stackrestore: local memory whose size a thread decides (PTX ISA 9.7.17).

The bytes that a thread has taken are a register of its own, %taken, which `prepare` adds to the operands of these
instructions; they lie in a variable of local memory that holds LIMIT bytes.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..ptx.ir import Function, Imm, Reg, Variable, Vec
from ..compile.translated import DTYPES, MachineOp
from .common import unsupported

if TYPE_CHECKING:
    from ..isa.value import Value
    from ..machine.cohort import Cohort
    from ..machine.machine import Machine

LIMIT = 4096                   # bytes a thread may take
AREA = "%alloca"
TAKEN = Reg("%taken", "u32")
NAMES = ("alloca", "stacksave", "stackrestore")


@dataclass
class Info:
    """index: of the instruction; kind: the type of addresses; align: what the address is a multiple of."""

    index: int
    kind: str
    align: int = 8


def prepare(function: Function) -> Function:
    """The function, with room for alloca and %taken read and written by its instructions, where it has any."""
    ours = [i for i in function.body if i.op in NAMES]
    if ours and TAKEN.name not in function.registers:
        function.registers[TAKEN.name] = TAKEN.type
        function.variables.append(Variable(AREA, "local", "b8", LIMIT, 16))
        for i in ours:
            i._access = None
            first, *rest = i.operands
            i.operands = {"alloca": (Vec((first, TAKEN)), *rest, TAKEN), "stacksave": (first, TAKEN), "stackrestore": (TAKEN, first)}[i.op]
    return function


def _alloca(instr, function) -> MachineOp:
    """alloca.{u32,u64} address, size{, alignment}."""
    kind, (targets, size, *rest) = _kind(instr), instr.operands
    align = rest[0] if len(rest) > 1 else Imm(8, "int", 8)
    if type(align) is not Imm or align.value < 1 or align.value & align.value - 1:
        raise unsupported(instr, "the alignment is a power of two")
    return MachineOp(take, Info(instr.index, kind, align.value), ((size, kind), (TAKEN, "u32")), ((targets.items[0], kind), (TAKEN, "u32")))


def _kind(instr) -> str:
    if instr.mods not in (("u32",), ("u64",)):
        raise unsupported(instr, "the types are .u32 and .u64")
    return instr.mods[0]


def take(M: Machine, C: Cohort, info: Info, size: Value, taken: Value) -> tuple[Value, Value]:
    """alloca: the address in local memory, and the bytes now taken."""
    base, align = int(M.symbols[AREA]), info.align
    start = -(-(taken.astype(np.int64) + base) // align) * align - base
    end = start + size.astype(np.int64)
    worst = np.broadcast_to(end, C.n)
    if (worst > LIMIT).any():
        lane = int(np.argmax(worst))
        taken = int(worst[lane])
        raise M.fault(C, info.index, lane, f"alloca takes {taken} bytes of local memory; the emulator keeps {LIMIT} for it", "out-of-bounds", taken)
    return (start + base).astype(DTYPES[info.kind])[()], end.astype(np.uint32)[()]


def _stacksave(instr, function) -> MachineOp:
    kind = _kind(instr)
    return MachineOp(convert, kind, ((TAKEN, "u32"),), ((instr.operands[0], kind),))


def _stackrestore(instr, function) -> MachineOp:
    return MachineOp(convert, "u32", ((instr.operands[1], _kind(instr)),), ((TAKEN, "u32"),))


def convert(M: Machine, C: Cohort, kind: str, value: Value) -> Value:
    """stacksave and stackrestore: the bytes taken, in another width."""
    return value.astype(DTYPES[kind])


RESOLVERS = {"alloca": _alloca, "stacksave": _stacksave, "stackrestore": _stackrestore}
