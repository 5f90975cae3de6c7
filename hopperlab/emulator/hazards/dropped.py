# SPDX-License-Identifier: Apache-2.0
"""Threads that have dropped out of an mbarrier (mbarrier.arrive_drop), and arrive there again, or drop out twice. No error by itself (a thread may drop for another), but
the first place to look at where an mbarrier receives more arrivals than it counts. PTX ISA 9.7.13.15.13."""
from __future__ import annotations

from typing import Any

import numpy as np


class Dropped:
    """again: mbarrier -> (instruction, thread) of its first arrival by somebody who had dropped out."""

    def __init__(self) -> None:
        self._gone: set[tuple[int, int]] = set()
        self.again: dict[int, tuple[int, int]] = {}

    def arrived(self, gids: np.ndarray, ids: np.ndarray, info: Any) -> None:
        """Threads arrive, each on one mbarrier."""
        if not self._gone and not info.drop:
            return
        for one in zip(ids.tolist(), gids.tolist()):
            if one in self._gone:
                self.again.setdefault(one[0], (info.index, one[1]))
            elif info.drop:
                self._gone.add(one)

    def born(self, ids: np.ndarray) -> None:
        """mbarrier.init: a new life."""
        if self._gone:
            new = set(ids.tolist())
            self._gone = {one for one in self._gone if one[0] not in new}

    def grow(self, old: int, new: int) -> None:
        """A CTA may have `new` barriers instead of `old`."""
        self._gone = {(b // old * new + b % old, gid) for b, gid in self._gone}
        self.again = {b // old * new + b % old: one for b, one in self.again.items()}
