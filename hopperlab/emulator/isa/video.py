# SPDX-License-Identifier: Apache-2.0
"""The scalar video instructions vadd, vsub, vabsdiff, vmin, vmax, vshl, vshr, vmad, vset (PTX ISA 9.7.16.1). video_simd.py has the
forms on two halves or four bytes. Selectors come as modifiers: 'a.b0' is byte 0 of a, 'd.h1' the half of d that is written.

sm_90 has no such instructions: ptxas spells them out. Where its results (compared on an H200, CUDA 13.0) and the ISA's
pseudocode differ, the results count: .sat and .h1 below. Open are .min and .max of results
without .sat that leave 32 bits, and .sat of vshl: they follow the pseudocode.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ptx import ir
from .op import AluOp, Modifiers

COMPARE = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
SECOND = {"add": np.add, "min": np.minimum, "max": np.maximum}
_FIRST = {
    "vadd": np.add, "vsub": np.subtract, "vabsdiff": lambda a, b: np.abs(a - b), "vmin": np.minimum, "vmax": np.maximum,
}  # fmt: skip
_KINDS = ("u32", "s32")
_PARTS = {f"b{k}": (8, 8 * k) for k in range(4)} | {f"h{k}": (16, 16 * k) for k in range(2)} | {None: (32, 0)}


def selector(mods: Modifiers, place: str) -> str | None:
    """Take the selector of operand `place` ('a', 'b', 'c' or 'd'), such as 'b0'."""
    found = next((m for m in mods.left if m.startswith(place + ".") and m != place + ".negated"), None)
    if found is not None:
        mods.left.remove(found)
    return found and found[2:]


def _taker(part: str | None, kind: str) -> Callable:
    """fn(uint32) -> int64: the selected byte, half or word, extended by its type."""
    bits, shift = _PARTS[part]
    top, span = np.int64(1 << bits - 1), np.int64(1 << bits)

    def take(x):
        value = (x >> np.uint32(shift)).astype(np.int64) & (span - np.int64(1))
        return np.where(value >= top, value - span, value) if kind[0] == "s" else value

    return take


def _merged(part: str, value, c):
    """c with the selected byte or half replaced by the low bits of value (uint32); for .h1 by its upper half."""
    bits, shift = _PARTS[part]
    mask = np.uint32((1 << bits) - 1 << shift)
    return (value if part == "h1" else value << np.uint32(shift)) & mask | c & ~mask


def _limits(part: str | None, kind: str) -> tuple[int, int]:
    """Where .sat clamps: the range of the part that is written."""
    bits = _PARTS[part][0]
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


def _saturated(x, part: str | None, kind: str):
    """.sat of an exact result. A part of d is clamped as an unsigned word, that is from above only; a sum that leaves an unsigned
    word wraps."""
    word = x & np.int64(0xFFFFFFFF)
    if part is not None or kind == "u32":
        x = word if part is not None else np.where(x < 0, np.int64(0), word)
    return _clamp(x, _limits(part, kind))


def _clamp(x, limits: tuple[int, int]):
    return np.minimum(np.maximum(x, np.int64(limits[0])), np.int64(limits[1]))


def _word(x):
    """The low 32 bits of an int64."""
    return (x & np.int64(0xFFFFFFFF)).astype(np.uint32)


def scalar(instr: ir.Instr) -> AluOp:
    """vadd, vsub, vabsdiff, vmin, vmax .dtype.atype.btype{.sat}{.op2} d{.dsel}, a{.asel}, b{.bsel}{, c}; vset without dtype and .sat;
    vshl, vshr with .clamp or .wrap."""
    mods = Modifiers(instr)
    parts = {place: selector(mods, place) for place in "dab"}
    compare = mods.require(COMPARE) if instr.op == "vset" else None
    second, sat = mods.choose(SECOND), mods.flag("sat")
    wraps = mods.require(("clamp", "wrap")) == "wrap" if instr.op in ("vshl", "vshr") else None
    b_kind, a_kind = mods.type(_KINDS if wraps is None else ("u32",)), mods.type(_KINDS)
    kind = "u32" if compare else mods.type(_KINDS)
    mods.finish()
    _check(mods, instr, parts, second, sat and compare)
    saturate = _saturated if wraps is None else lambda x, part, kind: _clamp(x, _limits(part, kind))
    first = COMPARE[compare] if compare else _FIRST.get(instr.op) or _shifter(instr.op, wraps)
    take_a, take_b, typed = _taker(parts["a"], a_kind), _taker(parts["b"], b_kind), _taker(None, kind)

    def fn(a, b, *c):
        result = first(take_a(a), take_b(b)).astype(np.int64)
        if sat:
            result = saturate(result, parts["d"], kind)
        if second:
            result = SECOND[second](typed(_word(result)), typed(c[0]))
        return _merged(parts["d"], _word(result), c[0]) if parts["d"] else _word(result)

    return AluOp(fn, ("u32",) * (len(instr.operands) - 1), ("u32",))


def _check(mods: Modifiers, instr: ir.Instr, parts: dict, second: str | None, strange) -> None:
    """A third source goes with a second operation or a part of d, never with both."""
    if any(part not in _PARTS for part in parts.values()):
        raise mods.fail("a selector is .b0 to .b3, .h0 or .h1")
    if strange or second and parts["d"] or (len(instr.operands) == 4) != bool(second or parts["d"]):
        raise mods.fail("takes c with .add, .min, .max or with a part of d, one of the two")


def _shifter(op: str, wraps: bool) -> Callable:
    """Shifts by 0 to 31 (wrap) or to 32 (clamp) of a value of 33 bits; what leaves the 64 bits of the result does not count."""

    def shift(a, b):
        amount = b & np.int64(31) if wraps else np.minimum(b, np.int64(32))
        return a << amount if op == "vshl" else a >> amount

    return shift


def vmad(instr: ir.Instr) -> AluOp:
    """vmad.dtype.atype.btype{.sat}{.scale} d, {-}a{.asel}, {-}b{.bsel}, {-}c; with .po one is added to a * b + c."""
    mods = Modifiers(instr)
    parts = {place: selector(mods, place) for place in "ab"}
    product, third = mods.flag("a.negated") != mods.flag("b.negated"), mods.flag("c.negated")
    scale = {None: 0, "shr7": 7, "shr15": 15}[mods.choose(("shr7", "shr15"))]
    sat, plus_one = mods.flag("sat"), mods.flag("po")
    b_kind, a_kind, _ = mods.type(_KINDS), mods.type(_KINDS), mods.type(_KINDS)
    mods.finish()
    if plus_one and (product or third) or any(part not in _PARTS for part in parts.values()):
        raise mods.fail(".po does not go with a minus" if plus_one else "a selector is .b0 to .b3, .h0 or .h1")
    signed = "s32" in (a_kind, b_kind) or product or third
    # Whole words count as signed whatever their type says (measured on an H200).
    take_a, take_b = (_taker(part, kind if part else "s32") for part, kind in ((parts["a"], a_kind), (parts["b"], b_kind)))
    limits = _limits(None, "s32" if signed else "u32")

    def fn(a, b, c):
        term = (~c if third else c).view(np.int32).astype(np.int64)
        total = take_a(a) * take_b(b)
        total = (-total if product else total) + term + np.int64(plus_one or third)
        total = total >> np.int64(scale)
        if scale and not signed:                           # what is below zero counts as beyond the end
            total = np.where(total < 0, np.int64(limits[1]), total) if sat else total
        return _word(_clamp(total, limits) if sat else total)

    return AluOp(fn, ("u32",) * 3, ("u32",))


FAMILIES = {**dict.fromkeys((*_FIRST, "vset", "vshl", "vshr"), scalar), "vmad": vmad}
