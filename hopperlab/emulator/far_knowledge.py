"""What threads know of other clusters: each synchronising read that learned something is an event of its warp, and whoever is ordered
after that event inside the cluster knows it too. global_shadow.py asks.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .clocks import V, X

WHOLE_WARP = -1


@dataclass
class Learned:
    """An acquire by lane `lane` (or all lanes) of warp `warp` at its epoch. known: {serial of a cluster: (2, columns) V and P}."""

    warp: int
    lane: int
    epoch: int
    known: dict[int, np.ndarray]


class FarKnowledge:
    """Acquires of every cluster (domain), oldest first; what one thread learned later includes what it learned before."""

    def __init__(self, clocks):
        self.clocks = clocks
        self.events: dict[int, list[Learned]] = {}

    def forget(self, domain: int) -> None:
        """A new cluster knows nothing."""
        self.events.pop(domain, None)

    def learn(self, domain: int, warp: int, lane: int, known: dict) -> None:
        """A thread (or whole warp) of global number `warp` acquires what was published somewhere."""
        events = self.events.setdefault(domain, [])
        last = next((e for e in reversed(events) if e.warp == warp and e.lane == lane), None)
        if last is not None and all(s in last.known and _covers(last.known[s], v) for s, v in known.items()):
            return
        both = {} if last is None else {s: v.copy() for s, v in last.known.items()}
        merge_known(both, known)
        events.append(Learned(warp, lane, int(self.clocks.epoch[warp]), both))

    def of_vector(self, domain: int, warp: int, vec: np.ndarray) -> dict:
        """{serial: (2, columns)}: what is known to a thread of `warp` that has published `vec` (planes, columns)."""
        found: dict[int, np.ndarray] = {}
        for e in self.events.get(domain, ()):
            column = e.warp % self.clocks.warps
            single = int(vec[X, column])
            if vec[V, column] >= e.epoch or single >> 5 >= e.epoch and e.lane in (WHOLE_WARP, single & 31) or e.warp == warp and e.lane == WHOLE_WARP:
                merge_known(found, e.known)
        return found

    def covers(self, gids: np.ndarray, domain: int, serial: int, column, epoch, plane: int) -> np.ndarray:
        """True where threads `gids` of a cluster know of accesses (column, epoch) of the cluster `serial`."""
        clocks, ok = self.clocks, np.zeros(len(gids), bool)
        for e in reversed(self.events.get(domain, ())):
            vec = e.known.get(serial)
            if vec is None:
                continue
            hit = ~ok & (vec[plane, np.minimum(column, vec.shape[1] - 1)] >= epoch)
            if hit.any():
                mine = (gids >> 5 == e.warp) & ((gids & 31 == e.lane) | (e.lane == WHOLE_WARP))
                at = np.full(len(gids), e.warp % clocks.warps)
                ok |= hit & (mine | clocks.ordered(clocks.K, clocks.row_of[gids], at, max(e.lane, 0), e.epoch))
                if ok.all():
                    break
        return ok

    def fenced(self, domain: int) -> None:
        """A proxy fence: what the cluster knows of others is for the async proxy too."""
        for e in self.events.get(domain, ()):
            for known in e.known.values():
                known[1] = np.maximum(known[1], known[0])


def _covers(old: np.ndarray, new: np.ndarray) -> bool:
    width = new.shape[1]
    return old.shape[1] >= width and bool((old[:, :width] >= new).all())


def merge_known(into: dict, known: dict) -> None:
    """Element-wise maximum of {serial: (2, columns)}; tables may differ in width."""
    for serial, vec in known.items():
        old = into.get(serial)
        if old is None:
            into[serial] = vec.copy()
        elif old.shape == vec.shape:
            np.maximum(old, vec, out=old)
        else:
            width = max(old.shape[1], vec.shape[1])
            both = np.zeros((2, width), np.int64)
            both[:, :old.shape[1]] = old
            both[:, :vec.shape[1]] = np.maximum(both[:, :vec.shape[1]], vec)
            into[serial] = both
