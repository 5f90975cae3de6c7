# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on f32 and f64: add, sub, mul, fma, mad, div, rcp, sqrt, rsqrt, min, max, abs, neg, copysign, and the
approximations ex2, lg2, sin, cos, tanh (PTX ISA 9.7.3). Approximations are as exact as NumPy: more than on a GPU.
NaN results of f32 are NaN with the host's pattern; on the hardware all but moves and cvt give 0x7fffffff.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ptx import ir
from . import exact
from .formats import canonical, flush, saturate
from .op import AluOp, Modifiers, expression

ROUNDINGS = ("rn", "rz", "rm", "rp")
_TEMPLATE = {"add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}"}
_ONE = {"f32": np.float32(1), "f64": np.float64(1)}

# (operation, type): correctly rounded function whose last argument is the mode.
_DIRECTED = {
    ("add", "f32"): exact.add32_directed,
    ("sub", "f32"): lambda a, b, mode: exact.add32_directed(a, -b, mode),
    ("mul", "f32"): exact.mul32_directed,
    ("fma", "f32"): exact.fma32_directed,
    ("div", "f32"): exact.div32_directed,
    ("rcp", "f32"): lambda a, mode: exact.div32_directed(_ONE["f32"], a, mode),
    ("sqrt", "f32"): exact.sqrt32_directed,
    ("add", "f64"): exact.add64,
    ("sub", "f64"): lambda a, b, mode: exact.add64(a, -b, mode),
    ("mul", "f64"): exact.mul64,
    ("fma", "f64"): exact.fma64,
    ("div", "f64"): exact.div64,
    ("rcp", "f64"): lambda a, mode: exact.div64(_ONE["f64"], a, mode),
    ("sqrt", "f64"): exact.sqrt64,
}
# The same to nearest, where NumPy is exact already.
_NEAREST = {
    ("fma", "f32"): exact.fma32,
    ("fma", "f64"): exact.fma64,
    ("div", "f32"): lambda a, b: a / b,
    ("div", "f64"): lambda a, b: a / b,
    ("rcp", "f32"): lambda a: _ONE["f32"] / a,
    ("rcp", "f64"): lambda a: _ONE["f64"] / a,
    ("sqrt", "f32"): np.sqrt,
    ("sqrt", "f64"): np.sqrt,
}
_ARITY = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "div": 2, "rcp": 1, "sqrt": 1}


def wrapped(fn: Callable, dtype: str, count: int, ftz: bool = False, sat: bool = False) -> AluOp:
    """An AluOp around fn with flushing of inputs and result, and saturation."""
    ins = (dtype,) * count
    if ftz and sat:
        return AluOp(lambda *x: saturate(flush(fn(*map(flush, x)))), ins, (dtype,))
    if ftz:
        return AluOp(lambda *x: flush(fn(*map(flush, x))), ins, (dtype,))
    if sat:
        return AluOp(lambda *x: saturate(fn(*x)), ins, (dtype,))
    return AluOp(fn, ins, (dtype,))


def _flags(mods: Modifiers, dtype: str) -> tuple[bool, bool]:
    """(ftz, sat); only f32 has them."""
    if dtype == "f64":
        return False, False
    return mods.flag("ftz"), mods.flag("sat")


def arithmetic(instr: ir.Instr) -> AluOp:
    """add, sub, mul, fma and mad with any rounding; mad is fma since sm_20."""
    mods = Modifiers(instr)
    dtype = mods.type(("f32", "f64"))
    name = "fma" if instr.op == "mad" else instr.op
    mode = mods.require(ROUNDINGS) if name == "fma" else mods.choose(ROUNDINGS, "rn")
    ftz, sat = _flags(mods, dtype)
    mods.finish()
    count = _ARITY[name]
    if mode == "rn" and name in _TEMPLATE:
        plain = expression(_TEMPLATE[name], (dtype,) * count, (dtype,))
        return wrapped(plain.fn, dtype, count, ftz, sat) if ftz or sat else plain
    return wrapped(_rounded(name, dtype, mode), dtype, count, ftz, sat)


def _rounded(name: str, dtype: str, mode: str) -> Callable:
    if mode == "rn":
        return _NEAREST[name, dtype]
    directed = _DIRECTED[name, dtype]
    return lambda *x: directed(*x, mode)


def _div_approx(a, b):
    """a * (1/b), whose reciprocal underflows above 2^126 (PTX ISA 9.7.3.8)."""
    huge = np.abs(b) > np.float32(2.0**126)
    return np.where(huge & (b == b), a * np.copysign(np.float32(0), b), a / b)


def quotient(instr: ir.Instr) -> AluOp:
    """div.{approx,full,rn…}, rcp.{approx,rn…}, sqrt.{approx,rn…}."""
    mods = Modifiers(instr)
    dtype = mods.type(("f32", "f64"))
    mode = mods.require((*ROUNDINGS, "approx", "full"))
    ftz = mods.flag("ftz")
    mods.finish()
    name, count = instr.op, _ARITY[instr.op]
    if dtype == "f64" and (mode == "full" or (mode == "approx" and (name, ftz) != ("rcp", True))):
        raise mods.fail(f".{mode} is not for .f64 here")
    if mode == "full" and name != "div":
        raise mods.fail(".full is for div only")
    if dtype == "f64":
        fn = _rcp_approx64 if mode == "approx" else _rounded(name, dtype, mode)
        return wrapped(fn, dtype, count)
    if mode == "approx" and name == "div":
        return wrapped(_div_approx, dtype, count, ftz)
    # div.full flushes subnormal inputs by scaling only; like approx it is within 2 ulp of the exact quotient.
    return wrapped(_rounded(name, dtype, "rn" if mode in ("approx", "full") else mode), dtype, count, ftz)


