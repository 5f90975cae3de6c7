# SPDX-License-Identifier: Apache-2.0
"""Integer arithmetic: add, sub, mul, mad (with carry), div, rem, min, max, abs, neg, sad, mul24, mad24, dp4a, dp2a
and the packed u16x2 and s16x2 forms (PTX ISA 9.7.1 and 9.7.2). Everything wraps unless .sat is written.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ptx import ir
from .formats import split16, unsplit16
from .op import BITS, NUMPY, AluOp, Modifiers, binary, build, expression, ternary, unary

SCALAR = ("u16", "u32", "u64", "s16", "s32", "s64")
_PACKED = ("u16x2", "s16x2")
_WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
_LANE = {"u16x2": np.uint16, "s16x2": np.int16}

_MASK32 = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


def _mul_hi_u64(a, b):
    """The high 64 bits of a 128-bit product, from 32-bit pieces."""
    al, ah, bl, bh = a & _MASK32, a >> _32, b & _MASK32, b >> _32
    t = ah * bl + (al * bl >> _32)
    u = al * bh + (t & _MASK32)
    return ah * bh + (t >> _32) + (u >> _32)


def _mul_hi_s64(a, b):
    """Signed: what the sign bits stand for is taken off the unsigned result."""
    high = _mul_hi_u64(a.view(np.uint64), b.view(np.uint64)).view(np.int64)
    return high - np.where(a < 0, b, np.int64(0)) - np.where(b < 0, a, np.int64(0))


def high_product(dtype: str) -> Callable:
    """fn(a, b): the upper half of the double-width product."""
    if dtype == "u64":
        return _mul_hi_u64
    if dtype == "s64":
        return _mul_hi_s64
    wide, narrow, shift = NUMPY[_WIDE[dtype]], NUMPY[dtype], NUMPY[_WIDE[dtype]](BITS[dtype])
    return lambda a, b: (a.astype(wide) * b.astype(wide) >> shift).astype(narrow)


def _saturating(fn: Callable) -> Callable:
    """s32 result of fn(*s64), clamped."""

    def sat(*x):
        r = fn(*(v.astype(np.int64) for v in x))
        return np.minimum(np.maximum(r, np.int64(-(2**31))), np.int64(2**31 - 1)).astype(np.int32)

    return sat


def packed(fn: Callable, kind: str) -> Callable:
    """fn on the two 16-bit lanes of every uint32."""
    lane = _LANE[kind]
    return lambda *x: unsplit16(fn(*(split16(v).view(lane) for v in x)))


def add_sub(instr: ir.Instr) -> AluOp:
    """add, sub {.sat} of integers; add.cc, addc{.cc}, sub.cc, subc{.cc}."""
    mods = Modifiers(instr)
    kind = mods.type(SCALAR + _PACKED)
    name = instr.op
    if name in ("addc", "subc") or mods.flag("cc"):
        mods.flag("cc")
        mods.finish()
        return _carrying(instr, kind)
    sat = kind == "s32" and mods.flag("sat")
    mods.finish()
    symbol = "+" if name == "add" else "-"
    plain = f"{{0}} {symbol} {{1}}"
    if kind in _PACKED:
        return binary(packed(np.add if name == "add" else np.subtract, kind), "u32")
    if sat:
        return binary(_saturating(np.add if name == "add" else np.subtract), kind)
    return binary(plain, kind)


def _add_carry(a, b, carry):
    """(a + b + carry, carry out) of unsigned integers."""
    r = a + b
    if carry is None:
        return r, r < a
    r = r + carry
    return r, (r < a) | (carry & (r == a))


def _sub_carry(a, b, carry):
    """(a + ~b + carry, carry out) of unsigned integers: no borrow sets the flag."""
    if carry is None:
        return a - b, a >= b
    return _add_carry(a, ~b, carry)


def _carrying(instr: ir.Instr, kind: str) -> AluOp:
    """add.cc, addc, sub.cc, subc: the carry flag in and out (PTX ISA 9.7.2).

    A subtraction adds the complement, so its flag is set where it did not borrow. In chains of one kind this is the borrow
    of the PTX ISA; NVRTC's 128-bit division ends a chain of subc.cc with an addc and counts on it.
    """
    if BITS.get(kind, 16) < 32:
        raise Modifiers(instr).fail("only 32 and 64 bits have carry")
    dtype = f"u{BITS[kind]}"
    step = _sub_carry if instr.op.startswith("sub") else _add_carry
    reads, writes = instr.op in ("addc", "subc"), "cc" in instr.mods
    return AluOp(_flagged(step, reads, writes), (dtype, dtype), (dtype,), None, reads, writes)


def _flagged(step: Callable, reads: bool, writes: bool) -> Callable:
    """step(*values, carry or None) -> (value, carry) with only the flags that the instruction has."""

    def fn(*x):
        carry = np.asarray(x[-1]).astype(x[0].dtype)[()] if reads else None
        value, out = step(*(x[:-1] if reads else x), carry)
        return (value, np.asarray(out).astype(bool)[()]) if writes else value

    return fn


def mul_mad(instr: ir.Instr) -> AluOp:
    """mul, mad {.lo,.hi,.wide}; mad.hi.sat.s32; mad.cc, madc{.cc}."""
    mods = Modifiers(instr)
    kind = mods.type(SCALAR)
    part = mods.require(("lo", "hi", "wide"))
    if instr.op == "madc" or mods.flag("cc"):
        mods.flag("cc")
        mods.finish()
        return _mad_carry(instr, kind, part)
    sat = (instr.op, part, kind) == ("mad", "hi", "s32") and mods.flag("sat")
    mods.finish()
    adds = instr.op == "mad"
    if part == "lo":
        return ternary("{0} * {1} + {2}", kind) if adds else binary("{0} * {1}", kind)
    if part == "wide":
        return _wide(mods, kind, adds)
    high = high_product(kind)
    if not adds:
        return binary(high, kind)
    total = _saturating(np.add) if sat else np.add
    return ternary(lambda a, b, c: total(high(a, b), c), kind)


def _wide(mods: Modifiers, kind: str, adds: bool) -> AluOp:
    if kind not in _WIDE:
        raise mods.fail(f".wide of .{kind} would need 128 bits")
    wide = _WIDE[kind]
    name = NUMPY[wide].__name__
    product = f"{{0}}.astype(np.{name}) * {{1}}"
    if adds:
        return expression(product + " + {2}", (kind, kind, wide), (wide,))
    return expression(product, (kind, kind), (wide,))


def _mad_carry(instr: ir.Instr, kind: str, part: str) -> AluOp:
    """mad.cc and madc: the sum of the product's half and c sets the carry."""
    if BITS[kind] < 32 or part == "wide":
        raise Modifiers(instr).fail("only .lo and .hi of 32 and 64 bits have carry")
    unsigned, typed = f"u{BITS[kind]}", NUMPY[kind]
    high = high_product(kind)

    def step(a, b, c, carry):
        product = a * b if part == "lo" else high(a.view(typed), b.view(typed)).view(NUMPY[unsigned])
        return _add_carry(product, c, carry)

    reads, writes = instr.op == "madc", "cc" in instr.mods
    return AluOp(_flagged(step, reads, writes), (unsigned,) * 3, (unsigned,), None, reads, writes)


