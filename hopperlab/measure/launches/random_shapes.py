# SPDX-License-Identifier: Apache-2.0
"""Shapes of products that nobody chose: drawn from a seed, for measuring what was not tuned on."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np

MOST_FLOP = 2e13
SMALLEST, LARGEST = (16, 256, 256), (16384, 16384, 16384)


def random_shapes(count: int, seed: int) -> list[tuple[int, int, int]]:
    """`count` shapes m, n, k: m log-uniform from 16 to 16384, n and k from 256 to 16384, at most 2e13 FLOP. Half are multiples of 128
    (m of 16 where it is below 128), a third of 8 (m any number), the others of 64 (m any number)."""
    return [shape for _, shape in zip(range(count), _drawn(np.random.default_rng(seed)), strict=False)]


def _drawn(rng: np.random.Generator) -> Iterator[tuple[int, int, int]]:
    while True:
        kind = rng.choice(3, p=(1 / 2, 1 / 3, 1 / 6))
        m, n, k = (float(2 ** rng.uniform(np.log2(low), np.log2(high))) for low, high in zip(SMALLEST, LARGEST, strict=True))
        multiple = (128, 8, 64)[kind]
        of_m = 1 if kind else 128 if m >= 128 else 16
        shape = max(of_m, round(m / of_m) * of_m), max(multiple, round(n / multiple) * multiple), max(multiple, round(k / multiple) * multiple)
        if 2.0 * shape[0] * shape[1] * shape[2] <= MOST_FLOP:
            yield shape
