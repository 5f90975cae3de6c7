# SPDX-License-Identifier: Apache-2.0
"""Places for CTAs on the SMs of one device, where several grids share them. [CUDA Programming Guide, compute capability 9.0]"""
from __future__ import annotations

import numpy as np

from ...hopper import limits


def needs(threads: int, registers: int, shared: int) -> np.ndarray:
    """What a CTA takes of an SM: of its warps, its places, its registers and its shared memory, as shares of 1."""
    return np.array([taken / there for taken, there in limits.shares(threads, registers, shared).values()])


class Places:
    """What is free of every resource on every SM of a device, as shares of 1."""

    def __init__(self) -> None:
        self.free = np.ones((limits.SMS, 4))

    def _fit(self, needed: np.ndarray) -> np.ndarray:
        fit: np.ndarray = np.floor((self.free / needed).min(axis=1) + 1e-6).astype(np.int64)
        return fit

    def room(self, needed: np.ndarray) -> int:
        """How many CTAs find a place."""
        return int(self._fit(needed).sum())

    def take(self, needed: np.ndarray, count: int) -> np.ndarray:
        """The SMs of `count` CTAs, one on each before a second one on any."""
        taken: list[int] = []
        while len(taken) < count:
            open_ = np.flatnonzero(self._fit(needed) > 0)
            chosen = open_[np.argsort(-self.free[open_].min(axis=1), kind="stable")][:count - len(taken)]
            if not len(chosen):
                raise ValueError(f"{count} CTAs do not fit")
            self.free[chosen] -= needed
            taken += chosen.tolist()
        return np.array(taken, np.int64)

    def give(self, sms: np.ndarray, needed: np.ndarray) -> None:
        """CTAs on these SMs have ended."""
        np.add.at(self.free, sms, needed)
