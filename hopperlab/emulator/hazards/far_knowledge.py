# SPDX-License-Identifier: Apache-2.0
"""What threads know of other clusters: each synchronising read that learned something is an event of its warp, and whoever is ordered
after that event inside the cluster knows it too. global_order.py asks.
"""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .clocks import V, X

if TYPE_CHECKING:
    from .clocks import Clocks, Planes

    Known = dict[int, np.ndarray]        # serial of a cluster: (planes for lanes, columns) of clocks.py

WHOLE_WARP = -1


@dataclass
class Learned:
    """An acquire by lane `lane` (or all lanes) of warp `warp` at its epoch, or a proxy fence after which what is known is for the async proxy too."""

    warp: int
    lane: int
    epoch: int
    known: Known


class FarKnowledge:
    """Acquires of every cluster (domain), oldest first; what one thread learned later includes what it learned before."""

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.events: dict[int, list[Learned]] = {}
        clocks.lanes.holders.append(self._codes)

    def _codes(self) -> Iterable[np.ndarray]:
        for events in self.events.values():
            yield from codes_of(self.clocks, (e.known for e in events))

    def forget(self, domain: int) -> None:
        """A new cluster knows nothing."""
        self.events.pop(domain, None)

    def learn(self, domain: int, warp: int, lane: int, known: Known) -> None:
        """A thread (or whole warp) of global number `warp` acquires what was published somewhere."""
        events = self.events.setdefault(domain, [])
        last = next((e for e in reversed(events) if e.warp == warp and e.lane == lane), None)
        if last is not None and all(s in last.known and self._covers(last.known[s], v) for s, v in known.items()):
            return
        both = {} if last is None else {s: v.copy() for s, v in last.known.items()}
        merge_known(self.clocks, both, known)
        events.append(Learned(warp, lane, int(self.clocks.epoch[warp]), both))

    def _covers(self, old: np.ndarray, new: np.ndarray) -> bool:
        width = new.shape[1]
        return old.shape[1] >= width and bool((self.clocks.join(old[:, :width], new) == old[:, :width]).all())

    def of_vector(self, domain: int, warp: int, vec: np.ndarray) -> Known:
        """{serial: (planes, columns)}: what is known to a thread of `warp` that has published `vec` (planes, columns)."""
        found: Known = {}
        lanes = self.clocks.lanes
        for e in self.events.get(domain, ()):
            column = e.warp % self.clocks.warps
            known = vec[V, column] >= e.epoch or e.warp == warp and e.lane == WHOLE_WARP
            if not known and vec[X, column]:
                code = vec[X, column:column + 1]
                known = bool((lanes.newest(code) >= e.epoch if e.lane == WHOLE_WARP else lanes.reach(code, e.lane, e.epoch)).all())
            if known:
                merge_known(self.clocks, found, e.known)
        return found

    def covers(self, gids: np.ndarray, domain: int, serial: int, column: np.ndarray, lane: np.ndarray, epoch: np.ndarray, planes: Planes) -> np.ndarray:
        """True where threads `gids` of a cluster know of accesses (column, lane, epoch) of the cluster `serial`."""
        clocks, ok = self.clocks, np.zeros(len(gids), bool)
        for e in reversed(self.events.get(domain, ())):
            vec = e.known.get(serial)
            if vec is None:
                continue
            hit = ~ok & clocks.ordered(vec[None], np.zeros(len(gids), np.int64), np.minimum(column, vec.shape[1] - 1), lane, epoch, planes=planes)
            if hit.any():
                mine = (gids >> 5 == e.warp) & ((gids & 31 == e.lane) | (e.lane == WHOLE_WARP))
                row, own = clocks.row_of[gids], e.warp % clocks.warps
                after = clocks.K[row, V, own] >= e.epoch
                codes = clocks.K[row, X, own]
                after |= clocks.lanes.newest(codes) >= e.epoch if e.lane == WHOLE_WARP else clocks.lanes.reach(codes, e.lane, e.epoch)
                ok |= hit & (mine | after)
                if ok.all():
                    break
        return ok

    def fenced(self, domain: int, warp: int, lanes: list[int], vec: np.ndarray) -> None:
        """A proxy fence by lanes of `warp`, which have published `vec`: what they know of others is for the async proxy too."""
        if domain not in self.events or self.clocks.fenced_global is None:
            return
        whole, codes = self.clocks.fenced_global
        known = self.of_vector(domain, warp, vec)
        for table in known.values():
            table[whole] = np.maximum(table[whole], table[V])
            table[codes] = self.clocks.lanes.join(table[codes], table[X], table[whole])
        for lane in lanes if known else ():
            self.learn(domain, warp, lane, known)


def merge_known(clocks: Clocks, into: Known, known: Known) -> None:
    """Join {serial: (planes, columns)}; tables may differ in width."""
    for serial, vec in known.items():
        old = into.get(serial)
        if old is None:
            into[serial] = vec.copy()
            continue
        if old.shape != vec.shape:
            width = max(old.shape[1], vec.shape[1])
            old, vec = (np.pad(table, [(0, 0), (0, width - table.shape[1])]) for table in (old, vec))
        into[serial] = clocks.join(old, vec)


def codes_of(clocks: Clocks, tables: Iterable[Known]) -> Iterable[np.ndarray]:
    """The codes of lanes (lane_times.py) in {serial: (planes, columns)} tables."""
    for known in tables:
        for vec in known.values():
            for plane in clocks.lane_planes:
                yield vec[plane]
