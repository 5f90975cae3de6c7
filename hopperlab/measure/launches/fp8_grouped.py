# SPDX-License-Identifier: Apache-2.0
"""fp8/grouped.cu, ready to call: the products of a mixture-of-experts layer in one launch, in either place.

The rows of all groups lie one behind the other: a rows x k and c rows x n, with a_scales[k-block][row] (1 x 128); group g has rows
first[g] .. first[g + 1] - 1, its own b[g], n x k, and b_scales[g][n-block][k-block] (128 x 128). Dtypes as in fp8.py.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...runtime.arrays import is_cuda_array
from ...runtime.library import load_kernel
from ...runtime.tensor_map import TensorMap
from . import operand_checks as checks
from . import fp8
from .launch import SMS, Launch
from .operand_checks import OperandError

if TYPE_CHECKING:
    from ...runtime.arrays import Array


def sizes(a: Array, b: Array, c: Array, a_scales: Array, b_scales: Array, first: Array) -> tuple[int, int, int, int]:
    """(rows, groups, n, k). Raises OperandError that names the rule an array breaks."""
    checks.array("b", b, fp8.E4M3, 3)
    groups, n, k = b.shape
    checks.array("b_scales", b_scales, ("float32",), 3, aligned=4)
    checks.array("first", first, ("int32",), 1, aligned=4)
    if len(a.shape) != 2 or a.shape[1] != k or tuple(c.shape) != (a.shape[0], n):
        raise OperandError("shape", f"a has shape {tuple(a.shape)}, b {tuple(b.shape)}, c {tuple(c.shape)}: they are rows x k, groups x n x k, rows x n")
    blocks, columns = -(-k // fp8.BLOCK), -(-n // fp8.BLOCK)
    if b_scales.shape != (groups, columns, blocks):
        raise OperandError("shape", f"b_scales has shape {tuple(b_scales.shape)}, expected {(groups, columns, blocks)} (groups x n-blocks x k-blocks)")
    if first.shape != (groups + 1,):
        raise OperandError("shape", f"first has shape {tuple(first.shape)}: {groups} groups have {groups + 1} row numbers, the last one their end")
    rows, _, _ = fp8.sizes(a, b[0], c, a_scales, b_scales[0])
    return rows, groups, n, k


def grouped(a: Array, b: Array, c: Array, a_scales: Array, b_scales: Array, first: Array, stages: int = 5, blocks: int = SMS,
            options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """Every group's rows of c = its rows of a * b[group]^T, promoted with their scales. first is read on the device only: its values
    are not checked. blocks: CTAs of the launch."""
    rows, groups, n, k = sizes(a, b, c, a_scales, b_scales, first)
    kernel = load_kernel("fp8/grouped.cu", "gemm", (f"-DSTAGES={stages}", *options), backend=backend)
    if is_cuda_array(c):
        import cupy as xp
    else:
        xp = np
    tile = (fp8.BLOCK, fp8.BLOCK)
    maps = (TensorMap.tiled(a, box=tile, swizzle="128B", dtype="uint8"), TensorMap.tiled(b.reshape(groups * n, k), box=tile, swizzle="128B", dtype="uint8"),
            TensorMap.tiled(c, box=(64, 64), swizzle="128B", dtype="bfloat16" if c.dtype == np.uint16 else None),
            TensorMap.tiled(a_scales[:, :rows], box=(1, fp8.BLOCK + 4)))
    room = xp.zeros(blocks * 2 * 128, np.uint8)
    return Launch(kernel, (blocks,), (384,), (*maps, b_scales, first, room, c, *(np.int32(number) for number in (groups, n, k))),
                  stages * 33408 + 16384 + 256 + 128)


def reference(a8: np.ndarray, b8: np.ndarray, a_scales: np.ndarray, b_scales: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The groups' products of quantised operands in float64, one behind the other; rows that belong to no group are NaN."""
    out = np.full((len(a8), b8.shape[1]), np.nan)
    for group, (begin, end) in enumerate(zip(first, first[1:])):
        if end > begin:
            out[begin:end] = fp8.reference(a8[begin:end], b8[group], np.ascontiguousarray(a_scales[:, begin:end]), b_scales[group])
    return out
