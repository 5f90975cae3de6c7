# SPDX-License-Identifier: Apache-2.0
"""Products beside the ladder that answer one question each: cooperative consumers on ping-pong's tiles, and an epilogue that reads C.

a: m x k, b: n x k, c: m x n; ml_dtypes.bfloat16 or uint16 bits. What a kernel needs (grid, shared memory, boxes) is in its header.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...runtime.library import load_kernel
from ...runtime.tensor_map import TensorMap
from . import operand_checks
from .launch import SMS, Launch

if TYPE_CHECKING:
    from ...runtime.arrays import Array


def _map(array: Array, rows: int) -> TensorMap:
    return TensorMap.tiled(array, box=(rows, 64), swizzle="128B", dtype="bfloat16" if array.dtype == np.uint16 else None)


def _grid(tiles: int, at_once: int, cluster: int = 1) -> tuple[int]:
    """As few CTAs as make no more waves of tiles than `at_once` clusters of them would."""
    return (cluster * -(-tiles // -(-tiles // at_once)),)


def cooperative(a: Array, b: Array, c: Array, stages: int = 6, group: int = 16, blocks: int = SMS, options: Sequence[str] = (),
                backend: str | None = None) -> Launch:
    """gemm/cooperative.cu: both consumers on each 128 x 128 tile, all else as in gemm/pingpong.cu. k a multiple of 8, 2 to 7 stages."""
    m, n, k = operand_checks.product(a, b, c)
    kernel = load_kernel("gemm/cooperative.cu", "gemm", (f"-DSTAGES={stages}", f"-DGROUP={group}", *options), backend=backend)
    return Launch(kernel, _grid(-(-m // 128) * -(-n // 128), max(1, blocks)), (384,),
                  (_map(a, 128), _map(b, 128), c, np.int32(m), np.int32(n), np.int32(k)), stages * 32768 + 128)


def reads_c(a: Array, b: Array, c: Array, alpha: float = 1.0, beta: float = 1.0, stages: int = 3, group: int = 8, blocks: int = SMS,
            options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """gemm/reads_c.cu: c = alpha a b^T + beta c, the old c loaded by TMA under the products. k and n multiples of 8, 2 or 3 stages.

    Each launch changes c. blocks: CTAs at most, in clusters of two.
    """
    m, n, k = operand_checks.product(a, b, c, k_multiple=8)
    operand_checks.number("n", n, 8, 1 << 31, 8)
    kernel = load_kernel("gemm/reads_c.cu", "gemm", (f"-DSTAGES={stages}", f"-DGROUP={group}", *options), backend=backend)
    return Launch(kernel, _grid(-(-m // 256) * -(-n // 256), max(1, blocks // 2), 2), (384,),
                  (_map(a, 128), _map(b, 128), _map(c, 64), np.float32(alpha), np.float32(beta), np.int32(m), np.int32(n), np.int32(k)),
                  stages * 49152 + 65536 + 256)
