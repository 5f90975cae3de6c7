# SPDX-License-Identifier: Apache-2.0
"""cvt in all forms that sm_90a has, and cvt.pack (PTX ISA 9.7.9.21, 9.7.9.22).

Integers and floats go through the widest type that holds them exactly, so that each value is rounded once. A narrow
integer may sit in a wider register: its low bits count, and a result is extended by its own sign.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..ptx import ir
from . import packed
from .formats import (
    LARGEST,
    clamp_finite,
    f32_bf16,
    f32_f16,
    f32_tf32,
    f64_f32,
    f64_half,
    flush,
    nudge,
    relu,
    saturate,
    to_f32,
    to_odd,
    two_sum,
)
from .op import BITS, DTYPE, NUMPY, AluOp, Modifiers, expression, sources

if TYPE_CHECKING:
    from .value import Value

_INTS = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64")
_FLOATS = ("f16", "bf16", "f32", "f64")
_TO_INTEGER = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_MODES = ("rn", "rz", "rm", "rp")
_WIDTH = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def _limits(kind: str) -> tuple[int, int]:
    info = np.iinfo(NUMPY[kind])
    return int(info.min), int(info.max)


def _register_dtype(mods: Modifiers, operand, kind: str) -> str:
    """The dtype of an integer operand's register, with the signedness of `kind`. Raises UnsupportedInstruction for one of 128 bits, which ptxas takes."""
    width = max(BITS.get(DTYPE.get(operand.type, ""), 0), BITS[kind]) if type(operand) is ir.Reg else BITS[kind]
    if width > 64:
        raise mods.fail(f"{operand.name} has 128 bits; integers of up to 64 are converted")
    return f"{kind[0]}{width}"


def cvt(instr: ir.Instr) -> AluOp:
    """cvt{.rounding}{.ftz}{.sat}{.relu}{.satfinite}.dtype.atype d, a{, b}."""
    if "pack" in instr.mods:
        return packed.cvt_pack(instr)
    mods = Modifiers(instr)
    if any(mod in packed.FORMATS for mod in instr.mods):
        return packed.cvt_packed(instr)
    source, target = mods.type(_INTS + _FLOATS), mods.type(_INTS + _FLOATS + ("tf32",))
    if target == "tf32":
        return _to_tf32(mods, source)
    if source in _INTS and target in _INTS:
        return _int_int(mods, instr, source, target)
    if source in _INTS:
        return _int_float(mods, instr, source, target)
    if target in _INTS:
        return _float_int(mods, instr, source, target)
    return _float_float(mods, source, target)


# --- integer to integer -----------------------------------------------------------------------------------------------


def _int_int(mods: Modifiers, instr: ir.Instr, source: str, target: str) -> AluOp:
    """Truncate or extend; with .sat clamp to the target's range."""
    sat = mods.flag("sat")
    mods.choose(_TO_INTEGER)
    mods.finish()
    held, wanted = _register_dtype(mods, sources(instr)[0], source), _register_dtype(mods, instr.operands[0], target)
    low = max(_limits(source)[0], _limits(target)[0])
    high = min(_limits(source)[1], _limits(target)[1])
    template = "{0}" if held == source else f"{{0}}.astype(np.{NUMPY[source].__name__})"
    if sat and (low, high) == _limits(source):
        raise mods.fail(f"every .{source} fits .{target}: .sat has nothing to clamp")
    if sat:
        name = NUMPY[source].__name__
        template = f"np.minimum(np.maximum({template}, np.{name}({low})), np.{name}({high}))"
    steps = (source, target, wanted)
    for before, after in zip(steps, steps[1:]):
        if before != after:
            template += f".astype(np.{NUMPY[after].__name__})"
    return expression(template, (held,), (wanted,))


# --- integer to float -------------------------------------------------------------------------------------------------


def _exact_parts(x):
    """An integer as float64 (s, error): s is rounded to nearest and s + error exact."""
    if x.dtype.itemsize < 8:
        return x.astype(np.float64), np.float64(0)
    high = (x >> x.dtype.type(32)).astype(np.float64) * 2.0**32
    return two_sum(high, (x & x.dtype.type(0xFFFFFFFF)).astype(np.float64))


