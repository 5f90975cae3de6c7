# SPDX-License-Identifier: Apache-2.0
"""Bytes of matrix operands -> float arrays that BLAS can multiply."""
from __future__ import annotations

from functools import lru_cache

import ml_dtypes
import numpy as np


@lru_cache(maxsize=8)
def _table(name: str) -> np.ndarray:
    kind = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[name]
    return np.arange(256, dtype=np.uint8).view(kind).astype(np.float32)


def to_float(raw: np.ndarray, kind: str) -> np.ndarray:
    """uint8 (..., bytes) -> float32 (float64 for integers) (..., elements). tf32 drops the low 13 bits."""
    if kind == "bf16":
        return (raw.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    if kind == "f16":
        return raw.view(np.float16).astype(np.float32)
    if kind == "tf32":
        return (raw.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    if kind in ("e4m3", "e5m2"):
        return _table(kind)[raw]
    if kind == "b1":
        return np.unpackbits(raw, axis=-1, bitorder="little").astype(np.float64)
    return raw.view(np.int8 if kind == "s8" else np.uint8).astype(np.float64)


def operand(granules: np.ndarray, kind: str, major: str) -> np.ndarray:
    """Gathered granules (groups, rows, k granules, 2 words) [K-major] or (groups, k, row granules, 2) [MN-major]
    -> (groups, rows, K)."""
    groups, first = granules.shape[:2]
    values = to_float(np.ascontiguousarray(granules).view(np.uint8).reshape(groups, first, -1), kind)
    return values if major == "K" else values.transpose(0, 2, 1)
