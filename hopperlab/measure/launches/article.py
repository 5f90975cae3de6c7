# SPDX-License-Identifier: Apache-2.0
"""Lesson 17's listing from an article, with any of its repairs switched on. Arrays in, a Launch out."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...runtime.library import load_kernel
from ...runtime.tensor_map import TensorMap
from .launch import Launch

if TYPE_CHECKING:
    from ...runtime.arrays import Array

REPAIRS = ("BYTES", "PARITY", "OWN_WAIT", "WGMMA_FENCE", "RELEASE", "EMPTY_WAIT", "PROXY_FENCE", "READ_WAIT")


def article(a: Array, b: Array, c: Array, repairs: Sequence[str] = (), backend: str | None = None) -> Launch:
    """c = a * b^T by article/listing.cu: a and b (64, k) bf16 (or its bits as uint16), k a multiple of 64, c (64, 64) float32. repairs: names of
    REPAIRS. Raises ValueError for others, and for wrong shapes."""
    unknown = sorted(set(repairs) - set(REPAIRS))
    if unknown:
        raise ValueError(f"no repair {', '.join(unknown)}; there are: {', '.join(REPAIRS)}")
    if a.shape[0] != 64 or a.shape != b.shape or a.shape[1] % 64 or tuple(c.shape) != (64, 64):
        raise ValueError(f"the listing multiplies (64, k) by (64, k) into (64, 64), k a multiple of 64, not {a.shape}, {b.shape}, {tuple(c.shape)}")
    kernel = load_kernel("article/listing.cu", "pipeline", tuple(f"-DFIX_{name}=1" for name in repairs), backend=backend, strict=False)
    maps = [TensorMap.tiled(array, box=(64, 64), swizzle="128B", dtype="bfloat16" if array.dtype == np.uint16 else None) for array in (a, b)]
    return Launch(kernel, (1,), (256,), (*maps, c, np.int32(a.shape[1])), 2 * 16384 + 1024)
