# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with a named barrier: counts that differ, threads that had ended, torn warps, arrivals that nobody takes.

sync_order.py asks. PTX ISA 9.7.13.1 (bar, barrier).
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import findings_barriers
from .findings import divergent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..machine.cohort import Cohort
    from ..machine.units import Units
    from .clocks import Clocks
    from .findings import Watched


class NamedChecks:
    """Per barrier (key = slot * 16 + id): the instruction that arrived last, and arrivals by parts of warps. By warp of its CTA: at which of their epochs warps
    arrived in the running generation and in the one before, and by which instructions."""

    def __init__(self, machine: Watched, clocks: Clocks, size: int) -> None:
        self.M, self.clocks = machine, clocks
        self.site = np.zeros(size, np.int64)
        self.partial: dict[int, list[tuple[np.ndarray, int]]] = {}
        self.now, self.before, self.sites = (np.zeros((size, machine.warps), np.int64) for _ in range(3))
        self.arrives = any(i.op in ("bar", "barrier") and "arrive" in i.mods and "cluster" not in i.mods for i in machine.body)
        self.counted = np.zeros(size, bool)            # barriers whose generations may be of some warps only
        meets = [i for i in machine.body if i.op in ("bar", "barrier") and not {"cluster", "warp"}.intersection(i.mods)]
        self.votes = np.array([i.op in ("bar", "barrier") and "red" in i.mods for i in machine.body], bool)
        self.mixes = 0 < int(self.votes.sum()) < len(meets)

    def reset_slots(self, slots: np.ndarray) -> None:
        """New CTAs have met nowhere."""
        for table in (self.now, self.before):
            table.reshape(-1, 16, self.M.warps)[slots] = 0

    def _living(self, keys: np.ndarray) -> np.ndarray:
        M = self.M
        living: np.ndarray = M.alive.reshape(M.slots, M.warps).sum(axis=1)[keys // 16]
        return living

    def arriving(self, C: Cohort, keys: np.ndarray, threads: np.ndarray, info: Any) -> None:
        """All who meet in one generation name the same count, a multiple of 32; .aligned needs whole warps."""
        M = self.M
        odd = np.flatnonzero(threads % 32)
        if len(odd):
            findings_barriers.odd_count(M, info.index, int(C.gids[odd[0]]), int(threads[odd[0]]))
        named, living = M.named, self._living(keys)
        mine, theirs = np.where(threads == 0, living, threads), np.where(named.needed[keys] == 0, living, named.needed[keys])
        clash = np.flatnonzero((named.arrived[keys] > 0) & (mine != theirs))
        if len(clash):
            k = int(clash[0])
            findings_barriers.thread_counts(M, info.index, int(self.site[keys[k]]), int(C.gids[k]), int(keys[k]), int(threads[k]),
                                  int(named.needed[keys[k]]))
        if self.mixes:
            self._one_form(C, keys, info.index)
        if threads.min() != threads.max():
            self._one_count(C, keys, mine, info.index)
        if info.aligned and not M.whole(C):
            for key in np.unique(keys).tolist():
                self.partial.setdefault(key, []).append((C.gids[keys == key], info.index))
        self.site[keys] = info.index

    def _one_form(self, C: Cohort, keys: np.ndarray, index: int) -> None:
        """bar.red is not to be mixed with bar.sync or bar.arrive at one active barrier (PTX ISA 9.7.13.1)."""
        other = np.flatnonzero((self.M.named.arrived[keys] > 0) & (self.votes[self.site[keys]] != self.votes[index]))
        for k in other[:1].tolist():
            findings_barriers.red_beside_sync(self.M, index, int(self.site[keys[k]]), int(C.gids[k]), int(keys[k]))

    def _one_count(self, C: Cohort, keys: np.ndarray, counts: np.ndarray, index: int) -> None:
        """Warps that come together: all who name a barrier name one count."""
        _, first, which = np.unique(keys, return_index=True, return_inverse=True)
        other = np.flatnonzero(counts != counts[first][which])
        if len(other):
            k = int(other[0])
            findings_barriers.thread_counts(self.M, index, index, int(C.gids[k]), int(keys[k]), int(counts[k]), int(counts[first][which][k]))

    def taking_turns(self, C: Cohort, units: Units, mine: np.ndarray, known: np.ndarray, threads: int, index: int) -> None:
        """Who arrives in one generation comes after all who arrived in the one before, or it might have taken their place there. mine: the barrier of each unit;
        known: what has happened before them, by warp of their cluster. Barriers of the whole CTA need no question: all come to all of their generations."""
        M = self.M
        if not self.arrives and not self.counted[mine].any():
            some: np.ndarray = self._living(mine) != threads
            if not threads or not some.any():
                return
            self.counted[mine[some]] = True
        own, at, first = units.gw % M.warps, np.arange(len(mine)), units.gw % self.clocks.warps // M.warps * M.warps
        known = known[at[:, None], first[:, None] + np.arange(M.warps)]
        known[at, own] = np.iinfo(known.dtype).max
        late = self.before[mine] > known
        for k in np.flatnonzero(late.any(axis=1))[:1].tolist():
            other = int(np.argmax(late[k]))
            findings_barriers.barrier_shared(M, index, int(self.sites[mine[k], other]), int(C.gids[units.starts[k]]), int(mine[k]), other)
        self.now[mine, own] = self.clocks.epoch[units.gw] - 1
        self.sites[mine, own] = index

    def completing(self, done: np.ndarray) -> None:
        """Generations complete: nobody whom they wait for had ended, and no warp arrived in parts at different places."""
        M = self.M
        self.before[done], self.now[done] = self.now[done], 0
        living = self._living(done)
        early = np.flatnonzero((M.named.needed[done] == 0) & (living < M.geometry.threads))
        for k in early[:1].tolist():
            slot = int(done[k]) // 16
            findings_barriers.released_by_exit(M, int(self.site[done[k]]), slot * M.T, M.geometry.threads - int(living[k]))
        if self.partial:
            for key in done.tolist():
                self._torn(self.partial.pop(key, ()))

    def cta_ends(self, slots: np.ndarray) -> None:
        """CTAs end: nobody has arrived at a barrier that did not complete (who waits cannot end, so it was bar.arrive)."""
        left = self.M.named.arrived.reshape(-1, 16)[slots]
        for k, barrier in np.argwhere(left > 0).tolist():
            key = int(slots[k]) * 16 + barrier
            findings_barriers.arrival_not_taken(self.M, int(self.site[key]), int(slots[k]) * self.M.T, barrier, int(left[k, barrier]), int(self.M.named.needed[key]))

    def _torn(self, parts: Sequence[tuple[np.ndarray, int]]) -> None:
        M = self.M
        for warp in np.unique(np.concatenate([g >> 5 for g, _ in parts])).tolist() if parts else ():
            mine = [(g[g >> 5 == warp], site) for g, site in parts if (g >> 5 == warp).any()]
            sites = sorted({site for _, site in mine})
            lanes = sum(len(g) for g, _ in mine)
            gid = int(mine[0][0][0])
            if len(sites) > 1:
                divergent(M, "torn-warp", sites[0], sites[1], gid)
            elif lanes < int(M.alive[warp]):
                divergent(M, "part-of-a-warp", sites[0], None, gid, count=lanes, living=int(M.alive[warp]))
