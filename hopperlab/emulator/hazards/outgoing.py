# SPDX-License-Identifier: Apache-2.0
"""Copies between CTAs of a cluster that still read their source: it may not change before the copy has completed, which only the
mbarrier of the destination's CTA tells. shared_order.py asks at every write, copy_order.py when a CTA ends."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import findings_barriers, findings_memory

if TYPE_CHECKING:
    from .clocks import Clocks
    from .findings import Watched


class Outgoing:
    """Of every slot: (first byte, end, instruction, thread) -> (column of the barrier, phase that the copy completes)."""

    def __init__(self, machine: Watched, clocks: Clocks, stride: int) -> None:
        self.M, self.clocks, self.stride = machine, clocks, stride
        self.copies: dict[int, dict[tuple[int, int, int, int], tuple[int, int]]] = {}

    def reset(self, slot: int) -> None:
        """A new CTA has sent nothing."""
        self.copies.pop(slot, None)

    def sends(self, gid: int, first: int, nbytes: int, barrier: int, site: int) -> None:
        """Thread `gid` starts a copy of bytes from `first` (position in M.smem) that completes on `barrier`."""
        column, phase = self.clocks.barrier_column(barrier), int(self.M.barriers.phase[barrier]) + 1
        self.copies.setdefault(first // self.stride, {})[first, first + nbytes, site, gid] = (int(column), phase)

    def written(self, gids: np.ndarray, flat: np.ndarray, nbytes: int, site: int, verb: str) -> None:
        """Lanes write `nbytes` at `flat`."""
        clocks = self.clocks
        for slot in np.unique(flat // self.stride).tolist():
            for (first, end, other, _), (column, phase) in self.copies.get(slot, {}).items():
                hit = np.flatnonzero((flat < end) & (flat + nbytes > first))
                if len(hit):
                    ok = clocks.ordered(clocks.K, clocks.row_of[gids[hit]], column, 0, phase)
                    for k in hit[~ok][:1].tolist():
                        findings_memory.unordered(self.M, verb, site, "read", other, column, int(gids[k]), int(flat[k]))

    def cta_ends(self, slots: np.ndarray) -> None:
        """CTAs end: some thread of each knows that all copies from it are over."""
        M, clocks = self.M, self.clocks
        for slot in slots.tolist():
            gw = slot * M.warps + np.arange(M.warps)
            known = clocks.past(clocks.rows.of_warps(gw)).max(axis=0)
            for (_, _, site, gid), (column, phase) in self.copies.pop(slot, {}).items():
                if known[column] < phase:
                    findings_barriers.exit_in_flight(M, site, gid, "copy-out")
