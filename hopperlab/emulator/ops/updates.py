# SPDX-License-Identifier: Apache-2.0
"""What a read-modify-write does to memory: atom, red, red.async and the reductions of the copy engine share these functions.

Values are arrays in the storage dtype of their PTX type (f16 and bf16 as uint16 patterns, packed pairs as uint32).
"""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..isa.floating import minmax
from ..isa.formats import f32_bf16, f32_f16, flush, split16, to_f32, unsplit16

OPS = ("add", "min", "max", "and", "or", "xor", "inc", "dec", "exch", "cas")
HALVES = ("f16", "bf16", "f16x2", "bf16x2")
UFUNC = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def update(op: str, kind: str, ftz: bool = False) -> Callable:
    """fn(old, value[, other]) -> new for a PTX type. ftz: f32 subnormals become zeros (atom.add.f32 on global memory and the
    copy engine's add.f32: PTX ISA 9.7.13.5, 9.7.9.25.4)."""
    if kind in HALVES:
        return _halves(op, kind)
    if op == "add" and kind == "f32" and ftz:
        return lambda old, value: flush(flush(old) + flush(value))
    if op in ("min", "max") and kind.startswith("f"):
        return minmax(op == "max", False)
    if op in UFUNC:
        return UFUNC[op]
    return {"exch": _exchange, "cas": _compare_and_swap, "inc": _increment, "dec": _decrement}[op]


def _halves(op: str, kind: str) -> Callable:
    if op in ("exch", "cas"):
        return {"exch": _exchange, "cas": _compare_and_swap}[op]
    base = kind.removesuffix("x2")
    narrow = f32_f16 if base == "f16" else f32_bf16
    combine = np.add if op == "add" else minmax(op == "max", False)

    def one(old, value):
        return narrow(combine(to_f32(old, base), to_f32(value, base)))
    if base == kind:
        return one
    return lambda old, value: unsplit16(one(split16(old), split16(value)))


def _exchange(old, value):
    return value


def _compare_and_swap(old, value, other):
    if old.dtype == np.complex128:
        same = (words(old) == words(value)).all(axis=-1)
        return np.where(same, other, old)
    return np.where(old == value, other, old)


def _increment(old, value):
    return np.where(old >= value, 0, old + 1).astype(value.dtype)


def _decrement(old, value):
    return np.where((old == 0) | (old > value), value, old - 1).astype(value.dtype)


def words(value: np.ndarray) -> np.ndarray:
    """b128 values as pairs of uint64: (..., 2)."""
    value = np.array(value, order="C")
    return value.reshape(*value.shape, 1).view(np.uint64)
