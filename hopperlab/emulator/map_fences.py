"""Tensor maps in global memory that the kernel itself changes: the copy engine reads them through the tensormap proxy.

The change is released (tensormap.cp_fenceproxy does it, or fence.proxy.tensormap::generic.release by whoever knows of it), and the thread
that issues the copy, or one it has synchronised with since, runs fence.proxy.tensormap::generic.acquire on the map.
reference: PTX ISA 9.7.13.4, 5.5.4; sm90a.md (d).
"""
from __future__ import annotations

import numpy as np

from . import reports_memory as reports
from .clocks import V, X

WORDS = np.arange(32)


class MapFences:
    """Acquires: map address -> [(thread, epoch of its warp, stamps of the map then)]; releases: cluster -> what they covered."""

    def __init__(self, shadow):
        self.shadow, self.M, self.clocks = shadow, shadow.M, shadow.clocks
        self.acquired: dict[int, dict[int, tuple]] = {}
        self.released: dict[int, np.ndarray] = {}

    def release(self, C) -> None:
        """fence.proxy.tensormap::generic.release: what these threads made and know is for the tensormap proxy too."""
        M, units = self.M, self.M.units(C)
        vec = self.clocks.publish(C, units)
        known = np.maximum(vec[:, V], vec[:, X] >> 5)
        for k, gw in enumerate(units.gw.tolist()):
            serial = int(self.shadow.serial[gw // self.clocks.warps])
            for cluster, columns in ((serial, known[k]), *((s, v[0]) for s, v in self.shadow.far.of_vector(gw // self.clocks.warps, gw, vec[k]).items())):
                old = self.released.get(cluster)
                wide = max(len(columns), 0 if old is None else len(old))
                both = np.zeros(wide, np.int64)
                both[:len(columns)] = columns
                if old is not None:
                    both[:len(old)] = np.maximum(both[:len(old)], old)
                self.released[cluster] = both
        M.progress += 1

    def acquire(self, C, address: np.ndarray) -> None:
        """fence.proxy.tensormap::generic.acquire [address], 128 by every lane."""
        for gid, place in zip(C.gids.tolist(), address.tolist()):
            allocation = self.M.memory.find(int(place))
            words = allocation.stamps if allocation is not None else None
            if words is not None and words.who is not None:
                at = (int(place) - allocation.address >> 2) + WORDS
                self.acquired.setdefault(int(place), {})[gid] = (int(self.clocks.epoch[gid >> 5]), words.who[at], words.when[at])
        self.clocks.publish(C, self.M.units(C))           # what comes later has a newer epoch

    def used(self, gid: int, allocation, offset: int, site: int) -> None:
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
        ordered = self.shadow._ordered(gids, who, when, P_needed=False)
        if not ordered.all():
            self.shadow._report(gids, allocation, who, when, at, ~ordered, site, "async read", "write")
            return
        for k in written.tolist():
            writer = int(when[k] & 0xFFFFF)
            if not self._released(int(who[k]), int(when[k]), writer):
                reports.map_not_released(self.M, site, writer, gid, allocation, offset)
                return
        if not self._acquired(gid, allocation.address + offset, who, when):
            reports.map_not_acquired(self.M, site, int(when[written[0]] & 0xFFFFF), gid, allocation, offset)

    def _released(self, who: int, when: int, writer: int) -> bool:
        instr = self.M.body[writer]
        if instr.op == "tensormap" and instr.mods[0] == "cp_fenceproxy":
            return True
        known, column = self.released.get(who >> 32), who >> 16 & 0xFFFF
        return known is not None and column < len(known) and bool(known[column] >= when >> 20)

    def _acquired(self, gid: int, address: int, who, when) -> bool:
        clocks = self.clocks
        for other, (epoch, then_who, then_when) in self.acquired.get(address, {}).items():
            if (then_who == who).all() and (then_when == when).all():
                row = clocks.row_of[[gid]]
                near = (other >> 5) // clocks.warps == (gid >> 5) // clocks.warps
                column = np.array([(other >> 5) % clocks.warps])
                if other == gid or near and clocks.ordered(clocks.K, row, column, other & 31, epoch).all():
                    return True
        return False
