# SPDX-License-Identifier: Apache-2.0
"""A launch of the course's kernel with its text edited, and exact operands and reference for a product.

`changes` are pairs (old, new), each old text occurring exactly once in the kernel.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

Changes = Sequence[tuple[str, str]]


def edited(path: str, changes: Changes) -> str:
    """The text of a kernel with `changes` made. Raises ValueError when an old text does not occur exactly once."""
    import hopperlab

    text = hopperlab.kernel_source(path)
    for old, new in changes:
        if text.count(old) != 1:
            raise ValueError(f"{path} has {text.count(old)} places with {old!r}: name exactly one")
        text = text.replace(old, new)
    return text


def changed(launch: Any, path: str, changes: Changes, options: Sequence[str]) -> Any:
    """The same launch with the kernel's text edited; options: all that it was compiled with, from the launch's own function."""
    import hopperlab as hl

    module = hl.RawModule(code=edited(path, changes), options=tuple(options), backend="emulator", name=path)
    return replace(launch, kernel=module.get_function(launch.kernel.name))


def operands(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Small integers in bf16, so that every sum is exact: a (m, k), b (n, k), and a c (m, n) full of NaN."""
    from ml_dtypes import bfloat16

    random = np.random.default_rng(m + n + k)
    a, b = (random.integers(-2, 3, (rows, k)).astype(bfloat16) for rows in (m, n))
    return a, b, np.full((m, n), np.nan, bfloat16)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The NumPy reference: a times b transposed in fp32, rounded to bf16 once."""
    return (a.astype(np.float32) @ b.astype(np.float32).T).astype(a.dtype)
