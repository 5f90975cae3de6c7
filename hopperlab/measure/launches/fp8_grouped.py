# SPDX-License-Identifier: Apache-2.0
"""fp8/grouped.cu and fp8/grouped_tall.cu, ready to call: the products of a mixture-of-experts layer in one launch, in either place.

The rows of all groups lie one behind the other: a rows x k and c rows x n, with a_scales[k-block][row] (1 x 128); group g has rows
first[g] .. first[g + 1] - 1, its own b[g], n x k, and b_scales[g][n-block][k-block] (128 x 128). Dtypes as in fp8.py.
In the masked layout, which grouped_tall.cu takes too, every group has as much room as the others and fills the first `counts[g]` rows of it.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...runtime.arrays import is_cuda_array
from ...runtime.library import load_kernel
from ...runtime.tensor_map import TensorMap
from . import operand_checks as checks
from . import fp8
from .attention import counter
from .launch import SMS, Launch
from .operand_checks import OperandError

if TYPE_CHECKING:
    from ...runtime.arrays import Array


HALF = 128                              # rows of half a tall tile, 64 a consumer


@dataclass(frozen=True)
class Tiles:
    """Macros of fp8/grouped_tall.cu: tiles of 128 * rows rows and `wide` (128 or 192) columns. stream: B's lines leave the L2 first; drawn: tiles, not dealt out
    in turn."""

    rows: int = 2
    stages: int = 4
    cluster: int = 1
    unroll: int = 1
    slots: int = 1
    stream: int = 0
    drawn: int = 1
    wide: int = fp8.BLOCK

    @property
    def options(self) -> tuple[str, ...]:
        """For the compiler."""
        return (f"-DROWS={self.rows}", f"-DSTAGES={self.stages}", f"-DCLUSTER_N={self.cluster}", f"-DUNROLL={self.unroll}", f"-DC_SLOTS={self.slots}",
                f"-DSTREAM_B={self.stream}", f"-DDRAWN={self.drawn}", f"-DBN={self.wide}")

    @property
    def box(self) -> int:
        """Rows of a box of A."""
        return 64 if self.rows == 1 else HALF // self.cluster

    @property
    def shared(self) -> int:
        """Dynamic shared memory in bytes: tiles, scales, slots of C, barriers and tiles' numbers."""
        scales = -(-(HALF + 4) * 4 // 128) * 128
        return self.stages * ((HALF * self.rows + self.wide) * fp8.BLOCK + self.rows * scales) + 2 * self.slots * 8192 + 256


FEW, SMALL, LOW = Tiles(1, 6, 1, 2), Tiles(1, 6, 1, 2, stream=1), Tiles(1, 6, 1, 2, drawn=0)
WIDE, SOME, MANY = Tiles(1, 5, 1, 2, drawn=0, wide=192), Tiles(), Tiles(cluster=2, drawn=0)
SMALL_BYTES = 128e6                     # of all weights: a launch of 60 us, of which lines that wait in the L2 to be written back take 8
SMALL_ROWS, FEW_ROWS = 200, 64
SHORT_COLUMNS, GROUP_TILES = 1536, 30  # columns of a narrow B; tall tiles of a group, from which on two CTAs share their rows
TURNS, SHORT_TURNS, SHORT = 2.5, 5.5, 1536                 # of tall tiles; the second where k is at most SHORT


def chosen(groups: int, rows: float, n: int, k: int) -> Tiles:
    """Tiles for `rows` rows per group on average. An H100's at 27 drawn cells (seeds 5150 and 6021) with few rows, and at 23 of more than 64 rows (seeds 4711
    and 4712), an H200's at 60 (seeds 7101 to 7103 and 2026112702): a group of few rows waits for B, one of many for operands from the L2, of which tall tiles
    of two CTAs take least, if there are enough of them."""
    if rows <= SMALL_ROWS and groups * n * k <= SMALL_BYTES:
        return SMALL if rows <= FEW_ROWS else WIDE
    if rows <= FEW_ROWS:
        return WIDE if n <= SHORT_COLUMNS else FEW
    turns = groups * (rows / 256 + 0.3) * -(-n // fp8.BLOCK) / SMS         # 0.3: of a group's last rows
    if turns < (SHORT_TURNS if k <= SHORT else TURNS):
        return LOW
    return MANY if rows / 256 * -(-n // fp8.BLOCK) > GROUP_TILES else SOME


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


def tall(a: Array, b: Array, c: Array, a_scales: Array, b_scales: Array, first: Array, tiles: Tiles | None = None, blocks: int = SMS,
         backend: str | None = None) -> Launch:
    """The same as `grouped` by fp8/grouped_tall.cu. tiles: as `chosen` says for all rows over the groups."""
    rows, groups, n, k = sizes(a, b, c, a_scales, b_scales, first)
    return _tall(a, b, c, a_scales, b_scales, first, 0, tiles or chosen(groups, rows / groups, n, k), blocks, backend)


def masked(a: Array, b: Array, c: Array, a_scales: Array, b_scales: Array, counts: Array, rows: float, tiles: Tiles | None = None, blocks: int = SMS,
           backend: str | None = None) -> Launch:
    """The masked layout: a is groups x pitch x k, c groups x pitch x n, a_scales k-blocks x (groups * pitch, or a few more), and of each group the first
    counts[g] rows are given and made; the others stay as they are. rows: how many the caller expects in a group, by which tiles are chosen. counts is
    read on the device only: its values are not checked."""
    checks.array("counts", counts, ("int32",), 1, aligned=4)
    groups, pitch = _room(a, b, c, counts)
    flat_a, flat_c = a.reshape(groups * pitch, a.shape[2]), c.reshape(groups * pitch, c.shape[2])
    fp8.sizes(flat_a, b[0], flat_c, a_scales, b_scales[0])
    return _tall(flat_a, b, flat_c, a_scales, b_scales, counts, pitch, tiles or chosen(groups, rows, c.shape[2], a.shape[2]), blocks, backend)


def _room(a: Array, b: Array, c: Array, counts: Array) -> tuple[int, int]:
    """(groups, rows that each has room for). Raises OperandError."""
    if len(a.shape) != 3 or len(b.shape) != 3 or a.shape[2] != b.shape[2] or tuple(c.shape) != (*a.shape[:2], b.shape[1]) or a.shape[0] != b.shape[0]:
        raise OperandError("shape", f"a has shape {tuple(a.shape)}, b {tuple(b.shape)}, c {tuple(c.shape)}: "
                                    "they are groups x rows x k, groups x n x k, groups x rows x n")
    if counts.shape != (a.shape[0],):
        raise OperandError("shape", f"counts has shape {tuple(counts.shape)}: {a.shape[0]} groups have as many numbers of rows")
    return a.shape[0], a.shape[1]


def _tall(a: Array, b: Array, c: Array, a_scales: Array, b_scales: Array, first: Array, pitch: int, tiles: Tiles, blocks: int, backend: str | None) -> Launch:
    groups, n, k = b.shape
    kernel = load_kernel("fp8/grouped_tall.cu", "gemm", tiles.options, backend=backend)
    maps = (TensorMap.tiled(a, box=(tiles.box, fp8.BLOCK), swizzle="128B", dtype="uint8", l2_promotion="256B"),
            TensorMap.tiled(b.reshape(groups * n, k), box=(tiles.wide, fp8.BLOCK), swizzle="128B", dtype="uint8", l2_promotion="256B"),
            TensorMap.tiled(c, box=(64, 64), swizzle="128B", dtype="bfloat16" if c.dtype == np.uint16 else None),
            TensorMap.tiled(a_scales[:, :a.shape[0]], box=(1, HALF + 4)))
    args = (*maps, b_scales, first, c, counter(c), *(np.int32(number) for number in (pitch, groups, n, k)))
    return Launch(kernel, (max(blocks // tiles.cluster, 1) * tiles.cluster,), (384,), args, tiles.shared)


def reference(a8: np.ndarray, b8: np.ndarray, a_scales: np.ndarray, b_scales: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The groups' products of quantised operands in float64, one behind the other; rows that belong to no group are NaN."""
    out = np.full((len(a8), b8.shape[1]), np.nan)
    for group, (begin, end) in enumerate(zip(first, first[1:])):
        if end > begin:
            out[begin:end] = fp8.reference(a8[begin:end], b8[group], np.ascontiguousarray(a_scales[:, begin:end]), b_scales[group])
    return out
