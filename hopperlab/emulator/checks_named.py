"""What can be wrong with a named barrier: counts that differ, threads that had ended, torn warps, arrivals that nobody takes.

Called by named.py only. PTX ISA 9.7.13.1 (bar, barrier).
"""
from __future__ import annotations

import numpy as np

from . import reports_misuse as reports


class NamedChecks:
    """Per barrier (key = slot * 16 + id): the instruction that arrived last, and arrivals by parts of warps."""

    def __init__(self, machine, size: int):
        self.M = machine
        self.site = np.zeros(size, np.int64)
        self.partial: dict[int, list] = {}

    def _living(self, keys: np.ndarray) -> np.ndarray:
        M = self.M
        return M.alive.reshape(M.slots, M.warps).sum(axis=1)[keys // 16]

    def arriving(self, C, keys: np.ndarray, threads: np.ndarray, info) -> None:
        """All who meet in one generation name the same count, a multiple of 32; .aligned needs whole warps."""
        M = self.M
        odd = np.flatnonzero(threads % 32)
        if len(odd):
            reports.odd_count(M, info.index, int(C.gids[odd[0]]), int(threads[odd[0]]))
        named, living = M.named, self._living(keys)
        mine, theirs = np.where(threads == 0, living, threads), np.where(named.needed[keys] == 0, living, named.needed[keys])
        clash = np.flatnonzero((named.arrived[keys] > 0) & (mine != theirs))
        if len(clash):
            k = int(clash[0])
            reports.thread_counts(M, info.index, int(self.site[keys[k]]), int(C.gids[k]), int(keys[k]), int(threads[k]),
                                  int(named.needed[keys[k]]))
        if info.aligned and not M.whole(C):
            for key in np.unique(keys).tolist():
                self.partial.setdefault(key, []).append((C.gids[keys == key], info.index))
        self.site[keys] = info.index

    def completing(self, done: np.ndarray) -> None:
        """Generations complete: nobody whom they wait for had ended, and no warp arrived in parts at different places."""
        M = self.M
        living = self._living(done)
        early = np.flatnonzero((M.named.needed[done] == 0) & (living < M.geometry.threads))
        for k in early[:1].tolist():
            slot = int(done[k]) // 16
            reports.released_by_exit(M, int(self.site[done[k]]), slot * M.T, M.geometry.threads - int(living[k]))
        if self.partial:
            for key in done.tolist():
                self._torn(self.partial.pop(key, ()))

    def cta_ends(self, slots: np.ndarray) -> None:
        """CTAs end: nobody has arrived at a barrier that did not complete (who waits cannot end, so it was bar.arrive)."""
        left = self.M.named.arrived.reshape(-1, 16)[slots]
        for k, barrier in np.argwhere(left > 0).tolist():
            key = int(slots[k]) * 16 + barrier
            reports.arrival_not_taken(self.M, int(self.site[key]), int(slots[k]) * self.M.T, barrier, int(left[k, barrier]), int(self.M.named.needed[key]))

    def _torn(self, parts) -> None:
        M = self.M
        for warp in np.unique(np.concatenate([g >> 5 for g, _ in parts])).tolist() if parts else ():
            mine = [(g[g >> 5 == warp], site) for g, site in parts if (g >> 5 == warp).any()]
            sites = sorted({site for _, site in mine})
            lanes = sum(len(g) for g, _ in mine)
            gid = int(mine[0][0][0])
            if len(sites) > 1:
                reports.divergent(M, sites[0], sites[1], gid, "parts of one warp arrive at different places")
            elif lanes < int(M.alive[warp]):
                reports.divergent(M, sites[0], None, gid, f"only {lanes} of {int(M.alive[warp])} lanes of the warp come here")
