# SPDX-License-Identifier: Apache-2.0
"""Which configuration a product gets: the one with the least estimated time, by the cost model and its corrections, among all that are worth considering."""
from __future__ import annotations

from functools import lru_cache

import numpy as np

from . import gemm_corrections
from .gemm_configurations import Choice, Final, SplitK, candidates, few_tiles, kernel_of
from .gemm_model import MODEL, microseconds

MARGIN = 1.01                           # by which the second corrections must expect another configuration to be faster than the first's pick
AGAIN = 160                             # places that are ordered again where tiles are few: as many as the second corrections were fitted on
WholeLines = tuple[bool, bool]                              # of A, of B


@lru_cache(maxsize=256)
def ranked(m: int, n: int, k: int, whole_lines: WholeLines | None = None, b_mn: bool = False) -> tuple[Choice, ...]:
    """All configurations worth considering for a product of m x n x k, the one expected to be fastest first: gemm_model's time, times its correction; where tiles
    are few the first AGAIN are ordered by a second correction, and the first one stays where that is within MARGIN.

    whole_lines: the rows of A, and those of B as it is stored, begin at multiples of 128 bytes; None: as rows without gaps do. b_mn: B is stored k x n.
    """
    whole = (k % 64 == 0, (n if b_mn else k) % 64 == 0) if whole_lines is None else whole_lines
    found = list(candidates(m, n, k, b_mn))
    estimates = [microseconds(choice, m, n, k, MODEL, whole) for choice in found]
    expected = estimates * gemm_corrections.factors(found, m, n, k, estimates)
    order = np.argsort(expected, kind="stable")
    if few_tiles(m, n, k):
        first = order[:AGAIN]
        among, guesses = zip(*((found[place], estimates[place]) for place in first), strict=True)
        again = expected[first] * gemm_corrections.factors(among, m, n, k, guesses, gemm_corrections.FEW_FILE)
        again[0] /= MARGIN
        order[:AGAIN] = first[np.argsort(again, kind="stable")]
    return tuple(found[place] for place in order)


def choose(m: int, n: int, k: int, whole_lines: WholeLines | None = None, b_mn: bool = False) -> Choice:
    """The configuration for a product of m x n x k."""
    return ranked(m, n, k, whole_lines, b_mn)[0]


def wanted(choice: Choice, n: int) -> list[tuple[str, str, tuple[str, ...]]]:
    """(file, kernel, options) of what has to be compiled to launch a configuration for a C of n columns."""
    launched = choice.without_tma_store() if isinstance(choice, Final | SplitK) and n % 8 else choice
    return [(f"gemm/{kernel_of(choice)}.cu", "gemm", launched.options)]
