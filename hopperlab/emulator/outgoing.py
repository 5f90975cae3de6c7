"""Copies between CTAs of a cluster that still read their source: it may not change before the copy has completed, which only the
mbarrier of the destination's CTA tells. shadow.py asks at every write, landing.py when a CTA ends."""
from __future__ import annotations

import numpy as np

from . import reports


class Outgoing:
    """Of every slot: (first byte, end, instruction, thread) -> (column of the barrier, phase that the copy completes)."""

    def __init__(self, machine, stride: int):
        self.M, self.stride = machine, stride
        self.copies: dict[int, dict[tuple, tuple]] = {}

    def reset(self, slot: int) -> None:
        """A new CTA has sent nothing."""
        self.copies.pop(slot, None)

    def sends(self, gid: int, first: int, nbytes: int, barrier: int, site: int) -> None:
        """Thread `gid` starts a copy of bytes from `first` (position in M.smem) that completes on `barrier`."""
        column, phase = self.M.clocks.barrier_column(barrier), int(self.M.barriers.phase[barrier]) + 1
        self.copies.setdefault(first // self.stride, {})[first, first + nbytes, site, gid] = (int(column), phase)

    def written(self, gids: np.ndarray, flat: np.ndarray, nbytes: int, site: int, verb: str) -> None:
        """Lanes write `nbytes` at `flat`."""
        clocks = self.M.clocks
        for slot in np.unique(flat // self.stride).tolist():
            for (first, end, other, _), (column, phase) in self.copies.get(slot, {}).items():
                hit = np.flatnonzero((flat < end) & (flat + nbytes > first))
                if len(hit):
                    ok = clocks.ordered(clocks.K, clocks.row_of[gids[hit]], column, 0, phase)
                    for k in hit[~ok][:1].tolist():
                        self.M.report_pair(verb, site, "read", other, column, int(gids[k]), int(flat[k]))

    def cta_ends(self, slots: np.ndarray) -> None:
        """CTAs end: some thread of each knows that all copies from it are over."""
        M, clocks = self.M, self.M.clocks
        for slot in slots.tolist():
            gw = slot * M.warps + np.arange(M.warps)
            rows = clocks.primary(gw)
            known = clocks.past(np.concatenate([rows, rows + clocks.warps])).max(axis=0)
            for (_, _, site, gid), (column, phase) in self.copies.pop(slot, {}).items():
                if known[column] < phase:
                    reports.exit_in_flight(M, site, gid, "still reads its shared memory for another CTA")
