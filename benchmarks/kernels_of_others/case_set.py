# SPDX-License-Identifier: Apache-2.0
"""Cases of a set (cases.py of each), and the data that they share. xp is numpy, in the emulator, or cupy; data are random, never zeros."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hopperlab as hl

I, F, U, D, L = np.int32, np.float32, np.uint32, np.float64, np.uint64  # noqa: E741
FILLED = float(np.full(4, 0x41, np.uint8).view(np.float32)[0])         # what out() leaves: 12.078


class CaseSet:
    """cases: dicts with name, file, entry, options, grid, block, shared, make_args(xp, rng), check(args) and tolerance; `small` has those of a size for the emulator.
    pairs: (name, name), the same result by one change."""

    def __init__(self, folder: Path) -> None:
        self.kernels = folder / "kernels"
        self.cases: list[dict[str, Any]] = []
        self.pairs: list[tuple[str, str]] = []

    def add(self, name: str, file: str, entry: str, build: Callable[..., tuple[Any, ...]], big: dict[str, Any], small: dict[str, Any], options: Sequence[str] = (),
            tolerance: float = 2e-5) -> None:
        """build(**sizes) -> grid, block, shared, make_args, check."""
        keys = ("grid", "block", "shared", "make_args", "check")
        case: dict[str, Any] = dict(name=name, file=file, entry=entry, options=tuple(options), tolerance=tolerance)
        case.update(zip(keys, build(**big), strict=True))
        case["small"] = dict(zip(keys, build(**small), strict=True))
        self.cases.append(case)

    def load(self, case: dict[str, Any], backend: str) -> Any:
        """Its kernel."""
        return hl.RawModule(path=str(self.kernels / case["file"]), options=case["options"], backend=backend).get_function(case["entry"])


def on_host(args: Sequence[Any]) -> list[Any]:
    """Arguments as NumPy arrays and scalars; of a tensor map its array."""
    found = [a.array if isinstance(a, hl.TensorMap) else a for a in args]
    return [hl.asnumpy(a) if getattr(a, "shape", ()) else a for a in found]


# --- data -------------------------------------------------------------------------------------------------------------
def normal(xp, rng, *shape):
    """Normal numbers."""
    return rng.standard_normal(shape, dtype=np.float32)


def uniform(xp, rng, *shape):
    """Numbers from 0 to 1."""
    return rng.random(shape, dtype=np.float32)


def words(xp, rng, *shape):
    """Words of 31 random bits."""
    return rng.integers(1, 1 << 31, shape, dtype=np.int64).astype(np.uint32)


def index(xp, rng, n, below):
    """Random places."""
    return rng.integers(0, below, n, dtype=np.int64).astype(np.int32)


def bf16(xp, rng, *shape):
    """Normal numbers, as the 16 bits of bfloat16."""
    u = rng.standard_normal(shape, dtype=np.float32).view(np.uint32)
    u += np.uint32(0x8000)
    u >>= np.uint32(16)
    return u.astype(np.uint16)


def out(xp, rng, *shape, dtype=np.float32):
    """What a kernel writes to."""
    a = xp.empty(int(np.prod(shape)) * np.dtype(dtype).itemsize, dtype=np.uint8)
    a.fill(0x41)
    return a.view(dtype).reshape(shape)


def b2f(u):
    """bfloat16 as float32."""
    return (np.asarray(u).astype(np.uint32) << np.uint32(16)).view(np.float32)


def err(got, want):
    """The largest error, of the largest value."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    return float(np.max(np.abs(got - want)) / (np.max(np.abs(want)) + 1e-30))


def some(n, k=16):
    """k numbers from all over n."""
    return np.unique(np.linspace(0, n - 1, min(n, k)).astype(int))


def spread(n, most=4096):
    """Numbers of what is compared."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))
