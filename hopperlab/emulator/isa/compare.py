# SPDX-License-Identifier: Apache-2.0
"""Comparison and selection: setp, set, selp, slct, testp (PTX ISA 9.7.6 and 9.7.3.1).

One table holds the comparison operators. Halves are compared as float32 values, packed halves lane by lane.
"""

from __future__ import annotations

import numpy as np

from ..ptx import ir
from .formats import halves_f32, join, to_f32
from .op import DTYPE, NUMPY, AluOp, Modifiers, build, expression, sources

_SYMBOL = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}
_INVERSE = {"equ": "!=", "neu": "==", "ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<"}
_BOOL = {"and": "&", "or": "|", "xor": "^"}
_INTS = ("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64")
_FLOATS = ("f32", "f64")
_HALVES = ("f16", "bf16", "f16x2", "bf16x2")


def _template(op: str, kind: str) -> str | None:
    """The comparison as an expression: the ordered operators are false and the unordered ones true with a NaN. None
    when the type does not have the operator."""
    floating = kind not in _INTS
    if (op in ("lo", "ls", "hi", "hs") and kind[0] != "u") or (
        kind[0] == "b" and not floating and op not in ("eq", "ne")
    ):
        return None
    if op == "ne" and floating:
        return "({0} < {1}) | ({0} > {1})"
    if op in _SYMBOL:
        return f"{{0}} {_SYMBOL[op]} {{1}}"
    if not floating:
        return None
    if op == "neu":
        return "{0} != {1}"
    if op in _INVERSE:
        # A NaN makes every ordered comparison false, hence the inverse true.
        return "~(({0} < {1}) | ({0} > {1}))" if op == "equ" else f"~({{0}} {_INVERSE[op]} {{1}})"
    return {"num": "({0} == {0}) & ({1} == {1})", "nan": "({0} != {0}) | ({1} != {1})"}.get(op)


class _Comparison:
    """The parts of a setp or set: operator, combination with a predicate, type and flushing."""

    def __init__(self, mods: Modifiers):
        self.type = mods.type(_INTS + _FLOATS + _HALVES)
        operators = (*_SYMBOL, *_INVERSE, "num", "nan")
        self.op = mods.require(operators)
        self.bool = mods.choose(_BOOL)
        self.ftz = mods.flag("ftz")
        self.template = _template(self.op, self.type)
        if self.template is None or self.ftz and (self.type == "f64" or self.type in _INTS):
            raise mods.fail(f".{self.op} does not compare .{self.type}")
        self.compare = expression(self.template, ("f32", "f32"), ("pred",)).fn
        self.dtype = "u16" if self.type == "f16" else DTYPE[self.type]

    @property
    def simple(self) -> bool:
        """True when the operands are compared as they are."""
        return self.type not in _HALVES and not self.ftz

    def results(self, a, b) -> tuple:
        """(truth,), or (low, high) for packed halves."""
        if self.type in ("f16x2", "bf16x2"):
            hit = self.compare(halves_f32(a, self.type, self.ftz), halves_f32(b, self.type, self.ftz))
            return hit[..., 0], hit[..., 1]
        if not self.simple:
            a, b = to_f32(a, self.type, self.ftz), to_f32(b, self.type, self.ftz)
        return (self.compare(a, b),)

    def combine(self, hit, other: tuple):
        """hit, combined with the predicate operand if there is one."""
        if self.bool is None:
            return hit
        return {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[self.bool](hit, other[0])


def setp(instr: ir.Instr) -> AluOp:
    """setp.op{.bool}{.ftz}.type p{|q}, a, b{, c}: p is the comparison, q its inverse (for f16x2 the high half)."""
    mods = Modifiers(instr)
    kind = _Comparison(mods)
    mods.finish()
    ins = (kind.dtype, kind.dtype) + (("pred",) if kind.bool else ())
    if len(sources(instr)) != len(ins):
        raise mods.fail(f"takes {len(ins)} source operands")
    pair = type(instr.operands[0]) is ir.PredPair
    packed = kind.type in ("f16x2", "bf16x2")
    if kind.simple and not pair:
        template = kind.template if not kind.bool else f"({kind.template}) {_BOOL[kind.bool]} {{2}}"
        return expression(template, ins, ("pred",))

    def fn(a, b, *other):
        hits = kind.results(a, b)
        if packed:
            return tuple(kind.combine(hit, other) for hit in hits)
        first = kind.combine(hits[0], other)
        return (first, kind.combine(~hits[0], other)) if pair else first

    if packed and not pair:
        raise mods.fail("a packed comparison has two results, p|q")
    return AluOp(fn, ins, ("pred", "pred") if pair else ("pred",))


def set_(instr: ir.Instr) -> AluOp:
    """set.op{.bool}{.ftz}.dtype.stype d, a, b{, c}: all ones (integers) or 1.0 (floats) where true."""
    mods = Modifiers(instr)
    kind = _Comparison(mods)
    target = mods.type(("u32", "s32", "u16", "s16", "f32", *_HALVES))
    mods.finish()
    one = {"f32": 1.0, "f16": 0x3C00, "bf16": 0x3F80, "f16x2": 0x3C00, "bf16x2": 0x3F80}.get(target, -1)
    dtype = "u16" if target == "f16" else DTYPE[target]
    packed = kind.type in ("f16x2", "bf16x2")
    lane = np.uint16 if packed else NUMPY[dtype]
    yes = np.array(one).astype(lane)[()]

    def fn(a, b, *other):
        hits = [np.where(kind.combine(hit, other), yes, lane(0)) for hit in kind.results(a, b)]
        return join(*hits).astype(NUMPY[dtype]) if packed else hits[0]

    ins = (kind.dtype, kind.dtype) + (("pred",) if kind.bool else ())
    return AluOp(fn, ins, (dtype,))


def selp(instr: ir.Instr) -> AluOp:
    """selp.type d, a, b, c: c ? a : b."""
    mods = Modifiers(instr)
    dtype = DTYPE[mods.type(_INTS + _FLOATS)]
    mods.finish()
    return expression("np.where({2}, {0}, {1})", (dtype, dtype, "pred"), (dtype,))


def slct(instr: ir.Instr) -> AluOp:
    """slct{.ftz}.type.{s32,f32} d, a, b, c: c >= 0 ? a : b. Minus zero is not negative; a NaN selects b."""
    mods = Modifiers(instr)
    selector = mods.type(("s32", "f32"))
    dtype = DTYPE[mods.type(_INTS + _FLOATS)]
    ftz = mods.flag("ftz")
    mods.finish()
    if ftz and selector == "f32":
        return AluOp(lambda a, b, c: np.where(to_f32(c, "f32", True) >= 0, a, b), (dtype, dtype, "f32"), (dtype,))
    return expression("np.where({2} >= 0, {0}, {1})", (dtype, dtype, selector), (dtype,))


_TESTS = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda x: ~np.isnan(x),
    "notanumber": np.isnan,
    "normal": lambda x: np.isfinite(x) & ((np.abs(x) >= np.finfo(x.dtype).tiny) | (x == 0)),
    "subnormal": lambda x: (x != 0) & (np.abs(x) < np.finfo(x.dtype).tiny),
}


def testp(instr: ir.Instr) -> AluOp:
    """testp.op.type p, a; zero counts as normal (PTX ISA 9.7.3.1)."""
    mods = Modifiers(instr)
    dtype = mods.type(_FLOATS)
    test = _TESTS[mods.require(_TESTS)]
    mods.finish()
    return build(test, (dtype,), ("pred",))


FAMILIES = {"setp": setp, "set": set_, "selp": selp, "slct": slct, "testp": testp}
