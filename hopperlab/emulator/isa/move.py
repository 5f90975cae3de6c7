# SPDX-License-Identifier: Apache-2.0
"""mov, in all its forms: copies, and packing and unpacking of 16, 32, 64 and 128 bits (PTX ISA 9.7.9.2, 9.7.9.3)."""

from __future__ import annotations

import numpy as np

from ..ptx import ir
from .op import BITS, DTYPE, NUMPY, AluOp, Modifiers, expression

# Dtype of one element when a value of so many bits is split into so many parts.
_PART = {(16, 2): "u8", (32, 2): "u16", (32, 4): "u8", (64, 2): "u32", (64, 4): "u16", (128, 2): "u64", (128, 4): "u32"}
_TYPES = ("pred", "b16", "b32", "b64", "b128", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64")


def _packer(part: str, whole: str):
    """fn(*parts): the parts side by side, the first in the lowest bits."""
    wide, shift = NUMPY[whole], BITS[part]

    def pack(*parts):
        value = parts[0].astype(wide)
        for i, item in enumerate(parts[1:], 1):
            value = value | item.astype(wide) << wide(i * shift)
        return value

    return pack


def _pack128(*parts):
    """b128 is (n, 2) uint64; the parts are two u64 or four u32."""
    if len(parts) == 4:
        pack = _packer("u32", "u64")
        parts = pack(parts[0], parts[1]), pack(parts[2], parts[3])
    return np.stack(np.broadcast_arrays(*parts), axis=-1)


def _unpacker(count: int, part: str):
    """fn(value): its parts, the lowest bits first."""
    narrow, shift = NUMPY[part], BITS[part]

    def unpack(value):
        kind = value.dtype.type
        return tuple((value >> kind(i * shift) if i else value).astype(narrow) for i in range(count))

    return unpack


def _unpack128(count: int):
    """fn(value of shape (n, 2)): its two u64 or four u32."""

    def unpack(value):
        low, high = value[..., 0], value[..., 1]
        if count == 2:
            return low, high
        split = _unpacker(2, "u32")
        return *split(low), *split(high)

    return unpack


def _vector(instr: ir.Instr, count: int, whole: str) -> str:
    part = _PART.get((BITS[whole], count))
    if part is None:
        raise Modifiers(instr).fail(f"a vector of {count} does not make {BITS[whole]} bits")
    return part


def mov(instr: ir.Instr) -> AluOp:
    """mov.type d, a; mov.type d, {a, b…}; mov.type {d, e…}, a."""
    mods = Modifiers(instr)
    whole = DTYPE[mods.type(_TYPES)]
    mods.finish()
    destination, source = instr.operands
    if type(source) is ir.Vec and type(destination) is ir.Vec:
        raise mods.fail("one of the operands must be scalar")
    if type(source) is ir.Vec:
        part = _vector(instr, len(source.items), whole)
        ins = (part,) * len(source.items)
        if whole == "b128":
            return AluOp(_pack128, ins, ("b128",))
        if len(ins) == 2:
            wide, shift = NUMPY[whole].__name__, BITS[part]
            return expression(f"{{0}}.astype(np.{wide}) | {{1}}.astype(np.{wide}) << {shift}", ins, (whole,))
        return AluOp(_packer(part, whole), ins, (whole,))
    if type(destination) is ir.Vec:
        count = len(destination.items)
        part = _vector(instr, count, whole)
        return AluOp(_unpack128(count) if whole == "b128" else _unpacker(count, part), (whole,), (part,) * count)
    return expression("{0}", (whole,), (whole,))


FAMILIES = {"mov": mov}
