# SPDX-License-Identifier: Apache-2.0
"""Tensor maps in global memory that the kernel itself changes: the copy engine reads them through the tensormap proxy.

The change is released (tensormap.cp_fenceproxy does it, or fence.proxy.tensormap::generic.release by whoever knows of it), and the thread
that issues the copy, or one it has synchronised with since, runs fence.proxy.tensormap::generic.acquire on the map.
reference: PTX ISA 9.7.13.4, 5.5.4; sm90a.md (d).
"""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from . import findings_memory
from .far_knowledge import codes_of, merge_known

if TYPE_CHECKING:
    from ..machine.cohort import Cohort
    from .far_knowledge import Known
    from .global_words import Stamped

WORDS = np.arange(32)


class MapFences:
    """Acquires: map address -> [(thread, epoch of its warp, stamps of the map then)]; releases: cluster -> what they covered."""

    def __init__(self, order: Any) -> None:
        self.order, self.M, self.clocks = weakref.proxy(order), order.M, order.clocks         # whose part this is
        self.acquired: dict[int, dict[int, tuple[int, np.ndarray, np.ndarray]]] = {}
        self.released: Known = {}
        self.clocks.lanes.holders.append(lambda: codes_of(self.clocks, [self.released]))

    def release(self, C: Cohort) -> None:
        """fence.proxy.tensormap::generic.release: what these threads made and know is for the tensormap proxy too."""
        units = self.M.units(C)
        vec = self.clocks.publish(C, units)
        for k, gw in enumerate(units.gw.tolist()):
            merge_known(self.clocks, self.released, self.order._snapshot(gw, vec[k]))

    def acquire(self, C: Cohort, address: np.ndarray) -> None:
        """fence.proxy.tensormap::generic.acquire [address], 128 by every lane."""
        for gid, place in zip(C.gids.tolist(), address.tolist()):
            allocation = self.M.memory.find(int(place))
            words = allocation.stamps if allocation is not None else None
            if words is not None and words.who is not None:
                at = (int(place) - allocation.address >> 2) + WORDS
                self.acquired.setdefault(int(place), {})[gid] = (int(self.clocks.epoch[gid >> 5]), words.who[at], words.when[at])
        self.clocks.publish(C, self.M.units(C))           # what comes later has a newer epoch

    def used(self, gid: int, allocation: Stamped, offset: int, site: int) -> None:
        """Instruction `site` of thread `gid` takes the map at `offset` of an allocation."""
        words = allocation.stamps
        if words is None or words.who is None:
            return
        at = np.minimum((offset >> 2) + WORDS, len(words.who) - 1)
        who, when = words.who[at], words.when[at]
        written = np.flatnonzero(who)
        if not len(written):
            return
        gids = np.full(32, gid)
        ordered = self.order._ordered(gids, who, when, P_needed=False)
        if not ordered.all():
            self.order._report(gids, allocation, who, when, at, ~ordered, site, "async read", "write")
            return
        written = written[~self.order.foreign(who[written])]         # a grid that is over has published all that it changed
        if not len(written):
            return
        for k in written.tolist():
            writer = int(when[k] & 0xFFFFF)
            if not self._released(int(who[k]), int(when[k]), writer):
                findings_memory.map_not_released(self.M, site, writer, gid, allocation, offset)
                return
        if not self._acquired(gid, allocation.address + offset, who, when):
            findings_memory.map_not_acquired(self.M, site, int(when[written[0]] & 0xFFFFF), gid, allocation, offset)

    def _released(self, who: int, when: int, writer: int) -> bool:
        instr = self.M.body[writer]
        if instr.op == "tensormap" and instr.mods[0] == "cp_fenceproxy":
            return True
        known, column = self.released.get(who >> 32), np.array([who >> 16 & 0xFFFF])
        if known is None or column[0] >= known.shape[1]:
            return False
        return bool(self.clocks.ordered(known[None], np.zeros(1, np.int64), column, who >> 8 & 31, when >> 20)[0])

    def _acquired(self, gid: int, address: int, who: np.ndarray, when: np.ndarray) -> bool:
        clocks = self.clocks
        for other, (epoch, then_who, then_when) in self.acquired.get(address, {}).items():
            if (then_who == who).all() and (then_when == when).all():
                row = clocks.row_of[[gid]]
                near = (other >> 5) // clocks.warps == (gid >> 5) // clocks.warps
                column = np.array([(other >> 5) % clocks.warps])
                if other == gid or near and clocks.ordered(clocks.K, row, column, other & 31, epoch).all():
                    return True
        return False
