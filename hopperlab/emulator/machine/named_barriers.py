# SPDX-License-Identifier: Apache-2.0
"""Named barriers: bar.sync, bar.arrive, bar.red, barrier.* (PTX ISA 9.7.13.1). Sixteen a CTA."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .cohort import Cohort


class NamedBarriers:
    """Arrivals and generations of every CTA's sixteen barriers; a key is slot * 16 + id."""

    def __init__(self, machine):
        self.M = machine
        size = machine.slots * 16
        self.arrived = np.zeros(size, np.int64)
        self.needed = np.zeros(size, np.int64)         # 0: all threads of the CTA
        self.generation = np.zeros(size, np.int64)
        self.votes = np.zeros((size, 3), np.int64)     # (popc, and, or) of bar.red in the running generation
        self.result = np.zeros((size, 3), np.int64)
        self.flipped = self.in_use = False

    def reset_slots(self, slots: np.ndarray) -> None:
        """New CTAs: nobody has arrived anywhere."""
        for table in (self.arrived, self.needed):
            table.reshape(-1, 16)[slots] = 0

    def arrive(self, C: Cohort, keys: np.ndarray, threads: NDArray[Any], info: Any, predicate: NDArray[Any] | None = None) -> np.ndarray:
        """All lanes arrive at their barrier; returns the generation each joined. threads: 0 for the whole CTA."""
        M = self.M
        self.in_use = True
        if C.count_warps() > 1 and threads.any() and self._too_many(keys, threads):
            return self._one_by_one(C, keys, threads, info, predicate)
        M.tell.named_arrived(C, keys, threads, info)
        joined = self.generation[keys]
        if predicate is not None:
            self._vote(keys, predicate)
        np.add.at(self.arrived, keys, 1)
        self.needed[keys] = threads
        self._complete(np.unique(keys))
        M.progress += 1
        return joined

    def _too_many(self, keys, threads) -> bool:
        """Whether more arrive together than a barrier of some threads of the CTA still waits for: then it completes among them."""
        unique, inverse, count = np.unique(keys, return_inverse=True, return_counts=True)
        needed = np.zeros(len(unique), np.int64)
        needed[inverse] = threads
        return bool(((needed > 0) & (self.arrived[unique] + count > needed)).any())

    def _one_by_one(self, C, keys, threads, info, predicate) -> np.ndarray:
        """Warp by warp."""
        starts = self.M.units(C).starts
        return np.concatenate([self.arrive(type(C)(C.gids[a:b], None, C.pc), keys[a:b], threads[a:b], info, None if predicate is None else predicate[a:b])
                               for a, b in zip(starts, np.append(starts[1:], C.n))])

    def _vote(self, keys, predicate) -> None:
        fresh = np.unique(keys[self.arrived[keys] == 0])
        self.votes[fresh] = (0, 1, 0)
        np.add.at(self.votes[:, 0], keys, predicate.astype(np.int64))
        np.minimum.at(self.votes[:, 1], keys, predicate.astype(np.int64))
        np.maximum.at(self.votes[:, 2], keys, predicate.astype(np.int64))

    def _complete(self, keys: np.ndarray) -> None:
        M = self.M
        living = M.alive.reshape(M.slots, M.warps).sum(axis=1)[keys // 16]
        needed = np.where(self.needed[keys] == 0, living, self.needed[keys])
        done = keys[(self.arrived[keys] >= needed) & (self.arrived[keys] > 0)]
        if len(done):
            M.tell.named_completed(done)
            self.result[done] = self.votes[done]
            self.arrived[done] = 0
            self.generation[done] += 1
            self.flipped = True

    def threads_left(self, slots: np.ndarray) -> None:
        """Threads of these CTAs exited: barriers that wait for the whole CTA may complete."""
        keys = (slots[:, None] * 16 + np.arange(16)).reshape(-1)
        self._complete(keys[(self.arrived[keys] > 0) & (self.needed[keys] == 0)])

    def describe(self, key: int) -> str:
        """State of a barrier for a learner."""
        M = self.M
        needed = int(self.needed[key]) or int(M.alive.reshape(M.slots, M.warps)[key // 16].sum())
        return f"bar.sync {key % 16}: {int(self.arrived[key])} of {needed} threads have arrived"
