# SPDX-License-Identifier: Apache-2.0
"""Launches of lesson 12's kernels: tiles shared by the CTAs of a cluster. Like launch.py: arrays in, a Launch out."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...runtime.library import load_kernel
from ...runtime.tensor_map import TensorMap
from .launch import Launch

if TYPE_CHECKING:
    from ...runtime.arrays import Array

TILE = 64
WAYS = ("alone", "multicast", "handed")             # handed_tiles.cu's HOW


def row_mask(rank: int, rows: int, cols: int) -> int:
    """Bits of the CTAs in this rank's row of a rows x cols cluster, ranks counted along the row first (cluster dims (cols, rows))."""
    return sum(1 << (rank // cols * cols + c) for c in range(cols))


def column_mask(rank: int, rows: int, cols: int) -> int:
    """Bits of the CTAs in this rank's column."""
    return sum(1 << (r * cols + rank % cols) for r in range(rows))


def shared_tiles(a: Array, b: Array, out: Array, rows: int = 2, cols: int = 2, stages: int = 2, mask_a: Callable[..., int] = row_mask,
                 mask_b: Callable[..., int] = column_mask, options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """out[y, x] += (sum of a's rows 64y .. 64y + 63, sum of b's rows 64x .. 64x + 63) by clusters/shared_tiles.cu: a and b uint16 with
    the same number of columns (a multiple of 64), out uint32 of (a.rows / 64, b.rows / 64, 2), zero before. Clusters are rows x cols
    CTAs; mask_a, mask_b: rank, rows, cols -> who gets that rank's part of a's and of b's tile. Raises ValueError for shapes that
    are no whole number of clusters."""
    high, wide, depth = a.shape[0] // TILE, b.shape[0] // TILE, a.shape[1] // TILE
    if a.shape[0] % (TILE * rows) or b.shape[0] % (TILE * cols) or a.shape[1] % TILE or a.shape[1] != b.shape[1]:
        raise ValueError(f"a {a.shape} and b {b.shape} are no whole number of clusters of {rows} x {cols} tiles of {TILE} x {TILE}")
    if tuple(out.shape) != (high, wide, 2):
        raise ValueError(f"out has shape {tuple(out.shape)}, not {(high, wide, 2)}")
    kernel = load_kernel("clusters/shared_tiles.cu", "shared_tiles", (f"-DROWS={rows}", f"-DCOLS={cols}", f"-DSTAGES={stages}", *options),
                         backend=backend)
    masks = [np.zeros(16, np.uint16) for _ in range(2)]
    for rank in range(rows * cols):
        masks[0][rank], masks[1][rank] = mask_a(rank, rows, cols), mask_b(rank, rows, cols)
    by_value = [np.frombuffer(m.tobytes(), np.dtype("V32"))[0] for m in masks]
    maps = [TensorMap.tiled(array, box=(TILE // parts, TILE)) for array, parts in ((a, cols), (b, rows))]
    return Launch(kernel, (wide, high), (160,), (*maps, out, *by_value, np.int32(depth)), stages * 16384 + 16 * stages)


def handed_tiles(a: Array, b: Array, out: Array, how: str = "handed", stages: int = 4, options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """out[y, x] += (sum of the 32-bit words of a's rows 64y .. 64y + 63, the same of b's rows 64x .. 64x + 63) by clusters/handed_tiles.cu, in clusters of two
    along y. Arrays as for shared_tiles; sums are modulo 2^32. how: one of WAYS, by which b's tile comes to both. Raises ValueError."""
    if how not in WAYS:
        raise ValueError(f"how is {how!r}, and must be one of {', '.join(WAYS)}")
    high, wide, depth = a.shape[0] // TILE, b.shape[0] // TILE, a.shape[1] // TILE
    if a.shape[0] % (2 * TILE) or b.shape[0] % TILE or a.shape[1] % TILE or a.shape[1] != b.shape[1]:
        raise ValueError(f"a {a.shape} and b {b.shape} are no whole number of clusters of 2 x 1 tiles of {TILE} x {TILE}")
    if tuple(out.shape) != (high, wide, 2):
        raise ValueError(f"out has shape {tuple(out.shape)}, not {(high, wide, 2)}")
    kernel = load_kernel("clusters/handed_tiles.cu", "handed_tiles", (f"-DHOW={WAYS.index(how)}", f"-DSTAGES={stages}", *options), backend=backend)
    maps = [TensorMap.tiled(a, box=(TILE, TILE)), TensorMap.tiled(b, box=(TILE if how == "alone" else TILE // 2, TILE))]
    return Launch(kernel, (wide, high), (192,), (*maps, out, np.int32(depth)), stages * (16384 + 24))