def _int_float(mods: Modifiers, instr: ir.Instr, source: str, target: str) -> AluOp:
    mode = mods.require(_MODES)
    sat = target != "bf16" and mods.flag("sat")
    mods.finish()
    if target == "bf16" and BITS[source] == 8:
        raise mods.fail("8-bit integers do not convert to .bf16")
    held = _register_dtype(mods, sources(instr)[0], source)
    kind = NUMPY[source]
    if mode == "rn" and not sat and target in ("f32", "f64") and held == source:
        return expression(f"{{0}}.astype(np.{NUMPY[target].__name__})", (held,), (target,))

    def fn(x):
        s, error = _exact_parts(x.astype(kind))
        if target == "f64":
            r = s if mode == "rn" else nudge(s, error, mode)
            return saturate(r) if sat else r
        s = to_odd(s, error)
        s = saturate(s) if sat else s
        return f64_f32(s, mode) if target == "f32" else f64_half(s, target, mode)

    return AluOp(fn, (held,), ("u16" if target in ("f16", "bf16") else target,))


# --- float to integer -------------------------------------------------------------------------------------------------


def float_to_int(x: Value, target: str) -> Value:
    """Integral float32 or float64 values, clamped to an integer type. NaN is 0, but for 64 bits (or from float64) the
    pattern 1 << (width - 1)."""
    if target == "s32" and np.count_nonzero(np.abs(x) < 2.0**31) == x.size:
        return x.astype(np.int32)
    low, high = _limits(target)
    kind, width = NUMPY[target], BITS[target]
    nan = x != x
    indefinite = (
        (1 << width - 1) - (1 << width if target[0] == "s" else 0) if width == 64 or x.dtype == np.float64 else 0
    )
    if width < 64:
        y = np.where(nan, np.float64(indefinite), x.astype(np.float64))
        return np.minimum(np.maximum(y, np.float64(low)), np.float64(high)).astype(np.int64).astype(kind)
    top = x.dtype.type(2.0 ** (63 if target == "s64" else 64))
    inside = (x >= x.dtype.type(low)) & (x < top)
    r = np.where(inside, x, x.dtype.type(0)).astype(kind)
    r = np.where(x >= top, kind(high), np.where(x < x.dtype.type(low), kind(low), r))
    return np.where(nan, kind(indefinite), r)


def _float_int(mods: Modifiers, instr: ir.Instr, source: str, target: str) -> AluOp:
    to_integral = _TO_INTEGER[mods.require(_TO_INTEGER)]
    ftz = mods.flag("ftz") and source == "f32"
    if source != "bf16":
        mods.flag("sat")  # the conversion saturates anyway
    mods.finish()
    if source == "bf16" and BITS[target] == 8:
        raise mods.fail(".bf16 does not convert to 8-bit integers")
    wanted = _register_dtype(mods, instr.operands[0], target)
    kind = NUMPY[wanted]
    wide = source in ("f32", "f64")

    def fn(x):
        value = (flush(x) if ftz else x) if wide else to_f32(x, source)
        r = float_to_int(to_integral(value), target)
        return r if wanted == target else r.astype(kind)

    return AluOp(fn, (source if wide else "u16",), (wanted,))


# --- float to float ---------------------------------------------------------------------------------------------------


def _narrower(source: str, target: str, mode: str) -> Callable:
    """Values of the source type (f16 and bf16 as float32) to the target type, rounded once."""
    if target == "f64":
        return lambda x: x.astype(np.float64)
    if source == "f64":
        return (lambda x: f64_f32(x, mode)) if target == "f32" else (lambda x: _f64_16(x, target, mode))
    if target == "f16":
        return lambda x: f32_f16(x, mode)
    if target == "bf16":
        return lambda x: f32_bf16(x, mode)
    return lambda x: x


