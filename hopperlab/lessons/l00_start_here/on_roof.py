# SPDX-License-Identifier: Apache-2.0
"""The launches behind lesson 00's panel: a product and a scaling in the emulator, placed on the roof by the bytes they moved."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...measure.launches import launch as launches
from ...show.style import Picture
from .rooflines import Point, roofline


def launch_on_roof(size: int, depth: int, kernel: str, ceilings: dict[str, float], bandwidth: float) -> Picture:
    """Lesson 00's panel: launch a kernel in the emulator, count the bytes it moved, and place it on the roof.

    kernel: 'bf16 product' (size x size x depth) or 'fp32 scaling' (size x depth elements). Two points: each array moved once, and as counted.
    """
    flop, least, moved = (_product if kernel == "bf16 product" else _scaling)(size, depth)
    points = [Point(f"each array once: {least // 1024} KiB", flop / least), Point(f"as counted: {moved // 1024} KiB", flop / moved)]
    return roofline(ceilings, bandwidth, points, f"{kernel}, {size} x {depth}: {flop / 1e6:.2f} MFLOP")


def _product(size: int, depth: int) -> tuple[float, int, int]:
    import hopperlab as hl

    a, b, c = exact_operands(size, size, depth, seed=size)
    launch = launches.mma_multistage(a, b, c, backend="emulator")
    with hl.emulate() as run:
        launch()
    return 2.0 * size * size * depth, a.nbytes + b.nbytes + c.nbytes, _bytes(run, ("cp_async_bytes", "global_store_bytes"))


def _scaling(size: int, depth: int) -> tuple[float, int, int]:
    import hopperlab as hl

    x, y = np.ones((size, depth), dtype=np.float32), np.zeros((size, depth), dtype=np.float32)
    launch = launches.tma_scale(x, y, 2.0, blocks=4, backend="emulator")
    with hl.emulate() as run:
        launch()
    return float(size * depth), x.nbytes + y.nbytes, _bytes(run, ("tma_load_bytes", "tma_store_bytes"))


def _bytes(run: Any, names: Sequence[str]) -> int:
    return sum(run.counters.get(name, 0) for name in names)


def exact_operands(m: int, n: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Small integers in bf16, so that every sum is exact: a (m, k), b (n, k), and an empty c (m, n)."""
    from ml_dtypes import bfloat16

    random = np.random.default_rng(seed)
    a, b = (random.integers(-2, 3, size=(rows, k)).astype(bfloat16) for rows in (m, n))
    return a, b, np.zeros((m, n), dtype=bfloat16)
