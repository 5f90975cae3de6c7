# SPDX-License-Identifier: Apache-2.0
"""cvt to and from packed formats (f16x2, bf16x2, e4m3x2, e5m2x2), and cvt.pack (PTX ISA 9.7.9.21, 9.7.9.22).

Of two float32 inputs `a, b`, a goes to the upper half of the result and b to the lower.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ptx import ir
from .formats import (
    FP8_F16,
    LARGEST,
    clamp_finite,
    f32_bf16_high,
    f32_f16,
    f32_fp8,
    flush,
    halves_f32,
    join,
    relu,
    unsplit16,
)
from .op import AluOp, Modifiers

_HALF_PAIRS = ("f16x2", "bf16x2")
_FP8_PAIRS = ("e4m3x2", "e5m2x2")
# Formats (also those of newer architectures, so that the error can name them) that make a cvt a packed one.
FORMATS = frozenset(_HALF_PAIRS + _FP8_PAIRS) | {
    "e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2", "e2m1x4", "e2m3x4", "e3m2x4", "e4m3x4", "e5m2x4",
}  # fmt: skip

_U16 = np.uint32(16)
_HIGH = np.uint32(0xFFFF0000)


def _join_bf16(a, b, mode: str):
    return (f32_bf16_high(a, mode) & _HIGH) | (f32_bf16_high(b, mode) >> _U16)


def _join_f16(a, b, mode: str):
    return join(f32_f16(b, mode), f32_f16(a, mode))


def _prepare(mods: Modifiers, kind: str) -> Callable | None:
    """What .relu and .satfinite do to a float32 before it is rounded."""
    clamp, finite, ftz = mods.flag("relu"), mods.flag("satfinite"), mods.flag("ftz")
    limit = LARGEST[kind.removesuffix("x2")]
    if not (clamp or finite or ftz):
        return None

    def fn(x):
        x = flush(x) if ftz else x
        x = relu(x) if clamp else x
        return clamp_finite(x, limit) if finite else x

    return fn


def cvt_packed(instr: ir.Instr) -> AluOp:
    """cvt.{rn,rz}{.relu}{.satfinite}.{f16x2,bf16x2}.f32; cvt.rn.satfinite{.relu}.{e4m3x2,e5m2x2}.{f32,f16x2};
    cvt.rn{.relu}.f16x2.{e4m3x2,e5m2x2}."""
    mods = Modifiers(instr)
    source = mods.type(("f32", "f16x2", *_FP8_PAIRS))
    target = mods.type(_HALF_PAIRS + _FP8_PAIRS)
    mode = mods.require(("rn", "rz"))
    if target in _FP8_PAIRS and "satfinite" not in mods.left:
        raise mods.fail(f".{target} needs .satfinite")
    prepare = _prepare(mods, target)
    mods.finish()
    if source == "f32":
        return _from_f32(target, mode, prepare)
    if source == "f16x2" and target in _FP8_PAIRS:
        return AluOp(_fp8_from_halves(target[:4], prepare), ("u32",), ("u16",))
    if source in _FP8_PAIRS and target == "f16x2":
        return AluOp(_halves_from_fp8(source[:4], "relu" in instr.mods), ("u16",), ("u32",))
    raise mods.fail(f".{source} does not convert to .{target} on sm_90a")


def _from_f32(target: str, mode: str, prepare: Callable | None) -> AluOp:
    if target in _FP8_PAIRS:
        kind = target[:4]
        join8 = lambda a, b: f32_fp8(b, kind).astype(np.uint16) | f32_fp8(a, kind).astype(np.uint16) << np.uint16(8)
        return AluOp(lambda a, b: join8(prepare(a), prepare(b)), ("f32", "f32"), ("u16",))
    pair = _join_bf16 if target == "bf16x2" else _join_f16
    if prepare is None:
        return AluOp(lambda a, b: pair(a, b, mode), ("f32", "f32"), ("u32",))
    return AluOp(lambda a, b: pair(prepare(a), prepare(b), mode), ("f32", "f32"), ("u32",))


def _fp8_from_halves(kind: str, prepare: Callable) -> Callable:
    """f16x2 to two fp8: the upper half to the upper byte."""

    def fn(x):
        return np.ascontiguousarray(f32_fp8(prepare(halves_f32(x, "f16x2")), kind)).view(np.uint16)[..., 0]

    return fn


def _halves_from_fp8(kind: str, clamp: bool) -> Callable:
    """Two fp8 to f16x2, exactly."""
    table = FP8_F16[kind]
    if clamp:
        negative = (np.arange(256) >= 128) & (table != np.uint16(0x7FFF))
        table = np.where(negative, np.uint16(0), table)
    return lambda x: unsplit16(table[np.asarray(x)[..., None].view(np.uint8)])


def cvt_pack(instr: ir.Instr) -> AluOp:
    """cvt.pack.sat.{u16,s16}.s32 d, a, b; cvt.pack.sat.{u8,s8,u4,s4,u2,s2}.s32.b32 d, a, b, c: a and b are clamped and
    packed (b lowest) into the low bits; c, shifted up, fills the rest."""
    mods = Modifiers(instr)
    mods.flag("pack")
    mods.require(("sat",))
    with_c = mods.left[-1:] == ["b32"]
    if with_c:
        mods.left.pop()
    if mods.left[-1:] != ["s32"]:
        raise mods.fail("cvt.pack converts .s32 only")
    mods.left.pop()
    kind = mods.require(("u8", "s8", "u4", "s4", "u2", "s2") if with_c else ("u16", "s16"))
    mods.finish()
    width = int(kind[1:])
    low, high = (0, 2**width - 1) if kind[0] == "u" else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
    ones, up = np.uint32(2**width - 1), np.uint32(width)

    def clamped(x):
        return np.minimum(np.maximum(x, np.int32(low)), np.int32(high)).view(np.uint32) & ones

    def fn(a, b, *c):
        pair = clamped(b) | clamped(a) << up
        return pair | c[0] << np.uint32(2 * width) if c else pair

    ins = ("s32", "s32") + (("u32",) if with_c else ())
    return AluOp(fn, ins, ("u32",))
