# SPDX-License-Identifier: Apache-2.0
"""mma.m8n8k4 of f16: four products of 8x8x4 a warp, one for each pair of quads (lanes 4p..4p+3 and 16 + 4p..16 + 4p + 3), in every
layout of A and B (PTX ISA 9.7.14.5.1). Values are exact; sums are float32, in NumPy's order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .formats import f32_f16

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_LANE = np.arange(32)
_PAIR, _OWN, _UPPER = _LANE % 16 // 4, _LANE % 4, 4 * (_LANE // 16)       # product, place in the quad, 4 in the upper quad


def _places(layout: str, matrix: str) -> tuple[np.ndarray, np.ndarray]:
    """(m or n, k) of the four elements of every lane: arrays of shape (32, 4)."""
    i, own, upper = np.arange(4), _OWN[:, None], _UPPER[:, None]
    along_k = (layout == "row") == (matrix == "a")          # a lane holds one row of A, or one column of B
    return (own + upper + 0 * i, i + 0 * own) if along_k else (i + upper, own + 0 * i)


def _accumulators(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """(row, column) of the eight accumulators of every lane: arrays of shape (32, 8)."""
    i, own, upper = np.arange(8), _OWN[:, None], _UPPER[:, None]
    if kind == "f16":
        return own + upper + 0 * i, i + 0 * own
    return (own & 1) + (i & 2) + upper, (i & 4) + (own & 2) + (i & 1)


def _halves(registers) -> np.ndarray:
    """Registers of f16 pairs, each (warps, 32), as float32 of shape (warps, 32, elements)."""
    words = np.stack(registers, axis=-1)
    return np.ascontiguousarray(words).view(np.float16).astype(np.float32)


def product(layouts: tuple[str, str], d_kind: str, c_kind: str) -> Callable[..., list[NDArray[Any]]]:
    """fn(a, b, c) -> D registers, for lists of (warps, 32) arrays: a and b uint32, c uint32 (f16) or float32."""
    (m, ka), (n, kb) = _places(layouts[0], "a"), _places(layouts[1], "b")
    (c_row, c_column), (d_row, d_column) = _accumulators(c_kind), _accumulators(d_kind)
    pair = _PAIR[:, None]

    def fn(a, b, c):
        warps = len(a[0])
        left, right, start = (np.zeros((warps, 4, 8, size), np.float32) for size in (4, 4, 8))
        left[:, pair, m, ka] = _halves(a)
        right[:, pair, n, kb] = _halves(b)
        start[:, pair, c_row, c_column] = _halves(c) if c_kind == "f16" else np.stack(c, axis=-1)
        total = (np.matmul(left, right.transpose(0, 1, 3, 2)) + start)[:, pair, d_row, d_column]
        if d_kind == "f32":
            return [np.ascontiguousarray(total[:, :, i]) for i in range(8)]
        packed = f32_f16(np.ascontiguousarray(total)).view(np.uint32)
        return [np.ascontiguousarray(packed[:, :, j]) for j in range(4)]

    return fn
