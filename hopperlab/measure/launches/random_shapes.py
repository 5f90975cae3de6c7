# SPDX-License-Identifier: Apache-2.0
"""Shapes that nobody chose: drawn from a seed, for measuring what was not tuned on. Products here; attention in random_cells.py."""
from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .gemm_configurations import FEW, few_tiles

MOST_FLOP = 2e13
Sizes = tuple[int, int, int]
SMALLEST, LARGEST = (16, 256, 256), (16384, 16384, 16384)


def random_shapes(count: int, seed: int, k_of: int = 1) -> list[tuple[int, int, int]]:
    """`count` shapes m, n, k: m log-uniform from 16 to 16384, n and k from 256 to 16384, at most 2e13 FLOP. Half are multiples of 128
    (m of 16 where it is below 128), a third of 8 (m any number), the others of 64 (m any number). k_of: k is a multiple of it besides."""
    return [shape for _, shape in zip(range(count), _drawn(np.random.default_rng(seed), k_of), strict=False)]


def few_tiles_shapes(count: int, seed: int) -> list[tuple[int, int, int]]:
    """The same with few tiles and a deep k (gemm_configurations.FEW): m from 16 to 2048, n from 256 to 4096, k from 1024 to 16384; none twice."""
    drawn = dict.fromkeys(shape for _, shape in zip(range(9 * count), _drawn(np.random.default_rng(seed), 1, *FEW), strict=False) if few_tiles(*shape))
    return list(drawn)[:count]


def fp8_shapes(count: int, seed: int) -> list[tuple[int, int, int]]:
    """The same for fp8, whose rows of k are multiples of 16 bytes: k is a multiple of 16."""
    return random_shapes(count, seed, k_of=16)


def _nearest(size: float, multiple: int) -> int:
    return max(multiple, round(size / multiple) * multiple)


def _drawn(rng: np.random.Generator, k_of: int, smallest: Sizes = SMALLEST, largest: Sizes = LARGEST) -> Iterator[tuple[int, int, int]]:
    while True:
        kind = rng.choice(3, p=(1 / 2, 1 / 3, 1 / 6))
        m, n, k = (float(2 ** rng.uniform(np.log2(low), np.log2(high))) for low, high in zip(smallest, largest, strict=True))
        multiple = (128, 8, 64)[kind]
        shape = _nearest(m, 1 if kind else 128 if m >= 128 else 16), _nearest(n, multiple), _nearest(k, math.lcm(multiple, k_of))
        if 2.0 * shape[0] * shape[1] * shape[2] <= MOST_FLOP:
            yield shape