def _div(a, b):
    """Truncated quotient; all ones when b is 0, as an H200 gives."""
    if a.dtype.kind == "i":
        return np.where(b == 0, a.dtype.type(-1), (a - np.fmod(a, b)) // b)
    return np.where(b == 0, ~a.dtype.type(0), a // b)


def _rem(a, b):
    """Remainder with the sign of a; all ones when b is 0, as an H200 gives."""
    r = np.fmod(a, b) if a.dtype.kind == "i" else a % b
    return np.where(b == 0, ~a.dtype.type(0), r)


def div_rem(instr: ir.Instr) -> AluOp:
    """div, rem of integers."""
    mods = Modifiers(instr)
    kind = mods.type(SCALAR)
    mods.finish()
    return binary(_div if instr.op == "div" else _rem, kind)


def min_max(instr: ir.Instr) -> AluOp:
    """min, max {.relu}: .relu (s32, s16x2) also clamps at 0."""
    mods = Modifiers(instr)
    clamp = mods.flag("relu")  # written before or after the type
    kind = mods.type(SCALAR + _PACKED)
    mods.finish()
    if clamp and kind not in ("s32", "s16x2"):
        raise mods.fail(f".relu is for .s32 and .s16x2, not .{kind}")
    if len(instr.operands) != 3:
        raise mods.fail("three inputs need sm_100 or newer; Hopper (sm_90a) takes two")
    choose = np.minimum if instr.op == "min" else np.maximum
    fn = (lambda a, b: np.maximum(choose(a, b), a.dtype.type(0))) if clamp else choose
    if kind in _PACKED:
        return binary(packed(fn, kind), "u32")
    return binary(fn if clamp else f"np.{choose.__name__}({{0}}, {{1}})", kind)


def abs_neg(instr: ir.Instr) -> AluOp:
    """abs, neg of signed integers; the least number stays itself."""
    mods = Modifiers(instr)
    kind = mods.type(("s16", "s32", "s64"))
    mods.finish()
    return unary("np.abs({0})" if instr.op == "abs" else "-{0}", kind)


def sad(instr: ir.Instr) -> AluOp:
    """sad d, a, b, c: c + |a - b|."""
    mods = Modifiers(instr)
    kind = mods.type(SCALAR)
    mods.finish()
    return ternary(lambda a, b, c: c + np.where(a < b, b - a, a - b), kind)


def _sign24(x):
    """The low 24 bits of an integer, sign-extended for int32."""
    shift = x.dtype.type(8)
    return x << shift >> shift


def mul24(instr: ir.Instr) -> AluOp:
    """mul24, mad24 {.lo,.hi}: bits 0..31 or 16..47 of a 48-bit product; mad24.hi.sat.s32."""
    mods = Modifiers(instr)
    kind = mods.type(("u32", "s32"))
    part = mods.require(("lo", "hi"))
    sat = (instr.op, part, kind) == ("mad24", "hi", "s32") and mods.flag("sat")
    mods.finish()
    wide, narrow = NUMPY[_WIDE[kind]], NUMPY[kind]
    shift = wide(0 if part == "lo" else 16)

    def product(a, b):
        return (_sign24(a).astype(wide) * _sign24(b).astype(wide) >> shift).astype(narrow)

    if instr.op == "mul24":
        return binary(product, kind)
    total = _saturating(np.add) if sat else np.add
    return ternary(lambda a, b, c: total(product(a, b), c), kind)


def _lanes(x, dtype) -> np.ndarray:
    """uint32 of shape s as 8- or 16-bit lanes of shape s + (count,), widened to int64."""
    return np.asarray(x)[..., None].view(dtype).astype(np.int64)


def dot(instr: ir.Instr) -> AluOp:
    """dp4a.at.bt d, a, b, c: four products of bytes and c. dp2a{.lo,.hi}: two 16-bit lanes of a by two bytes of b."""
    mods = Modifiers(instr)
    b_type, a_type = mods.type(("u32", "s32")), mods.type(("u32", "s32"))
    half = mods.require(("lo", "hi")) if instr.op == "dp2a" else None
    mods.finish()
    bytes_of = {"u32": np.uint8, "s32": np.int8}
    pairs_of = {"u32": np.uint16, "s32": np.int16}
    pick = {None: slice(None), "lo": slice(0, 2), "hi": slice(2, 4)}[half]
    a_lane = bytes_of[a_type] if half is None else pairs_of[a_type]
    out = "u32" if a_type == b_type == "u32" else "s32"
    narrow = NUMPY[out]

    def fn(a, b, c):
        total = (_lanes(a, a_lane) * _lanes(b, bytes_of[b_type])[..., pick]).sum(axis=-1)
        return (total + c.astype(np.int64)).astype(narrow)

    return build(fn, ("u32", "u32", out), (out,))


FAMILIES = {
    "add": add_sub, "sub": add_sub, "addc": add_sub, "subc": add_sub, "mul": mul_mad, "mad": mul_mad, "madc": mul_mad,
    "div": div_rem, "rem": div_rem, "min": min_max, "max": min_max, "abs": abs_neg, "neg": abs_neg, "sad": sad,
    "mul24": mul24, "mad24": mul24, "dp4a": dot, "dp2a": dot,
}  # fmt: skip
