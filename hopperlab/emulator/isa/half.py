# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on f16, f16x2, bf16 and bf16x2: add, sub, mul, fma, min, max, abs, neg, ex2, tanh (PTX ISA 9.7.4).

Values are bit patterns (uint16, or uint32 for pairs). One float32 operation and one rounding to 16 bits is correctly
rounded for all but fma, which goes through float64.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ptx import ir
from .floating import minmax, read_minmax, xorsign
from .formats import f32_bf16, f32_f16, f64_half, flush16, relu, saturate, split16, to_f32, to_odd, two_sum, unsplit16
from .op import DTYPE, AluOp, Modifiers

KINDS = ("f16", "f16x2", "bf16", "bf16x2")
_OOB_NAN = np.uint16(0x7FF7)
_MAGNITUDE = np.uint16(0x7FFF)
_INFINITE = {"f16": np.uint16(0x7C00), "bf16": np.uint16(0x7F80)}


def _lanewise(fn: Callable, kind: str, count: int) -> AluOp:
    """fn works on uint16 patterns of any shape; packed kinds are split first."""
    dtype = DTYPE[kind] if kind != "f16" else "u16"
    if kind.endswith("x2"):
        return AluOp(lambda *x: unsplit16(fn(*map(split16, x))), (dtype,) * count, (dtype,))
    return AluOp(fn, (dtype,) * count, (dtype,))


def _narrow(x, base: str):
    return f32_f16(x) if base == "f16" else f32_bf16(x)


def _through_f32(op: Callable, base: str, ftz: bool = False, sat: bool = False) -> Callable:
    """op on float32 values, and the result rounded to 16 bits."""

    def fn(*x):
        r = op(*(to_f32(v, base, ftz) for v in x))
        if ftz:
            r = flush16(r)
        return _narrow(saturate(r) if sat else r, base)

    return fn


_SIMPLE = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def arithmetic(instr: ir.Instr) -> AluOp:
    """add, sub, mul {.rn}: .ftz and .sat for f16 only."""
    mods = Modifiers(instr)
    kind = mods.type(KINDS)
    mods.flag("rn")
    half = kind.startswith("f16")
    ftz, sat = half and mods.flag("ftz"), half and mods.flag("sat")
    if mods.left == ["f32"]:
        raise mods.fail("mixed f32 and 16-bit operands need sm_100 or newer; Hopper (sm_90a) does not have them")
    mods.finish()
    return _lanewise(_through_f32(_SIMPLE[instr.op], kind.removesuffix("x2"), ftz, sat), kind, 2)


def fma(instr: ir.Instr) -> AluOp:
    """fma.rn{.ftz}{.sat}{.relu}{.oob}: one rounding. .oob gives 0 where a factor is the out-of-bounds NaN."""
    mods = Modifiers(instr)
    kind = mods.type(KINDS)
    mods.require(("rn",))
    half = kind.startswith("f16")
    ftz, sat = half and mods.flag("ftz"), half and mods.flag("sat")
    oob, clamp = mods.flag("oob"), mods.flag("relu")
    if mods.left == ["f32"]:
        raise mods.fail("mixed f32 and 16-bit operands need sm_100 or newer; Hopper (sm_90a) does not have them")
    mods.finish()
    base = kind.removesuffix("x2")

    def fn(*x):
        a, b, c = (to_f32(v, base, ftz).astype(np.float64) for v in x)
        p = a * b
        s = p + c
        if base == "bf16":  # with f16 a bit lost in float64 is too far down to matter
            error = two_sum(p, c)[1]
            if np.count_nonzero(error):
                s = to_odd(s, error)
        if ftz:
            s = np.where(np.abs(s) < 2.0**-14, s * 0.0, s)
        s = saturate(s) if sat else relu(s) if clamp else s
        r = f64_half(s, base)
        if oob:
            r = np.where((x[0] & _MAGNITUDE == _OOB_NAN) | (x[1] & _MAGNITUDE == _OOB_NAN), np.uint16(0), r)
        return r

    return _lanewise(fn, kind, 3)


def extremum(instr: ir.Instr) -> AluOp:
    """min, max {.ftz}{.NaN}{.xorsign.abs}."""
    mods = Modifiers(instr)
    kind = mods.type(KINDS)
    ftz, nan, absolute = read_minmax(mods)
    mods.finish()
    if len(instr.operands) != 3:
        raise mods.fail("three inputs need sm_100 or newer; Hopper (sm_90a) takes two")
    op = minmax(instr.op == "max", nan)
    return _lanewise(_through_f32(xorsign(op) if absolute else op, kind.removesuffix("x2"), ftz), kind, 2)


def sign(instr: ir.Instr) -> AluOp:
    """abs, neg {.ftz}, on the patterns; NaN becomes 0x7fff."""
    mods = Modifiers(instr)
    kind = mods.type(KINDS)
    ftz = kind.startswith("f16") and mods.flag("ftz")
    mods.finish()
    infinite, negate = _INFINITE[kind.removesuffix("x2")], instr.op == "neg"

    def fn(x):
        x = _narrow(to_f32(x, "f16", True), "f16") if ftz else x
        magnitude = x & _MAGNITUDE
        r = x ^ np.uint16(0x8000) if negate else magnitude
        return np.where(magnitude > infinite, _MAGNITUDE, r)

    return _lanewise(fn, kind, 1)


def approximate(instr: ir.Instr) -> AluOp:
    """ex2.approx{.ftz}, tanh.approx."""
    mods = Modifiers(instr)
    kind = mods.type(KINDS)
    mods.require(("approx",))
    base = kind.removesuffix("x2")
    ftz = instr.op == "ex2" and base == "bf16" and mods.flag("ftz")
    if instr.op == "ex2" and base == "bf16" and not ftz:
        raise mods.fail("ex2 of .bf16 needs .ftz")
    mods.finish()
    op = np.exp2 if instr.op == "ex2" else np.tanh
    if base == "bf16":  # .ftz flushes what is subnormal in float32
        return _lanewise(_through_f32(lambda x: op(to_f32(x, "f32", ftz)), base), kind, 1)
    return _lanewise(_through_f32(op, base, ftz=False), kind, 1)


FAMILIES = {
    "add": arithmetic, "sub": arithmetic, "mul": arithmetic, "fma": fma, "min": extremum, "max": extremum, "abs": sign,
    "neg": sign, "ex2": approximate, "tanh": approximate,
}  # fmt: skip
