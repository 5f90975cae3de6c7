"""Proxy fences that only some lanes of a warp run: which writes of the warp they cover.

clocks.py and global_shadow.py count in epochs of whole warps. A fence.proxy.async covers what its thread made or knows of, not what another
lane has just written with no __syncwarp between (a proxy fence acts along causality order: PTX ISA, Memory Consistency Model). So for the latest
two runs of fences by parts of each warp, with no other synchronisation inside a run, the lanes that were fenced for are kept.
"""
from __future__ import annotations

import numpy as np

RUNS = 2


class LaneFences:
    """Of every warp, newest run first: it covers writes of epochs in (low, last] for the lanes of `mask` only; `end` is the epoch after it."""

    def __init__(self, warps: int):
        self.tables = np.zeros((4, RUNS, warps), np.int64)
        self.low, self.last, self.end, self.mask = self.tables
        self.any = False

    def reset(self, warps) -> None:
        """New warps, or warps that ran a fence as a whole."""
        self.tables[:, :, warps] = 0

    def ran(self, cohort, units, first: np.ndarray, end: np.ndarray) -> None:
        """The cohort ran a fence; its warps' epochs were `first` before and are `end` after it."""
        gw, part = units.gw, ~units.full
        if self.any and not part.all():
            self.reset(gw[~part])
        if not part.any():
            return
        lanes = np.bitwise_or.reduceat(np.int64(1) << (cohort.gids & 31), units.starts)[part]
        gw, first, end = gw[part], first[part], end[part]
        new = self.end[0, gw] != first
        if new.any():
            fresh = gw[new]
            self.tables[:, 1:, fresh] = self.tables[:, :-1, fresh]
            self.low[0, fresh], self.mask[0, fresh] = first[new] - 1, 0
        self.mask[0, gw] |= lanes
        self.last[0, gw], self.end[0, gw] = end - 1, end
        self.any = True

    def missed(self, gw, lane, epoch, fenced) -> np.ndarray:
        """True where a write (warp, lane, epoch) counts as covered because its warp is fenced up to `fenced`, but other lanes ran that fence."""
        found = np.False_
        for low, last, mask in zip(self.low, self.last, self.mask):
            run = (fenced > low[gw]) & (fenced <= last[gw]) & (epoch > low[gw])
            if run.any():
                found = found | run & (mask[gw] >> lane & 1 == 0)
        return found
