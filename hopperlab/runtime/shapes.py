# SPDX-License-Identifier: Apache-2.0
"""Grids, blocks and clusters as CuPy takes them: one to three numbers, made a triple."""
from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TypeAlias

from .errors import LaunchError

Triple: TypeAlias = tuple[int, int, int]
Shape: TypeAlias = int | Sequence[int]
"""A grid or block as CuPy takes it: one to three numbers."""


def triple(what: str, shape: Shape) -> Triple:
    """(x, y, z) of one to three numbers. Raises LaunchError, which names `what`, for anything else."""
    values = shape if isinstance(shape, (tuple, list)) else (shape,)
    try:
        numbers = tuple(operator.index(v) for v in values)
    except TypeError:
        raise LaunchError(f"{what} must be a tuple of one to three whole numbers, not {shape!r}") from None
    if not 1 <= len(numbers) <= 3:
        raise LaunchError(f"{what} must have one to three numbers, not {len(numbers)}: {shape!r}")
    x, y, z, *_ = (*numbers, 1, 1)
    return x, y, z
