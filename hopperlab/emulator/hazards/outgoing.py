# SPDX-License-Identifier: Apache-2.0
"""Copies that still read their source, which may not change before: between CTAs of a cluster, over when the mbarrier of the destination's CTA says so; and
bulk stores of a thread that those of another thread of its warp have come over, since shared_order.py keeps a warp's latest alone. It asks at every write,
copy_order.py when a CTA ends."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import findings_barriers, findings_memory
from .stamps import LANE_MASK, R_EPOCH, R_LANE, R_SITE_MASK

if TYPE_CHECKING:
    from .clocks import Clocks
    from .findings import Watched


class Outgoing:
    """Of every slot: (first byte, end, instruction, thread) -> (column of the barrier, phase that the copy completes, -1), or (column of the warp's bulk
    groups, group, lane)."""

    def __init__(self, machine: Watched, clocks: Clocks, stride: int) -> None:
        self.M, self.clocks, self.stride = machine, clocks, stride
        self.copies: dict[int, dict[tuple[int, int, int, int], tuple[int, int, int]]] = {}

    def reset(self, slot: int) -> None:
        """A new CTA has sent nothing."""
        self.copies.pop(slot, None)

    def sends(self, gid: int, first: int, nbytes: int, barrier: int, site: int) -> None:
        """Thread `gid` starts a copy of bytes from `first` (position in M.smem) that completes on `barrier`."""
        column, phase = self.clocks.barrier_column(barrier), int(self.M.barriers.age(barrier)) + 1
        self.copies.setdefault(first // self.stride, {})[first, first + nbytes, site, gid] = (int(column), phase, -1)

    def read_over(self, old: np.ndarray, column: int, gid: int, start: int) -> None:
        """A bulk store of thread `gid` reads from byte `start` on, where the stamps `old`, one a granule, say what its warp's read before: of another thread,
        and not over for that one, is kept here."""
        apart = np.flatnonzero((old >> R_LANE & LANE_MASK) != gid & 31)
        for stamp in np.unique(old[apart]).tolist() if old[apart].any() else ():
            lane, group = stamp >> R_LANE & LANE_MASK, stamp >> R_EPOCH
            other = (gid & ~31) + lane
            if stamp and group > self.clocks.bulk_done[other]:
                at = apart[old[apart] == stamp] + (start >> 4)
                first, end = int(at.min()) << 4, int(at.max()) + 1 << 4
                self.copies.setdefault(first // self.stride, {})[first, end, stamp & R_SITE_MASK, other] = (column, group, lane)

    def written(self, gids: np.ndarray, flat: np.ndarray, nbytes: int, site: int, verb: str) -> None:
        """Lanes write `nbytes` at `flat`."""
        clocks = self.clocks
        for slot in np.unique(flat // self.stride).tolist():
            for (first, end, other, _), (column, when, lane) in self.copies.get(slot, {}).items():
                hit = np.flatnonzero((flat < end) & (flat + nbytes > first))
                if len(hit):
                    ok = clocks.ordered(clocks.K, clocks.row_of[gids[hit]], column, max(lane, 0), when)
                    if lane >= 0:
                        ok |= clocks.own_access(gids[hit], *(np.full(len(hit), one) for one in (column, lane, when)))
                    for k in hit[~ok][:1].tolist():
                        findings_memory.unordered(self.M, verb, site, "read", other, column, int(gids[k]), int(flat[k]), *((lane, when) if lane >= 0 else ()))

    def cta_ends(self, slots: np.ndarray) -> None:
        """CTAs end: some thread of each knows that all copies from it are over."""
        M, clocks = self.M, self.clocks
        for slot in slots.tolist():
            gw = slot * M.warps + np.arange(M.warps)
            known = clocks.past(clocks.rows.of_warps(gw)).max(axis=0)
            for (_, _, site, gid), (column, phase, lane) in self.copies.pop(slot, {}).items():
                if lane < 0 and known[column] < phase:
                    findings_barriers.exit_in_flight(M, site, gid, "copy-out")
