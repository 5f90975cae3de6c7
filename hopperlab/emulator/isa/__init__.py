# SPDX-License-Identifier: Apache-2.0
"""The meaning of every register-to-register instruction of sm_90a, as functions on NumPy arrays.

`resolve(instr)` looks an instruction up in the tables (`FAMILIES`) of the modules here and returns its AluOp; `matrix`
holds mma.sync and the register side of ldmatrix, stmatrix and movmatrix. Memory, special registers and anything
between lanes belong to the engine. To add an instruction, add it to its family's table.
"""

from __future__ import annotations

from ..ptx import ir
from . import bits, compare, convert, floating, half, integer, move, video, video_simd
from .op import AluOp, UnsupportedInstruction, immediate, sources

__all__ = ["AluOp", "UnsupportedInstruction", "immediate", "resolve"]

# Families whose meaning hangs on the type, by the type's kind, and those that do not care.
_BY_KIND = {"int": integer.FAMILIES, "float": floating.FAMILIES, "half": half.FAMILIES}
_ANY = {**move.FAMILIES, **compare.FAMILIES, **bits.FAMILIES, **convert.FAMILIES, **video.FAMILIES, **video_simd.FAMILIES}
_KIND = {"f32": "float", "f64": "float", "f16": "half", "f16x2": "half", "bf16": "half", "bf16x2": "half"}
_TYPED = frozenset().union(*_BY_KIND.values())


def _builder(instr: ir.Instr):
    """The function that makes this instruction's AluOp, or None when it is not register-to-register."""
    builder = _ANY.get(instr.op)
    if builder is not None or instr.op not in _TYPED:
        return builder
    kind = _KIND.get(instr.mods[-1] if instr.mods else "", "int")
    builder = _BY_KIND[kind].get(instr.op)
    if builder is None:
        # The family exists for another kind of type: let that family say what is wrong.
        builder = next(table[instr.op] for table in _BY_KIND.values() if instr.op in table)
    return builder


def resolve(instr: ir.Instr) -> AluOp | None:
    """The AluOp of a pure register-to-register instruction.

    None for every other instruction, and when a source operand is a special register or a symbol (the engine knows
    those). Raises UnsupportedInstruction for a modifier or type that sm_90a, or this emulator, does not have.
    """
    builder = _builder(instr)
    if builder is None or any(type(operand) in (ir.Special, ir.Sym) for operand in sources(instr)):
        return None
    return builder(instr)


def covered() -> frozenset[str]:
    """First components ('add', 'cvt', …) of the instructions that `resolve` knows."""
    return frozenset(_ANY) | _TYPED
