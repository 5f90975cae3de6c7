# SPDX-License-Identifier: Apache-2.0
"""What the launch functions require of their arrays, checked before a kernel is even loaded: shape, dtype, layout, alignment.

A kernel sees pointers only and would read a wrong dtype, a transposed array or a short target without a word. Every message
names the argument, what it is, and the rule.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ...runtime.arrays import Array

BF16 = ("bfloat16", "uint16")           # uint16: the same bits, where ml_dtypes is not at hand (CuPy)
VECTOR_BYTES = 16                       # of cp.async, bulk copies and TMA rows


class OperandError(ValueError):
    """An array that a kernel cannot be launched on; `rule` is 'array', 'dtype', 'shape', 'layout', 'alignment' or 'size'."""

    def __init__(self, rule: str, message: str):
        super().__init__(message)
        self.rule = rule


def array(name: str, value: Array, dtypes: Sequence[str] = (), dimensions: int | None = None, aligned: int = VECTOR_BYTES,
          pitched: bool = False) -> None:
    """A NumPy or CuPy array of one of `dtypes` with so many dimensions, row-major without gaps, at a multiple of `aligned` bytes.
    pitched: rows may lie apart, as in a view of a wider array (what a tensor map describes).

    Raises OperandError that names `name` and the rule.
    """
    if not hasattr(value, "dtype") or not hasattr(value, "shape") or not hasattr(value, "flags"):
        raise OperandError("array", f"{name} is a {type(value).__name__}; launch functions take NumPy or CuPy arrays (hl.array_module())")
    if dtypes and str(value.dtype) not in dtypes:
        words = " or ".join(dtypes) + (" (the bits of bf16)" if tuple(dtypes) == BF16 else "")
        raise OperandError("dtype", f"{name} has dtype {value.dtype}; this kernel takes {words}")
    if dimensions is not None and len(value.shape) != dimensions:
        raise OperandError("shape", f"{name} has shape {tuple(value.shape)}; this kernel takes {dimensions}-dimensional arrays")
    if 0 in value.shape:
        raise OperandError("size", f"{name} has shape {tuple(value.shape)}, no element: a launch needs at least one")
    if not value.flags.c_contiguous and not (pitched and value.strides[-1] == value.dtype.itemsize):
        raise OperandError("layout", f"{name} has shape {tuple(value.shape)} and strides {tuple(value.strides)} bytes; this kernel "
                                     "takes row-major arrays without gaps: pass xp.ascontiguousarray of it")
    address = _address(value)
    if address is not None and address % aligned:
        raise OperandError("alignment", f"{name} starts {address % aligned} bytes past a multiple of {aligned}; loads of {aligned} bytes "
                                        "need a multiple: pass a copy of the view")


def _address(value) -> int | None:
    """Where the array starts, as far as alignment goes; None for a NumPy array that owns its memory (the emulator aligns it)."""
    if hasattr(value, "__cuda_array_interface__"):
        return value.__cuda_array_interface__["data"][0]
    base = value
    while isinstance(getattr(base, "base", None), np.ndarray):
        base = base.base
    return None if base is value else value.__array_interface__["data"][0] - base.__array_interface__["data"][0]


def transposed(value: Array) -> bool:
    """Whether a matrix is the transpose of one whose rows lie in memory: its columns are contiguous, its rows are not."""
    size = value.dtype.itemsize
    return value.strides[0] == size and value.strides[1] >= value.shape[0] * size and value.strides[1] != size


def product(a: Array, b: Array, c: Array, k_multiple: int = 1, dtypes: Sequence[str] = BF16, pitched: bool = False,
            b_mn: bool = False) -> tuple[int, int, int]:
    """(m, n, k) of c = a * b^T: a m x k, b n x k, c m x n, all of `dtypes`; k a multiple of `k_multiple`. pitched: the rows of a and
    b may lie apart. b_mn: b may be the transpose of a k x n array. Raises OperandError."""
    for name, value in (("a", a), ("b", b), ("c", c)):
        turned = b_mn and name == "b" and getattr(value, "ndim", 0) == 2 and hasattr(value, "strides") and transposed(value)
        array(name, value.T if turned else value, dtypes, 2, pitched=pitched and name != "c")
    (m, k), (n, other) = a.shape, b.shape
    if k != other or tuple(c.shape) != (m, n):
        raise OperandError("shape", f"a is {tuple(a.shape)}, b is {tuple(b.shape)} and c is {tuple(c.shape)}: they must be m x k, "
                                    "n x k and m x n (both operands are K-major: b holds its columns as rows)")
    if k % k_multiple:
        raise OperandError("size", f"k is {k}; rows are loaded {VECTOR_BYTES} bytes at a time, so k must be a multiple of {k_multiple}")
    return m, n, k


def same(source: Array, target: Array, dtypes: Sequence[str] = (), dimensions: int | None = None, pitched: bool = False) -> None:
    """Two arrays of one shape and dtype. Raises OperandError."""
    array("source", source, dtypes, dimensions, pitched=pitched)
    array("target", target, dtypes, dimensions, pitched=pitched)
    if source.shape != target.shape or source.dtype != target.dtype:
        raise OperandError("shape", f"source is {source.dtype} {tuple(source.shape)} and target is {target.dtype} "
                                    f"{tuple(target.shape)}: this kernel needs two arrays of one shape and dtype")


def flat(source: Array, target: Array, multiple: int = VECTOR_BYTES) -> int:
    """Bytes of a copy of contiguous arrays: target of as many bytes as source, a multiple of `multiple`. Raises OperandError."""
    array("source", source)
    array("target", target)
    if target.nbytes != source.nbytes:
        raise OperandError("size", f"source has {source.nbytes} bytes and target {target.nbytes}: a copy needs as many")
    if source.nbytes % multiple:
        raise OperandError("size", f"source has {source.nbytes} bytes; this kernel copies {multiple} bytes at a time and needs a multiple")
    return source.nbytes


def number(name: str, value: int, least: int, most: int, multiple: int = 1) -> None:
    """A setting from `least` to `most`, a multiple of `multiple`. Raises OperandError."""
    if not least <= value <= most or value % multiple:
        step = f", a multiple of {multiple}" if multiple > 1 else ""
        raise OperandError("size", f"{name} is {value}; this kernel takes {least} to {most}{step}")

