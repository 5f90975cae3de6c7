# SPDX-License-Identifier: Apache-2.0
"""What threads know of other clusters: each synchronising read that learned something is an event of its warp, and whoever is ordered
after that event inside the cluster knows it too. global_order.py asks.

A volatile or relaxed read acquires only with a fence after it (PTX ISA 8.8): such an event wants one by its thread, or by one that knows of it (flag_fences.py).
"""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from .clocks import V, X

if TYPE_CHECKING:
    from .clocks import Clocks, Planes

    Known = dict[int, np.ndarray]        # serial of a cluster: (planes for lanes, columns) of clocks.py

WHOLE_WARP = -1
KEPT = 64        # open events of a cluster that are remembered


@dataclass
class Learned:
    """An acquire by lane `lane` (or all lanes) of warp `warp` at its epoch, or a proxy fence after which what is known is for the async proxy too.
    site: the load that wants a fence after it, None where it needs none; fences: (warp, lanes as a mask, epoch) of those that came."""

    warp: int
    lane: int
    epoch: int
    known: Known
    site: int | None = None
    fences: list[tuple[int, int, int]] = field(default_factory=list)


class FarKnowledge:
    """Acquires of every cluster (domain), oldest first; what one thread learned later includes what it learned before."""

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.events: dict[int, list[Learned]] = {}
        self.open: dict[int, list[Learned]] = {}            # the latest that want a fence
        clocks.lanes.holders.append(self._codes)

    def _codes(self) -> Iterable[np.ndarray]:
        for events in self.events.values():
            yield from codes_of(self.clocks, (e.known for e in events))

    def forget(self, domain: int) -> None:
        """A new cluster knows nothing."""
        self.events.pop(domain, None)
        self.open.pop(domain, None)

    def learn(self, domain: int, warp: int, lane: int, known: Known, site: int | None = None) -> None:
        """A thread (or whole warp) of global number `warp` acquires what was published somewhere (site: by a load that wants a fence after it)."""
        events = self.events.setdefault(domain, [])
        last = next((e for e in reversed(events) if e.warp == warp and e.lane == lane), None)
        if last is not None and (site is not None or last.site is None or last.fences) and all(s in last.known and self._covers(last.known[s], v) for s,
                v in known.items()):
            return
        both = {} if last is None else {s: v.copy() for s, v in last.known.items()}
        merge_known(self.clocks, both, known)
        events.append(Learned(warp, lane, int(self.clocks.epoch[warp]), both, site))
        if site is not None:
            left = [e for e in self.open.get(domain, ()) if e is not last or not e.fences]
            self.open[domain] = [*left[-KEPT:], events[-1]]

    def _covers(self, old: np.ndarray, new: np.ndarray) -> bool:
        width = new.shape[1]
        return old.shape[1] >= width and bool((self.clocks.join(old[:, :width], new) == old[:, :width]).all())

    def of_vector(self, domain: int, warp: int, vec: np.ndarray) -> Known:
        """{serial: (planes, columns)}: what is known to a thread of `warp` that has published `vec` (planes, columns)."""
        found: Known = {}
        for e in self.events.get(domain, ()):
            if self._reaches(e, warp, vec):
                merge_known(self.clocks, found, e.known)
        return found

    def _reaches(self, e: Learned, warp: int, vec: np.ndarray) -> bool:
        column, lanes = e.warp % self.clocks.warps, self.clocks.lanes
        if vec[V, column] >= e.epoch or e.warp == warp and e.lane == WHOLE_WARP:
            return True
        code = vec[X, column:column + 1]
        return bool(code[0]) and bool((lanes.newest(code) >= e.epoch if e.lane == WHOLE_WARP else lanes.reach(code, e.lane, e.epoch)).all())

    def fence(self, domain: int, warp: int, lanes: int, vec: np.ndarray) -> None:
        """A fence by lanes (a mask) of `warp`, which have published `vec`: what open events told them is acquired for all who come after this fence."""
        for e in self.open.get(domain, ()):
            if self._reaches(e, warp, vec) and not any(one == warp and ran & lanes == lanes for one, ran, _ in e.fences):
                e.fences.append((warp, lanes, int(self.clocks.epoch[warp]) - 1))

    def unfenced(self, gids: np.ndarray, domain: int, serial: int, column: np.ndarray, lane: np.ndarray, epoch: np.ndarray) -> tuple[np.ndarray, int]:
        """(True where threads know of accesses through loads alone that no fence came after, such a load)."""
        ok, site = self.covers(gids, domain, serial, column, lane, epoch, (V, X)), -1
        if ok.any():
            ok &= ~self.covers(gids, domain, serial, column, lane, epoch, (V, X), strict=True)
        if ok.any():
            site = next(e.site for e in reversed(self.events[domain]) if serial in e.known and e.site is not None)
        return ok, site

    def _after_fence(self, gids: np.ndarray, e: Learned) -> np.ndarray:
        clocks, found = self.clocks, np.zeros(len(gids), bool)
        row = clocks.row_of[gids]
        for warp, lanes, at in e.fences:
            own = warp % clocks.warps
            found |= (gids >> 5 == warp) & (lanes >> (gids & 31) & 1 == 1) | (clocks.K[row, V, own] >= at) | (clocks.lanes.newest(clocks.K[row, X, own]) >= at)
        return found

    def covers(self, gids: np.ndarray, domain: int, serial: int, column: np.ndarray, lane: np.ndarray, epoch: np.ndarray, planes: Planes,
               strict: bool = False) -> np.ndarray:
        """True where threads `gids` of a cluster know of accesses (column, lane, epoch) of the cluster `serial` (strict: with the fences that this wants)."""
        clocks, ok = self.clocks, np.zeros(len(gids), bool)
        for e in reversed(self.events.get(domain, ())):
            vec = e.known.get(serial)
            if vec is None:
                continue
            hit = ~ok & (column < vec.shape[1]) & clocks.ordered(vec[None], np.zeros(len(gids), np.int64), np.minimum(column, vec.shape[1] - 1), lane,
                                                                 epoch, planes=planes)
            if hit.any():
                mine = (gids >> 5 == e.warp) & ((gids & 31 == e.lane) | (e.lane == WHOLE_WARP))
                row, own = clocks.row_of[gids], e.warp % clocks.warps
                after = clocks.K[row, V, own] >= e.epoch
                codes = clocks.K[row, X, own]
                after |= clocks.lanes.newest(codes) >= e.epoch if e.lane == WHOLE_WARP else clocks.lanes.reach(codes, e.lane, e.epoch)
                ok |= hit & (self._after_fence(gids, e) if strict and e.site is not None else mine | after)
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