def _high_word(x):
    """float64 whose low 32 bits are zero."""
    return (x.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)


def _rcp_approx64(a):
    """rcp.approx.ftz.f64: 20 bits of mantissa of the input and of the result count (PTX ISA 9.7.3.14)."""
    return flush(_high_word(_ONE["f64"] / _high_word(flush(a))))


def rsqrt(instr: ir.Instr) -> AluOp:
    """rsqrt.approx{.ftz}.f32 and .f64; with .ftz the f64 form keeps 20 bits of mantissa."""
    mods = Modifiers(instr)
    dtype = mods.type(("f32", "f64"))
    mods.require(("approx",))
    ftz = mods.flag("ftz")
    mods.finish()
    one = _ONE[dtype]
    if dtype == "f64" and ftz:
        return AluOp(lambda a: _high_word(one / np.sqrt(_high_word(flush(a)))), ("f64",), ("f64",))
    return wrapped(lambda a: one / np.sqrt(a), dtype, 1, ftz)


_TURN = np.float32(0.15915494309189535)  # 1 / (2 pi)


def _of_turns(fn: Callable) -> Callable:
    """sin or cos of an angle counted in turns in float32, as the hardware does: large angles lose their fraction."""

    def approx(x):
        turns = x * _TURN
        return fn((turns - np.rint(turns)).astype(np.float64) * (2 * np.pi)).astype(np.float32)

    return approx


_APPROXIMATE = {"ex2": np.exp2, "lg2": np.log2, "sin": _of_turns(np.sin), "cos": _of_turns(np.cos), "tanh": np.tanh}


def approximate(instr: ir.Instr) -> AluOp:
    """ex2, lg2, sin, cos, tanh: .approx{.ftz}.f32."""
    mods = Modifiers(instr)
    dtype = mods.type(("f32",))
    mods.require(("approx",))
    ftz = instr.op != "tanh" and mods.flag("ftz")
    mods.finish()
    return wrapped(_APPROXIMATE[instr.op], dtype, 1, ftz)


def _mask_sign(x):
    """The integer view of a float array."""
    return x.view(np.uint32 if x.dtype == np.float32 else np.uint64)


def minmax(largest: bool, nan: bool) -> Callable:
    """min or max of floats: -0 is below +0; a NaN gives way to a number unless `nan` (PTX ISA 9.7.3.11)."""
    choose = np.maximum if largest else np.minimum
    bitwise = np.bitwise_and if largest else np.bitwise_or

    def fn(a, b):
        r = choose(a, b)
        odd = ~(np.abs(r) > 0)  # zero or NaN
        if np.count_nonzero(odd):
            zero = bitwise(_mask_sign(a), _mask_sign(b)).view(r.dtype)
            r = np.where((a == 0) & (b == 0), zero, r)
            if not nan:
                r = np.where(a != a, b, np.where(b != b, a, r))
            r = canonical(r) if r.dtype == np.float32 else r
        return r

    return fn


def xorsign(fn: Callable) -> Callable:
    """.xorsign.abs: fn of the absolute values, with the product's sign."""
    return lambda a, b: np.copysign(
        fn(np.abs(a), np.abs(b)), np.where(np.signbit(a) ^ np.signbit(b), -a.dtype.type(1), a.dtype.type(1))
    )


def extremum(instr: ir.Instr) -> AluOp:
    """min, max {.ftz}{.NaN}{.xorsign.abs} of f32, and of f64."""
    mods = Modifiers(instr)
    dtype = mods.type(("f32", "f64"))
    ftz, nan, absolute = read_minmax(mods)
    mods.finish()
    if dtype == "f64" and (ftz or nan or absolute):
        raise mods.fail(".f64 takes no modifier")
    if len(instr.operands) != 3:
        raise mods.fail("three inputs need sm_100 or newer; Hopper (sm_90a) takes two")
    fn = minmax(instr.op == "max", nan)
    return wrapped(xorsign(fn) if absolute else fn, dtype, 2, ftz)


def read_minmax(mods: Modifiers) -> tuple[bool, bool, bool]:
    """(ftz, NaN, xorsign.abs) of a min or max."""
    ftz, nan, absolute = mods.flag("ftz"), mods.flag("NaN"), mods.flag("xorsign")
    if absolute and not mods.flag("abs"):
        raise mods.fail(".xorsign needs .abs")
    return ftz, nan, absolute


def sign(instr: ir.Instr) -> AluOp:
    """abs, neg {.ftz} of f32 and f64."""
    mods = Modifiers(instr)
    dtype = mods.type(("f32", "f64"))
    ftz = dtype == "f32" and mods.flag("ftz")
    mods.finish()
    plain = expression("np.abs({0})" if instr.op == "abs" else "-{0}", (dtype,), (dtype,))
    return wrapped(plain.fn, dtype, 1, True) if ftz else plain


def copysign(instr: ir.Instr) -> AluOp:
    """copysign.type d, a, b: b with the sign of a (PTX ISA 9.7.3.2)."""
    mods = Modifiers(instr)
    dtype = mods.type(("f32", "f64"))
    mods.finish()
    return expression("np.copysign({1}, {0})", (dtype, dtype), (dtype,))


FAMILIES = {
    "add": arithmetic, "sub": arithmetic, "mul": arithmetic, "fma": arithmetic, "mad": arithmetic,
    "div": quotient, "rcp": quotient, "sqrt": quotient, "rsqrt": rsqrt,
    "ex2": approximate, "lg2": approximate, "sin": approximate, "cos": approximate, "tanh": approximate,
    "min": extremum, "max": extremum, "abs": sign, "neg": sign, "copysign": copysign,
}  # fmt: skip