def _f64_16(x, target: str, mode: str):
    """float64 to f16 or bf16, whose NaN is the upper part of the float64's."""
    r = f64_half(x, target, mode)
    nan = (
        x.astype(np.float16).view(np.uint16)
        if target == "f16"
        else x.astype(np.float32).view(np.uint32) >> np.uint32(16)
    )
    return np.where(x != x, nan.astype(np.uint16), r)


def _check_float(mods: Modifiers, pair: tuple[str, str], integral, mode, flags: dict[str, bool]) -> None:
    """The combinations that exist, as ptxas for sm_90a accepts them."""
    source, target = pair
    narrowing = _WIDTH[source] > _WIDTH[target]
    bf16 = "bf16" in pair
    if integral and source != target:
        raise mods.fail(f".{integral} rounds to an integer of the same type only")
    if mode is None and narrowing:
        raise mods.fail("needs a rounding: .rn, .rz, .rm or .rp")
    if mode is not None and not narrowing and (not bf16 or source == target):
        raise mods.fail(f".{mode} has nothing to round here")
    if flags["sat"] and bf16:
        raise mods.fail(".sat does not exist for .bf16")
    if flags["ftz"] and "f32" not in pair:
        raise mods.fail(".ftz concerns .f32 only")
    if (flags["relu"] or flags["satfinite"]) and not (source == "f32" and narrowing and mode in ("rn", "rz")):
        raise mods.fail(".relu and .satfinite go with .rn or .rz from .f32 to .f16, .bf16 or a packed type")


def _float_float(mods: Modifiers, source: str, target: str) -> AluOp:
    """Any of f16, bf16, f32, f64 to any; to a value of the same type with an integer rounding (.rni …)."""
    integral, mode = mods.choose(_TO_INTEGER), mods.choose(_MODES)
    flags = {name: mods.flag(name) for name in ("ftz", "sat", "relu", "satfinite")}
    mods.finish()
    _check_float(mods, (source, target), integral, mode, flags)
    ftz, sat, clamp, finite = flags.values()
    convert = _narrower(source, target, mode or "rn")
    wide = source in ("f32", "f64")
    ins, outs = (source if wide else "u16",), (target if target in ("f32", "f64") else "u16",)
    if not (integral or ftz or sat or clamp or finite):
        if source == target and wide:
            return expression("{0}", ins, outs)
        if wide and target in ("f32", "f64") and mode in (None, "rn"):
            return expression(f"{{0}}.astype(np.{NUMPY[target].__name__})", ins, outs)
        return AluOp(convert if wide else (lambda x: convert(to_f32(x, source))), ins, outs)

    def fn(x):
        x = x if wide else to_f32(x, source)
        if ftz and source == "f32" and target != "f16":  # the hardware does not flush towards f16
            x = flush(x)
        x = _TO_INTEGER[integral](x) if integral else x
        x = saturate(x) if sat else relu(x) if clamp else x
        if finite:
            x = clamp_finite(x, LARGEST[target])
        r = convert(x)
        return flush(r) if ftz and target == "f32" else r

    return AluOp(fn, ins, outs)


def _to_tf32(mods: Modifiers, source: str) -> AluOp:
    """cvt.{rn,rz}{.relu}.tf32.f32 and cvt.rna{.satfinite}.tf32.f32; the result is a b32 whose low 13 bits are zero."""
    if source != "f32":
        raise mods.fail("only .f32 converts to .tf32")
    mode = mods.require(("rna", "rn", "rz"))
    clamp, finite = mode != "rna" and mods.flag("relu"), mode == "rna" and mods.flag("satfinite")
    if "satfinite" in mods.left:
        raise mods.fail(f".satfinite with .{mode} to .tf32 needs sm_100 or newer; Hopper (sm_90a) has it with .rna")
    mods.finish()

    def fn(x):
        x = relu(x) if clamp else x
        return f32_tf32(clamp_finite(x, LARGEST["tf32"]) if finite else x, mode)

    return AluOp(fn, ("f32",), ("u32",))


FAMILIES = {"cvt": cvt}
