"""Named barriers: bar.sync, bar.arrive, bar.red, barrier.* (PTX ISA 9.7.13.1). Sixteen a CTA."""
from __future__ import annotations

import numpy as np

from .checks_named import NamedChecks


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
        self.checks = NamedChecks(machine, size) if machine.session.check else None

    def reset_slots(self, slots: np.ndarray) -> None:
        """New CTAs: nobody has arrived anywhere."""
        for table in (self.arrived, self.needed):
            table.reshape(-1, 16)[slots] = 0

    def arrive(self, C, keys: np.ndarray, threads, info, predicate=None) -> np.ndarray:
        """All lanes arrive at their barrier; returns the generation each joined. threads: 0 for the whole CTA."""
        M = self.M
        self.in_use = True
        units = M.units(C)
        vec = M.clocks.publish(C, units)
        np.maximum.at(M.clocks.named, keys[units.starts], vec)
        joined = self.generation[keys]
        if predicate is not None:
            self._vote(keys, predicate)
        if self.checks is not None:
            self.checks.arriving(C, keys, threads, info)
            self._meet(C, keys)
        np.add.at(self.arrived, keys, 1)
        self.needed[keys] = threads
        self._complete(np.unique(keys))
        M.progress += 1
        return joined

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
            if self.checks is not None:
                self.checks.completing(done)
            clocks = M.clocks
            clocks.named_done[done] = clocks.join(clocks.named_done[done], clocks.named[done])
            clocks.named[done] = 0
            self.result[done] = self.votes[done]
            self.arrived[done] = 0
            self.generation[done] += 1
            self.flipped = True

    def threads_left(self, slots: np.ndarray) -> None:
        """Threads of these CTAs exited: barriers that wait for the whole CTA may complete."""
        keys = (slots[:, None] * 16 + np.arange(16)).reshape(-1)
        self._complete(keys[(self.arrived[keys] > 0) & (self.needed[keys] == 0)])

    def acquire(self, C, keys: np.ndarray) -> None:
        """Lanes leave their barrier: they know what all who arrived had published."""
        M = self.M
        self._meet(C, keys)
        units = M.units(C)
        M.clocks.learn(C, units, M.clocks.named_done[keys[units.starts]])
        C.unsynced = True
        M.synced(C)

    def _meet(self, C, keys: np.ndarray) -> None:
        if self.M.barriers.checks is not None:
            self.M.barriers.checks.meet(C, keys)

    def describe(self, key: int) -> str:
        """State of a barrier for a learner."""
        M = self.M
        needed = int(self.needed[key]) or int(M.alive.reshape(M.slots, M.warps)[key // 16].sum())
        return f"bar.sync {key % 16}: {int(self.arrived[key])} of {needed} threads have arrived"
