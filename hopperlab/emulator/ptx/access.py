# SPDX-License-Identifier: Apache-2.0
"""Which registers an instruction writes and which it reads.

The first operand is the result where its row in instructions.py says so; the rest are sources. Registers inside an address are sources wherever they stand.
"""
from __future__ import annotations

from typing import Any

from .instruction_operands import CARRY, Addr, Not, PredPair, Reg, TensorAddr, Vec
from .instructions import INSTRUCTIONS, has_result


def _collect(operand, out: list) -> None:
    """Append the registers of a value operand, in written order."""
    kind = type(operand)
    if kind is Reg:
        out.append(operand)
    elif kind is Vec:
        for item in operand.items:
            _collect(item, out)
    elif kind is Addr:
        if type(operand.base) is Reg:
            out.append(operand.base)
    elif kind is Not:
        out.append(operand.reg)
    elif kind is PredPair:
        _collect(operand.first, out)
        _collect(operand.second, out)
    elif kind is TensorAddr:
        if type(operand.map) is Reg:
            out.append(operand.map)
        for item in operand.coords:
            _collect(item, out)


def registers(instr: Any) -> tuple[tuple[Reg, ...], tuple[Reg, ...]]:
    """(written, read) registers of an instruction, each in operand order.

    The guard counts as read; a guarded write also reads what it may leave alone; the D of wgmma.mma_async is both.
    """
    dsts: list[Reg] = []
    srcs: list[Reg] = []
    op, mods, operands = instr.op, instr.mods, instr.operands
    if op == "call":
        returns, rest = _split_call(operands)
        _collect(returns, dsts)
    elif operands and type(operands[0]) not in (Addr, TensorAddr) and has_result(op, mods):
        _collect(operands[0], dsts)
        rest = operands if op == "wgmma" else operands[1:]
    else:
        rest = operands
    for operand in rest:
        _collect(operand, srcs)
    known = INSTRUCTIONS.get(op)
    if known is not None and known.carry:
        srcs.append(CARRY)
    if "cc" in mods:
        dsts.append(CARRY)
    if instr.guard is not None:
        srcs.append(instr.guard[0])
        srcs.extend(dsts)
    return tuple(dsts), tuple(srcs)


def _split_call(operands: tuple) -> tuple[Vec, tuple]:
    """Returned operands, and the rest, of `call (ret…), function, (args…), prototype` with optional parts."""
    if operands and type(operands[0]) is Vec:
        return operands[0], operands[1:]
    return Vec(()), operands
