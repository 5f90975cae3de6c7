# SPDX-License-Identifier: Apache-2.0
"""Threads that stand at the same instruction, and their registers.

A Cohort is a sorted set of threads (of one warp, of many warps, of many CTAs) that run together in one vector operation.
Its Frame holds one NumPy array (or one scalar, when the value is uniform) a register. A split makes children that fetch
from their parent's frame only what they touch; when all of a parent's threads meet again the parent's arrays are simply
reused. Nothing here knows an instruction.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..isa.value import Value

NOBODY = np.zeros(0, np.int64)
MAX_DEPTH = 3          # frames deeper than this are materialised when they split again


class Frame:
    """Registers of a cohort: `R[slot]` is None (dead or not fetched), a scalar, an (n,) array or a lane-aligned object."""

    __slots__ = ("R", "n", "base", "index", "dirty", "depth")

    def __init__(self, slots: int, n: int, base: "Frame | None" = None, index=None):
        self.R = [None] * slots
        self.n = n
        self.base, self.index = base, index
        self.dirty: set[int] | None = set() if base is not None else None
        self.depth = 0 if base is None else base.depth + 1

    def get(self, slot: int) -> Value:
        """The value of a register, fetched from the parent frame if need be (None: never written)."""
        value = self.R[slot]
        if value is None and self.base is not None and slot not in self.dirty:
            value = take(self.base.get(slot), self.index)
            self.R[slot] = value
        return value

    def need(self, slots: Iterable[int], zeros: Any) -> None:
        """Make every listed register present in `R`; one that nothing has written reads as its zero in `zeros`, of its own type."""
        R = self.R
        for slot in slots:
            if R[slot] is None:
                value = self.get(slot)
                R[slot] = zeros[slot] if value is None else value

    def detach(self, live: Iterable[int]) -> None:
        """Fetch everything that is live and forget the parent."""
        if self.base is not None:
            for slot in live:
                self.get(slot)
            self.base = self.index = self.dirty = None
            self.depth = 0


def take(value: Value, index: Any) -> Value:
    """Lanes `index` of a register value (scalars stay scalars)."""
    if value is None or not getattr(value, "ndim", 1):
        return value
    return value.take(index)


class Cohort:
    """`gids`: sorted int64 array of thread ids (slot * threads_per_slot + thread); `pc`: block id. `unsynced` is a mark of listeners: these threads
    have touched memory since their warps last met, or some of them have run something alone. Of its loops: `backs`, how often it jumped back; `idle`, how often
    since anything changed (M.progress was `changed_at` then); `waited`, whether it passed an mbarrier's wait since. `digest`: what decides about it
    (recurrence.py), until it runs on. `asked`: mbarriers that a test_wait found incomplete in this turn of its loop."""

    __slots__ = ("gids", "n", "frame", "pc", "resume", "gave_way", "polled", "asked", "backs", "idle", "changed_at", "waited", "digest", "unsynced", "_cache")

    def __init__(self, gids: np.ndarray, frame: Frame, pc: int):
        self.gids, self.n, self.frame, self.pc = gids, len(gids), frame, pc
        self.resume = None
        self.gave_way = -1
        self.polled, self.asked = False, NOBODY
        self.backs = self.idle = 0
        self.changed_at, self.waited, self.digest = -1, False, None
        self.unsynced = True
        self._cache: dict = {}

    def cached(self, name: str, make: Callable[[], Any]) -> Any:
        """Per-cohort memo of something derived from `gids`."""
        value = self._cache.get(name)
        if value is None:
            value = self._cache[name] = make()
        return value

    def whole(self, alive_per_warp: np.ndarray) -> bool:
        """True when, for every warp present, all of its living lanes are in this cohort."""
        flag = self._cache.get("whole")
        if flag is None or flag[0] is not alive_per_warp:
            flag = self._cache["whole"] = (alive_per_warp, self._is_whole(alive_per_warp))
        return flag[1]

    def full32(self) -> bool:
        """True when the cohort is made of complete 32-lane warps."""
        flag = self._cache.get("full32")
        if flag is None:
            flag = False
            if self.n % 32 == 0:
                rows = self.gids.reshape(-1, 32)
                flag = bool(((rows[:, 0] & 31) == 0).all() and (rows[:, 31] - rows[:, 0] == 31).all())
            self._cache["full32"] = flag
        return flag

    def _is_whole(self, alive: np.ndarray) -> bool:
        if self.full32():
            return True
        warps, counts = self.warp_counts()
        return bool((counts == alive[warps]).all())

    def warp_counts(self) -> tuple[np.ndarray, np.ndarray]:
        """Global warp ids present and how many lanes of each are here."""
        if self.full32():
            warps = self.gids[::32] >> 5
            return warps, np.full(len(warps), 32)
        return self.cached("warp_counts", self._count)

    def _count(self) -> tuple[np.ndarray, np.ndarray]:
        warps = self.gids >> 5
        starts = np.concatenate(([0], (warps[1:] != warps[:-1]).nonzero()[0] + 1, [self.n]))
        return warps[starts[:-1]], starts[1:] - starts[:-1]

    def count_warps(self) -> int:
        """How many warps have a lane here."""
        count = self._cache.get("count")
        if count is None:
            count = self._cache["count"] = self.n >> 5 if self.full32() else len(self.warp_counts()[0])
        return count

    def incomplete_lanes(self, alive: np.ndarray) -> np.ndarray:
        """Mask of lanes whose warp is not wholly present."""
        warps, counts = self.warp_counts()
        short = warps[counts != alive[warps]]
        return np.isin(self.gids >> 5, short)

    def layout(self) -> "WarpLayout":
        """The cohort as (warps, 32) for warp-level instructions."""
        return self.cached("layout", lambda: WarpLayout(self))

    def split(self, mask: np.ndarray, pc_true: int, pc_false: int, live_true: Iterable[int], live_false: Iterable[int]) -> tuple[Cohort, Cohort]:
        """Two cohorts, lanes where `mask` holds and the others."""
        index_true = np.flatnonzero(mask)
        index_false = np.flatnonzero(~mask)
        return self.subset(index_true, pc_true, live_true), self.subset(index_false, pc_false, live_false)

    def subset(self, index: np.ndarray, pc: int, live: Iterable[int]) -> "Cohort":
        """Child cohort of the lanes `index`, registers fetched on demand."""
        frame = Frame(len(self.frame.R), len(index), self.frame, index)
        if frame.depth > MAX_DEPTH:
            frame.detach(live)
        child = Cohort(self.gids[index], frame, pc)
        child.asked = self.asked
        child.polled, child.backs, child.idle, child.changed_at, child.waited = self.polled, self.backs, self.idle, self.changed_at, self.waited
        return child


class WarpLayout:
    """Maps lane vectors (n,) of a cohort to (warps, 32) and back."""

    __slots__ = ("warps", "active", "rows", "cols", "n")

    def __init__(self, cohort: Cohort):
        self.n = cohort.n
        if cohort.full32():
            self.warps = cohort.gids[::32] >> 5
            self.active = self.rows = self.cols = None
            return
        self.warps, self.rows = np.unique(cohort.gids >> 5, return_inverse=True)
        self.cols = cohort.gids & 31
        self.active = np.zeros((len(self.warps), 32), bool)
        self.active[self.rows, self.cols] = True

    def expand(self, value: Value, fill: Any = 0) -> np.ndarray:
        """(n,) or scalar -> (warps, 32); absent lanes hold `fill`."""
        if not getattr(value, "ndim", 0):
            return np.full((len(self.warps), 32), value)
        if self.active is None:
            return value.reshape(-1, 32)
        out = np.full((len(self.warps), 32), fill, value.dtype)
        out[self.rows, self.cols] = value
        return out

    def compress(self, value: np.ndarray) -> np.ndarray:
        """(warps, 32) -> (n,)."""
        return value.reshape(-1) if self.active is None else value[self.rows, self.cols]

    def spread(self, per_warp: np.ndarray) -> np.ndarray:
        """One value a warp -> one a lane."""
        return np.repeat(per_warp, 32) if self.active is None else per_warp[self.rows]


def merge(cohorts: list[Cohort], live: Iterable[int]) -> Cohort:
    """One cohort of all lanes; all stand at the same block, whose live-in registers are `live`."""
    if len(cohorts) == 1:
        return cohorts[0]
    base = cohorts[0].frame.base
    if base is not None and all(c.frame.base is base for c in cohorts) and sum(c.n for c in cohorts) == base.n:
        frame, gids = _rejoin(base, cohorts, live)
    else:
        frame, gids = _concatenate(cohorts, live)
    out = Cohort(gids, frame, cohorts[0].pc)
    out.backs = max(c.backs for c in cohorts)
    out.polled = all(c.polled for c in cohorts)
    asked = [c.asked for c in cohorts if c.asked.size]
    out.asked = np.unique(np.concatenate(asked)) if asked else NOBODY
    out.idle, out.changed_at, out.waited = min((c.idle, c.changed_at, c.waited) for c in cohorts)
    return out


def _rejoin(base: Frame, cohorts: list[Cohort], live) -> tuple[Frame, np.ndarray]:
    """All lanes of a parent are here again: its frame serves, with what the children wrote scattered into it."""
    written = set().union(*(c.frame.dirty for c in cohorts))
    places = [c.frame.index for c in cohorts]
    gids = np.empty(base.n, np.int64)
    for c, index in zip(cohorts, places):
        gids[index] = c.gids
    for slot in live:
        if slot in written:
            base.R[slot] = combine([c.frame.get(slot) for c in cohorts], places, base.n)
            if base.dirty is not None:
                base.dirty.add(slot)
    return base, gids


def _concatenate(cohorts: list[Cohort], live) -> tuple[Frame, np.ndarray]:
    gids = np.concatenate([c.gids for c in cohorts])
    order = np.argsort(gids, kind="stable")
    n = len(gids)
    inverse = np.empty(n, np.int64)
    inverse[order] = np.arange(n)
    places, start = [], 0
    for c in cohorts:
        places.append(inverse[start:start + c.n])
        start += c.n
    frame = Frame(len(cohorts[0].frame.R), n)
    for slot in live:
        values = [c.frame.get(slot) for c in cohorts]
        if any(v is not None for v in values):
            frame.R[slot] = combine(values, places, n)
    return frame, gids[order]


def combine(values: list, places: list[np.ndarray], n: int) -> Value:
    """One register value from those of several cohorts whose lanes go to `places`."""
    first = values[0]
    if all(v is first for v in values):
        return first if not getattr(first, "ndim", 0) else _scatter(values, places, n)
    known = [v for v in values if v is not None]
    special = next((v for v in known if hasattr(v, "combine")), None)
    if special is not None:
        return special.combine(values, places, n)
    if all(not v.ndim for v in known) and len(known) == len(values):
        if all(v.dtype == first.dtype and v.tobytes() == first.tobytes() for v in values):
            return first
    return _scatter(values, places, n)


def _scatter(values: list, places: list[np.ndarray], n: int) -> np.ndarray:
    dtype = next(v.dtype for v in values if v is not None)
    out = np.zeros(n, dtype)
    for value, place in zip(values, places):
        if value is not None:
            out[place] = value if value.dtype == dtype else value.view(dtype)
    return out
