# SPDX-License-Identifier: Apache-2.0
"""What the cost model's formula misses: regression trees, fitted on measured launches, that correct its estimates before configurations are ranked.

The formula (gemm_model) says why a configuration takes its time, and is off by some per cent in ways that depend on tile, cluster and shape together:
clusters that start late, launches of a wave and a bit, narrow slots of C. `python -m benchmarks.gemm_model --trees` fits gradient-boosted trees to the
logarithm of measured over estimated time; gemm_corrections.json holds them and says on which searches (700 shapes, 660 of them random). Left out of the fit
one search after the other, the picks take 1.8 per cent longer at the random shapes than the best that was tried, at most 28; by the formula alone 2.9, at most
32. Repeated, a time differs by 2.3 per cent (standard deviation), so that one in this is luck. For ranking only: no corrected time is told.

Products of few tiles (gemm_configurations.few_tiles) have a second group, gemm_corrections_few.json, fitted on what the first leaves over in searches at such
shapes (338 more): `python -m benchmarks.few_tiles_model`. At shapes left out of its fit the picks lose 2.4 instead of 3.0 per cent to the best that was tried.
"""
from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from .gemm_configurations import Final, clusters_at_once

FILE, FEW_FILE = (Path(__file__).with_name(name) for name in ("gemm_corrections.json", "gemm_corrections_few.json"))
FEATURES = ("estimate", "m", "n", "k", "bm", "bn", "consumers", "stages", "cluster_m", "cluster_n", "single", "c_slots", "stagger", "in_step", "promotion",
            "swapped", "stream", "split", "b_mn", "width", "waves", "idle", "k_past", "n_past", "ragged", "ctas", "rows_used", "columns_used", "loaded",
            "used", "k_blocks", "asked", "work", "traffic", "traffic_rate", "tile", "cluster", "high", "last_wave", "work_rate", "c", "operands")


def features(choice: Final, m: int, n: int, k: int, estimate: float) -> tuple[float, ...]:
    """FEATURES of a product of m x n x k with a configuration; sizes, bytes, work and estimate (microseconds) as logarithms.

    single: a CTA per tile. waves, idle, last_wave: of cluster tiles, how much longer whole waves are, and how much of a wave is left for the last. k_past, n_past: of
    a row behind its last line of 128 bytes, as a share. ragged: C's rows are no multiple of 16 bytes. rows_used, columns_used, used: of all tiles, what C has.
    loaded: bytes a CTA asks for over its tile's elements. asked, traffic: bytes a CTA loads for a tile, and all of them. work: multiplications of the busiest SM.
    traffic_rate, work_rate: over the estimate. high: rows of a consumer. c, operands: elements of C, of A and B.
    """
    rows, columns = (n, m) if choice.swapped else (m, n)
    high, wide = choice.tiles(m, n)
    tiles, at_once, sharers = high * wide, clusters_at_once(choice.cluster), choice.bm / choice.cluster_n + choice.bn / choice.cluster_m
    waves, k_blocks = tiles / at_once, math.ceil(k / 64) / choice.split
    rows_used, columns_used = rows / (high * choice.bm * choice.cluster_m), columns / (wide * choice.bn * choice.cluster_n)
    time, asked = math.log(estimate), sharers * 128 * k_blocks
    work = math.log((waves if choice.stream else math.ceil(waves)) * choice.bm * choice.bn * k_blocks)
    traffic = math.log(tiles * choice.cluster * asked)
    return (time, math.log(m), math.log(n), math.log(k), choice.bm, choice.bn, choice.consumers, choice.stages, choice.cluster_m, choice.cluster_n,
            choice.group == 0, choice.c_slots, choice.stagger, choice.in_step, choice.promotion, choice.swapped, choice.stream, choice.split, choice.b_mn, choice.width,
            waves, math.ceil(waves) / waves, k % 64 / 64, n % 64 / 64, n % 8 != 0, math.log(tiles * choice.cluster), rows_used, columns_used,
            math.log(sharers / (choice.bm * choice.bn)),
            rows_used * columns_used, math.log(k_blocks), math.log(asked), work, traffic, traffic - time, choice.bm * choice.bn, choice.cluster,
            choice.bm // choice.consumers, tiles % at_once / at_once, work - time, math.log(m * n), math.log((m + n) * k))


Tree = tuple[Sequence[int], Sequence[float], Sequence[int]]
"""Of each node: feature (-1: a leaf), bound (a leaf's value), the node below it (for values up to the bound; the one behind that for others)."""


class Trees:
    """Regression trees as arrays, a row each, whose leaves add up."""

    def __init__(self, base: float, trees: Sequence[Tree]):
        widest = max(len(feature) for feature, _, _ in trees)

        def padded(part: int, kind: type) -> np.ndarray:
            return np.array([[*tree[part], *[0] * (widest - len(tree[part]))] for tree in trees], kind)
        self.base, self.feature, self.bound, self.below = base, padded(0, int), padded(1, float), padded(2, int)
        self.depth = widest

    def of(self, rows: np.ndarray) -> np.ndarray:
        """The sum over all trees, for each row of features."""
        total, trees = np.full(len(rows), self.base), np.arange(len(self.feature))
        at = np.zeros((len(rows), len(trees)), int)
        for _ in range(self.depth):
            feature, bound = self.feature[trees, at], self.bound[trees, at]
            inner = feature >= 0
            if not inner.any():
                break
            above = np.take_along_axis(rows, np.maximum(feature, 0), axis=1) > bound
            at = np.where(inner, self.below[trees, at] + above, at)
        return total + self.bound[trees, at].sum(axis=1)


@lru_cache(maxsize=2)
def trees(path: Path) -> Trees:
    """Those of FILE or FEW_FILE."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    return Trees(stored["base"], stored["trees"])


def factors(choices: Sequence[Final], m: int, n: int, k: int, estimates: Sequence[float], file: Path = FILE) -> np.ndarray:
    """By how much each configuration is likely to take longer than its estimate (microseconds), 1: as long. file: FEW_FILE, of what FILE's factors leave over."""
    if not choices:
        return np.ones(0)
    return np.exp(trees(file).of(np.array([features(choice, m, n, k, estimate) for choice, estimate in zip(choices, estimates, strict=True)], float)))
