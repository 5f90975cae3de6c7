# SPDX-License-Identifier: Apache-2.0
"""The fp8 ladder, ready to call: products of e4m3 matrices with fine-grained scales, by any kernel of kernels/fp8, in either place.

a: m x k, b: n x k, e4m3 (ml_dtypes.float8_e4m3fn, or uint8 holding the bits); c: m x n bf16 (or uint16 bits). Scales are float32:
a_scales[k-block][row] (1 x 128, rows a multiple of 16 bytes apart), b_scales[n-block][k-block] (128 x 128).
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...runtime.library import load_kernel
from ...runtime.tensor_map import TensorMap
from . import operand_checks as checks
from .fp8_choice import BLOCK as BLOCK, MOST_STAGES, BlockScaled, choose
from .fp8_choice import DEEP as DEEP, HIGH as HIGH, NARROW as NARROW, SHORT as SHORT, TALL as TALL, parsed as parsed, table as table
from .launch import SMS, Launch

if TYPE_CHECKING:
    from ...runtime.arrays import Array

LARGEST = 448.0                         # of e4m3
E4M3 = ("float8_e4m3fn", "uint8")       # uint8: the same bits, where ml_dtypes is not at hand (CuPy)


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def sizes(a: Array, b: Array, c: Array, a_scales: Array | None = None, b_scales: Array | None = None) -> tuple[int, int, int]:
    """(m, n, k) of the product. Raises OperandError that names the rule an array breaks: shapes, dtypes, k a multiple of 16, n of 8."""
    checks.array("a", a, E4M3, 2)
    checks.array("b", b, E4M3, 2)
    checks.array("c", c, checks.BF16, 2)
    (m, k), n = a.shape, b.shape[0]
    if b.shape[1] != k or c.shape != (m, n):
        raise checks.OperandError("shape", f"a is {m} x {k}, b {b.shape[0]} x {b.shape[1]}, c {c.shape[0]} x {c.shape[1]}: "
                                           "c = a * b^T needs a m x k, b n x k, c m x n")
    if k % 16 or n % 8:
        raise checks.OperandError("size", f"k = {k}, n = {n}: rows of a, b and c must be multiples of 16 bytes for TMA, so k of 16 and n of 8")
    blocks = _ceil(k, BLOCK)
    if a_scales is not None:
        checks.array("a_scales", a_scales, ("float32",), 2)
        if a_scales.shape[0] != blocks or a_scales.shape[1] < m or a_scales.shape[1] % 4:
            raise checks.OperandError("shape", f"a_scales has shape {tuple(a_scales.shape)}: it is k-blocks ({blocks}) x rows, at least m = {m} "
                                               "of them and a multiple of 4")
    if b_scales is not None:
        checks.array("b_scales", b_scales, ("float32",), 2, aligned=4)
        if b_scales.shape != (_ceil(n, BLOCK), blocks):
            raise checks.OperandError("shape", f"b_scales has shape {tuple(b_scales.shape)}, expected {(_ceil(n, BLOCK), blocks)} (n-blocks x k-blocks)")
    return m, n, k


def _map(array, rows: int, promotion: int = 0) -> TensorMap:
    return TensorMap.tiled(array, box=(rows, BLOCK), swizzle="128B", dtype="uint8", l2_promotion=f"{promotion}B" if promotion else "none")


def _c_map(c) -> TensorMap:
    return TensorMap.tiled(c, box=(64, 64), swizzle="128B", dtype="bfloat16" if c.dtype == np.uint16 else None)


def _numbers(*numbers: int) -> tuple[np.int32, ...]:
    return tuple(np.int32(number) for number in numbers)


def _grid(m: int, n: int, bn: int, blocks: int) -> tuple[int]:
    tiles = _ceil(m, 128) * _ceil(n, bn)
    return (_ceil(tiles, _ceil(tiles, blocks)),)


def tensor_scale(a: Array, b: Array, c: Array, scale: float = 1.0, stages: int = 4, blocks: int = SMS, options: Sequence[str] = (),
                 backend: str | None = None) -> Launch:
    """fp8/tensor_scale.cu: c = scale * a * b^T, summed up by the tensor core alone."""
    m, n, k = sizes(a, b, c)
    kernel = load_kernel("fp8/tensor_scale.cu", "gemm", (f"-DSTAGES={stages}", *options), backend=backend)
    return Launch(kernel, _grid(m, n, 256, blocks), (384,), (_map(a, 128), _map(b, 256), _c_map(c), np.float32(scale), *_numbers(m, n, k)),
                  stages * 49152 + 16384 + 128)


def promoted(a: Array, b: Array, c: Array, a_scales: Array, b_scales: Array, stages: int = 5, blocks: int = SMS, options: Sequence[str] = (),
             backend: str | None = None) -> Launch:
    """fp8/promoted.cu: each k-block promoted into fp32 with its scales, which the consumers read from global memory."""
    m, n, k = sizes(a, b, c, a_scales, b_scales)
    kernel = load_kernel("fp8/promoted.cu", "gemm", (f"-DSTAGES={stages}", *options), backend=backend)
    return Launch(kernel, _grid(m, n, 128, blocks), (384,),
                  (_map(a, 128), _map(b, 128), _c_map(c), a_scales, b_scales, *_numbers(a_scales.shape[1], m, n, k)), stages * 32768 + 16384 + 128)


def block_scaled(a: Array, b: Array, c: Array, a_scales: Array, b_scales: Array, choice: BlockScaled | None = None, options: Sequence[str] = (),
                 backend: str | None = None) -> Launch:
    """fp8/block_scaled.cu in one configuration (default: `choose` for the shape)."""
    m, n, k = sizes(a, b, c, a_scales, b_scales)
    choice = choice or choose(m, n, k)
    checks.number("stages", choice.stages, 1, MOST_STAGES)
    if choice.split > -(-k // BLOCK):
        raise checks.OperandError("size", f"k = {k}: {-(-k // BLOCK)} k-blocks of {BLOCK} cannot be split between {choice.split} CTAs")
    kernel = load_kernel("fp8/block_scaled.cu", "gemm", (*choice.options, *options), backend=backend)
    maps = (_map(a, choice.bm // choice.cluster_n, choice.promotion), _map(b, choice.bn, choice.promotion), _c_map(c),
            TensorMap.tiled(a_scales[:, :m], box=(1, choice.bm)))
    return Launch(kernel, choice.grid(m, n), (128 * (choice.consumers + 1),), (*maps, b_scales, *_numbers(m, n, k)), choice.shared_bytes)


def _step(**changes) -> Callable[..., Launch]:
    """block_scaled in a fixed configuration: one step of the ladder."""
    def make(a, b, c, a_scales, b_scales, backend: str | None = None) -> Launch:
        return block_scaled(a, b, c, a_scales, b_scales, BlockScaled(**changes), backend=backend)
    return make


STEPS: Mapping[str, Callable[..., Launch]] = {
    "promoted": promoted,
    "staged_scales": _step(cluster_n=1, parts=1),
    "multicast": _step(cluster_n=2, parts=1),
    "overlapped": _step(cluster_n=2, parts=2),
    "block_scaled": block_scaled,
}
"""The steps with fine-grained scales, in climbing order; each takes (a, b, c, a_scales, b_scales)."""


def quantise(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(a, b, a_scales, b_scales) of float matrices m x k and n x k: each block's largest magnitude becomes 448, the largest e4m3."""
    import ml_dtypes
    (m, k), n = a.shape, b.shape[0]
    rows, columns, blocks = _ceil(m, 4) * 4, _ceil(n, BLOCK), _ceil(k, BLOCK)
    wide = np.zeros((m, blocks * BLOCK), np.float32)
    wide[:, :k] = a
    tall = np.zeros((columns * BLOCK, blocks * BLOCK), np.float32)
    tall[:n, :k] = b
    of_a = _scales(np.abs(wide.reshape(m, blocks, BLOCK)).max(axis=2))                                       # m x k-blocks
    of_b = _scales(np.abs(tall.reshape(columns, BLOCK, blocks, BLOCK)).max(axis=(1, 3)))                     # n-blocks x k-blocks
    a8 = (wide / of_a.repeat(BLOCK, 1))[:, :k].astype(ml_dtypes.float8_e4m3fn)
    b8 = (tall / of_b.repeat(BLOCK, 0).repeat(BLOCK, 1))[:n, :k].astype(ml_dtypes.float8_e4m3fn)
    a_scales = np.zeros((blocks, rows), np.float32)
    a_scales[:, :m] = of_a.T
    return a8, b8, a_scales, of_b


def _scales(largest: np.ndarray) -> np.ndarray:
    return np.where(largest > 0, largest / LARGEST, 1).astype(np.float32)


def reference(a8: np.ndarray, b8: np.ndarray, a_scales: np.ndarray, b_scales: np.ndarray) -> np.ndarray:
    """The product of quantised operands in float64."""
    (m, k), n = a8.shape, b8.shape[0]
    left = a8.astype(np.float64) * a_scales[:, :m].T.astype(np.float64).repeat(BLOCK, 1)[:, :k]
    right = b8.astype(np.float64) * b_scales.astype(np.float64).repeat(BLOCK, 0)[:n].repeat(BLOCK, 1)[:, :k]
    return left @ right.T
