# SPDX-License-Identifier: Apache-2.0
"""Launches of lesson 15x's kernels: bf16 activations times weights of 4 or 8 bits, times weights with two of four, and two kinds of fp8. Like
launch.py: arrays in, a Launch out.

x: m x k, y: m x n, bf16 or its bits (uint16). Weights are prepared by mixed_weights. m is anything, n a multiple of the tile's columns, k of two k-blocks per CTA.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from ...runtime.library import load_kernel
from ...runtime.tensor_map import TensorMap
from . import operand_checks as checks
from .gemm_configurations import clusters_at_once
from .launch import SMS, Launch
from .mixed_weights import IntWeights, SparseWeights

if TYPE_CHECKING:
    from ...runtime.arrays import Array

SHARED_BYTES = {1: 232448, 2: 115712}                   # of a CTA where an SM has so many: 227 KiB at most, all together 228, less one for each
MOST_STAGES = 12                                        # deeper rings hide nothing more
FP8_KINDS = ("e4m3", "e5m2")


@dataclass(frozen=True)
class Choice:
    """A configuration of either kernel: weights_left.cuh's macros in lower case. ctas: of an SM; stages 0: as many as fit, at most MOST_STAGES."""

    bm: int = 64
    rows: int = 1
    bk: int = 64
    split: int = 1
    ctas: int = 1
    stages: int = 0

    @property
    def macros(self) -> tuple[str, ...]:
        """NVRTC options that name it."""
        return tuple(f"-D{field.name.upper()}={getattr(self, field.name)}" for field in fields(self))

    @property
    def bn(self) -> int:
        """Columns of y in a tile."""
        return 128 * self.rows

    @property
    def finished(self) -> int:
        """Rows of y that a CTA stores at a time: the y map's box."""
        finishers = self.split if self.bm // self.split >= 16 else self.bm // 16
        return min(128, self.bm // finishers)

    def fits(self, m: int, n: int, k: int) -> bool:
        """Whether n and k are multiples of what this configuration takes."""
        return n % self.bn == 0 and k % (2 * self.split * self.bk) == 0

    def tiles(self, m: int, n: int) -> int:
        """Tiles of y."""
        return -(-m // self.bm) * (n // self.bn)

    def bytes_for(self, stages: int, weight_bytes: int) -> int:
        """Dynamic shared memory of a CTA; weight_bytes: of a slot, besides x's tile."""
        slots = -(-stages * (self.bm * self.bk * 2 + weight_bytes) // 1024) * 1024
        return slots + 2 * self.finished * 128 + 16 * stages

    def with_stages(self, weight_bytes: int) -> Choice:
        """The same with a number of stages that fits."""
        fitting = [s for s in range(2, MOST_STAGES + 1) if self.bytes_for(s, weight_bytes) <= SHARED_BYTES[self.ctas]]
        return self if self.stages else replace(self, stages=fitting[-1])


def choices(m: int, n: int, k: int) -> Iterator[Choice]:
    """Every configuration that is worth a try at a shape."""
    for bm in (16, 32, 64, 128, 256):
        if (bm > 16 and bm >= 2 * m) or (m > 256 and bm < 128):
            continue
        for rows, bk, ctas in ((1, 64, 1), (1, 64, 2), (1, 128, 1), (1, 128, 2), (2, 64, 1)):
            if not (bm <= 64 or (bk == 64 and bm * rows <= 256)) or (ctas == 2 and (bm, bk) not in ((16, 64), (16, 128), (32, 64), (64, 64))):
                continue                # tiles that shared memory or registers make slow; two CTAs of an SM have 104 registers per thread
            for split in (1, 2, 4, 8):
                one = Choice(bm, rows, bk, split, ctas)
                if not one.fits(m, n, k) or split * ctas > 8 or (split > 1 and (bm * rows == 256 or one.tiles(m, n) * split > SMS * ctas)):
                    continue            # 128 sums a thread and what it finishes of them, side by side: some would be spilled
                yield one


def pace(one: Choice, sparse: bool) -> float:
    """Nanoseconds in which an SM does 128 rows of w and 64 columns of k, with this configuration and enough to do; from the recording's `configurations`.

    With few rows of x waiting for the next k-block decides: longer k-blocks, or a second CTA that works meanwhile. With many it is the product itself."""
    if sparse:
        return max(200.0 if one.bk == 128 else 220.0, (60 + 2.05 * one.bm) * (0.73 if one.rows == 2 else 1.0))
    waiting = {(1, 64, 1): 318.0, (1, 128, 1): 235.0, (2, 64, 1): 250.0, (1, 64, 2): 205.0, (1, 128, 2): 190.0}[one.rows, one.bk, one.ctas]
    return max(waiting, (120 + 2.15 * one.bm) * (0.93 if one.ctas == 2 else 1.0))


def choose(m: int, n: int, k: int, group: int = 0) -> Choice:
    """The configuration of the least time in `choices`: waves of clusters, the k-blocks that an SM does in each, and their `pace`. group: columns with one scale; 0: 2:4
    sparse weights. Raises OperandError where none takes the shape."""
    def cost(one: Choice) -> tuple[float, int]:
        waves = -(-one.tiles(m, n) // (clusters_at_once(one.split) * one.ctas))
        return waves * one.ctas * one.rows * k / 64 / one.split * pace(one, not group), one.ctas
    possible = [one for one in choices(m, n, k) if group % one.bk == 0]
    if not possible:
        raise checks.OperandError("size", f"m, n, k = {m}, {n}, {k} in groups of {group or k}: n is a multiple of 128 and k of 128 (and the group of 64)")
    return min(possible, key=cost)


def _shape(x: Array, y: Array, n: int, k: int) -> int:
    checks.array("x", x, checks.BF16, 2)
    checks.array("y", y, checks.BF16, 2)
    if x.shape[1] != k or y.shape != (x.shape[0], n):
        raise checks.OperandError("shape", f"x is {tuple(x.shape)}, y {tuple(y.shape)} and w {n} x {k}: y = x * w^T needs x m x k, y m x n")
    return int(x.shape[0])


def _map(array: Array, box: tuple[int, int], swizzle: str = "128B") -> TensorMap:
    return TensorMap.tiled(array, box=box, swizzle=swizzle, dtype="bfloat16" if array.dtype == np.uint16 else None)


def _launch(path: str, choice: Choice, weight_bytes: int, m: int, n: int, k: int, args: tuple, options: Sequence[str], backend: str | None) -> Launch:
    if not choice.fits(m, n, k):
        raise checks.OperandError("size", f"n, k = {n}, {k}: with tiles of {choice.bn} columns, k-blocks of {choice.bk} and {choice.split} CTAs per tile, n is "
                                          f"a multiple of {choice.bn} and "
                                          f"k of {2 * choice.split * choice.bk}")
    chosen = choice.with_stages(weight_bytes)
    size = chosen.bytes_for(chosen.stages, weight_bytes)
    if size > SHARED_BYTES[chosen.ctas]:
        raise checks.OperandError("size", f"{chosen.stages} stages need {size} bytes of shared memory; a CTA has {SHARED_BYTES[chosen.ctas]} "
                                          f"where an SM has {chosen.ctas}")
    kernel = load_kernel(f"mixed/{path}.cu", path, (*chosen.macros, *options), backend=backend)
    tiles, places = chosen.tiles(m, n), SMS * chosen.ctas
    grid = tiles * chosen.split if chosen.split > 1 else -(-tiles // -(-tiles // places))
    return Launch(kernel, (grid,), (384,), (*args, np.int32(m), np.int32(n), np.int32(k)), size)


def int_weights(x: Array, weights: IntWeights, y: Array, choice: Choice | None = None, options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """y = x * w^T by mixed/int_weights.cu. Raises OperandError."""
    n, k = weights.n, weights.k
    m = _shape(x, y, n, k)
    chosen = choice or choose(m, n, k, weights.group)
    if weights.group % chosen.bk:
        raise checks.OperandError("size", f"groups of {weights.group} columns share a scale: not a multiple of the k-block, {chosen.bk}")
    slot = chosen.bn * chosen.bk * weights.bits // 8 + chosen.bn * 2
    args = (_map(x, (chosen.bm, 64)), weights.words, weights.scales, _map(y, (chosen.finished, 64)))
    return _launch("int_weights", chosen, slot, m, n, k, args, (f"-DBITS={weights.bits}", f"-DGROUP={weights.group}", *options), backend)


def sparse(x: Array, weights: SparseWeights, y: Array, choice: Choice | None = None, options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """y = x * w^T by mixed/sparse.cu. Raises OperandError."""
    n, k = weights.n, weights.k
    m = _shape(x, y, n, k)
    chosen = choice or choose(m, n, k)
    slot = chosen.bn * chosen.bk + chosen.bn * chosen.bk // 8
    args = (_map(x, (chosen.bm, 64)), _map(weights.stored, (chosen.bn, 32), "64B"), weights.metadata, _map(y, (chosen.finished, 64)))
    return _launch("sparse", chosen, slot, m, n, k, args, options, backend)


def fp8_kinds(a: Array, b: Array, c: Array, kinds: tuple[str, str] = ("e4m3", "e5m2"), backend: str | None = None) -> Launch:
    """c = a * b^T by mixed/fp8_kinds.cu: a m x k and b n x k bits of fp8 (uint8) of these kinds, c float32; m and n multiples of 64, k of 16. Raises OperandError."""
    for name, value, dtype in (("a", a, "uint8"), ("b", b, "uint8"), ("c", c, "float32")):
        checks.array(name, value, (dtype,), 2)
    (m, k), n = a.shape, b.shape[0]
    if b.shape[1] != k or c.shape != (m, n) or m % 64 or n % 64 or k % 16 or any(kind not in FP8_KINDS for kind in kinds):
        raise checks.OperandError("shape", f"a is {a.shape}, b {b.shape}, c {c.shape} of kinds {kinds}: they are m x k, n x k and m x n, m and n multiples of "
                                           f"64, k of 16; kinds are e4m3 or e5m2")
    options = tuple(f"-D{name}_KIND={FP8_KINDS.index(kind)}" for name, kind in zip("AB", kinds, strict=True))
    maps = tuple(TensorMap.tiled(array, box=(64, 128), swizzle="128B", dtype="uint8") for array in (a, b))
    return Launch(load_kernel("mixed/fp8_kinds.cu", "fp8_kinds", options, backend=backend), (n // 64, m // 64), (128,),
                  (*maps, c, np.int32(m), np.int32(n), np.int32(k)), 16384 + 8)
