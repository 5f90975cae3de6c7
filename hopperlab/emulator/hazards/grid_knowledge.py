# SPDX-License-Identifier: Apache-2.0
"""What threads of one launch know of other launches: what they read at flags, and that the grids in front are over after griddepcontrol.wait.

As in far_knowledge.py each such moment is an event of its warp, and whoever is ordered after it inside the cluster knows it too. What is known of a cluster
is two rows by column of clocks.py: accesses in order before, and those that the async proxy sees; lanes of a warp count together.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .clocks import V, X
from .far_knowledge import WHOLE_WARP, Learned

if TYPE_CHECKING:
    from .clocks import Clocks

    Known = dict[int, np.ndarray]          # by serial of a cluster, or mark of a grid: (2, columns)


def of_vector(clocks: Clocks, vec: np.ndarray) -> np.ndarray:
    """What `vec` (planes, columns), which lanes have published, says of their own cluster."""
    rows = [np.maximum(vec[whole], clocks.lanes.newest(vec[codes])) for whole, codes in ((V, X), *([clocks.fenced_global] if clocks.fenced_global else ()))]
    return np.stack(rows if len(rows) == 2 else [rows[0], np.zeros_like(rows[0])]).astype(np.int64)


def merge(into: Known, known: Known) -> None:
    """Element-wise maximum; tables may differ in width."""
    for serial, table in known.items():
        old = into.get(serial)
        if old is None:
            into[serial] = table.copy()
            continue
        width = max(old.shape[1], table.shape[1])
        into[serial] = np.maximum(*(np.pad(one, [(0, 0), (0, width - one.shape[1])]) for one in (old, table)))


class GridKnowledge:
    """The events of every cluster (domain), oldest first; what one thread learned later includes what it learned before."""

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.events: dict[int, list[Learned]] = {}

    def forget(self, domain: int) -> None:
        """A new cluster knows nothing."""
        self.events.pop(domain, None)

    def learn(self, gids: np.ndarray, alive: np.ndarray, known: Known) -> None:
        """Threads learn something; alive: living lanes by warp."""
        for warp in np.unique(gids >> 5).tolist():
            lanes = np.unique(gids[gids >> 5 == warp] & 31).tolist()
            for lane in [WHOLE_WARP] if len(lanes) >= alive[warp] else lanes:
                self._learn(warp, lane, known)

    def _learn(self, warp: int, lane: int, known: Known) -> None:
        events = self.events.setdefault(warp // self.clocks.warps, [])
        last = next((e for e in reversed(events) if e.warp == warp and e.lane == lane), None)
        both: Known = {} if last is None else dict(last.known)
        merge(both, known)
        if last is None or any(s not in last.known or both[s].shape != last.known[s].shape or (both[s] != last.known[s]).any() for s in both):
            events.append(Learned(warp, lane, int(self.clocks.epoch[warp]), both))

    def of(self, warp: int, vec: np.ndarray) -> Known:
        """What lanes of a warp know that have published `vec`."""
        found: Known = {}
        for e in self.events.get(warp // self.clocks.warps, ()):
            if e.warp == warp and e.lane == WHOLE_WARP or self._after(vec[None], np.zeros(1, np.int64), e).all():
                merge(found, e.known)
        return found

    def _after(self, table: np.ndarray, rows: np.ndarray, e: Learned) -> np.ndarray:
        """True for rows of a table of clocks.py that know of something done after an event: by its lane, or by any lane where all that live learned."""
        clocks, column = self.clocks, e.warp % self.clocks.warps
        if e.lane == WHOLE_WARP:
            found: np.ndarray = (table[rows, V, column] >= e.epoch) | (clocks.lanes.newest(table[rows, X, column]) >= e.epoch)
            return found
        ordered: np.ndarray = clocks.ordered(table, rows, np.full(len(rows), column), e.lane, e.epoch)
        return ordered

    def covers(self, gids: np.ndarray, key: int, column: np.ndarray, epoch: np.ndarray, plane: int) -> np.ndarray:
        """True where threads of one cluster know of accesses (column, epoch) of a cluster, or (0, 1) of a grid's end."""
        clocks, ok = self.clocks, np.zeros(len(gids), bool)
        for e in reversed(self.events.get(int(gids[0] >> 5) // clocks.warps, ())):
            table = e.known.get(key)
            if table is None:
                continue
            hit = ~ok & (column < table.shape[1]) & (table[plane, np.minimum(column, table.shape[1] - 1)] >= epoch)
            if hit.any():
                mine = (gids >> 5 == e.warp) & ((gids & 31 == e.lane) | (e.lane == WHOLE_WARP))
                ok |= hit & (mine | self._after(clocks.K, clocks.row_of[gids], e))
                if ok.all():
                    break
        return ok

    def fenced(self, domain: int) -> None:
        """A proxy fence: what the cluster knows of other grids is for the async proxy too."""
        for e in self.events.get(domain, ()):
            for serial, table in e.known.items():
                e.known[serial] = np.stack([table[0], np.maximum(table[0], table[1])])
