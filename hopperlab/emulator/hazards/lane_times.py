# SPDX-License-Identifier: Apache-2.0
"""Times of single lanes of a warp, where what is known of some lanes is newer than what is known of the whole warp.

Such a set of 32 times is one number, a code: 0 for none, time << 5 | lane for one lane (the usual case: a lane that was elected), and -k for row k of a
table here where there are several. clocks.py keeps a code beside each time of a whole warp; only lanes that publish or learn apart from their warp make any.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

LANES = np.arange(32)
FULL = 0xFFFFFFFF


class LaneTimes:
    """holders: functions that give all arrays of codes which outlive an operation, so that rows nobody refers to can be used again."""

    def __init__(self) -> None:
        self.table = np.zeros((64, 32), np.int32)
        self.newest_of = np.zeros(64, np.int32)
        self.count, self.limit = 1, 1 << 14
        self.holders: list[Callable[[], Iterable[np.ndarray]]] = []

    @property
    def several(self) -> bool:
        """Whether there are codes below zero, which np.maximum would lose."""
        return self.count > 1

    # --- codes and what they mean -----------------------------------------------------------------------------------
    def codes(self, times: np.ndarray) -> np.ndarray:
        """The codes of (n, 32) times (0: nothing is known of a lane)."""
        there = times > 0
        counts = there.sum(axis=1)
        lane = there.argmax(axis=1)
        out = np.where(counts == 1, times[np.arange(len(times)), lane] << 5 | lane, 0).astype(np.int32)
        many = np.flatnonzero(counts > 1)
        if len(many):
            out[many] = -self._keep(times[many])
        return out

    def _keep(self, times: np.ndarray) -> np.ndarray:
        first, end = self.count, self.count + len(times)
        if end > len(self.table):
            more = max(end, 2 * len(self.table)) - len(self.table)
            self.table = np.concatenate([self.table, np.zeros((more, 32), np.int32)])
            self.newest_of = np.concatenate([self.newest_of, np.zeros(more, np.int32)])
        self.table[first:end], self.newest_of[first:end] = times, times.max(axis=1)
        self.count = end
        return np.arange(first, end)

    def of_lanes(self, mask: np.ndarray, time: np.ndarray) -> np.ndarray:
        """Codes of one time for the lanes of each mask, (n,) and (n,)."""
        return self.codes(np.where(mask[:, None] >> LANES & 1, time[:, None], 0))

    def times(self, codes: np.ndarray) -> np.ndarray:
        """(n, 32) times of (n,) codes."""
        out: np.ndarray = self.table[np.maximum(-codes, 0)]
        one = (codes > 0).nonzero()[0]
        out[one, codes[one] & 31] = codes[one] >> 5
        return out

    def newest(self, codes: np.ndarray) -> np.ndarray:
        """The newest time of any lane, for codes of any shape."""
        out: np.ndarray = np.maximum(codes, 0) >> 5
        if self.several:
            out = np.where(codes < 0, self.newest_of[np.maximum(-codes, 0)], out)
        return out

    def reach(self, codes: np.ndarray, lane: np.ndarray | int, time: np.ndarray | int) -> np.ndarray:
        """True where a code says that `lane` is known up to `time` or later."""
        ok: np.ndarray = (codes >> 5 >= time) & (codes & 31 == lane)
        if self.several:
            many = codes < 0
            if many.any():
                ok = np.where(many, self.table[np.maximum(-codes, 0), lane] >= time, ok)
        return ok

    # --- both ---------------------------------------------------------------------------------------------------------
    def join(self, one: np.ndarray, other: np.ndarray, whole: np.ndarray) -> np.ndarray:
        """Codes of the later of two times, lane by lane; whole: up to when all lanes are known, so that older codes say nothing."""
        if not self.several:
            latest: np.ndarray = np.maximum(one, other)
            if not self.clash(one, other):
                return latest
        out: np.ndarray = np.where(one == 0, other, one)
        differ = (one != other) & (one != 0) & (other != 0)
        if differ.any():
            out[differ] = self._merge(one[differ], other[differ], whole[differ])
        return out

    @staticmethod
    def clash(one: np.ndarray, other: np.ndarray) -> bool:
        """Whether times of different lanes meet anywhere (codes of single lanes); if not, np.maximum is right."""
        apart = (one ^ other) & 31
        return bool(np.count_nonzero(apart)) and bool(np.count_nonzero((apart != 0) & (one != 0) & (other != 0)))

    def _merge(self, one: np.ndarray, other: np.ndarray, whole: np.ndarray) -> np.ndarray:
        out: np.ndarray = np.maximum(one, other)        # right where both are the same single lane's
        apart = ((one < 0) | (other < 0) | ((one ^ other) & 31 != 0)).nonzero()[0]
        if len(apart):
            one, other, whole = one[apart], other[apart], whole[apart]
            mixed = np.where(self.newest(one) <= whole, other, one)
            rest = ((mixed == one) & (self.newest(other) > whole)).nonzero()[0]
            if len(rest):
                a, b = self.times(one[rest]), self.times(other[rest])
                both = np.maximum(a, b)
                made = np.where((both == a).all(axis=1), one[rest], other[rest])
                new = ((both != a).any(axis=1) & (both != b).any(axis=1)).nonzero()[0]
                if len(new):
                    made[new] = self.codes(both[new])
                mixed[rest] = made
            out[apart] = mixed
        return out

    # --- reuse ------------------------------------------------------------------------------------------------------
    def tidy(self) -> None:
        """Forget rows that no holder refers to, once there are many. Only where no codes are under way."""
        if self.count <= self.limit:
            return
        arrays: list[Any] = [codes for holder in self.holders for codes in holder()]
        used = np.unique(np.concatenate([np.zeros(1, np.int64), *(-codes[codes < 0] for codes in arrays)]))
        place = np.zeros(self.count, np.int64)
        place[used] = np.arange(len(used))
        for codes in arrays:
            many = codes < 0
            if many.any():
                codes[many] = -place[-codes[many]]
        self.table[:len(used)], self.newest_of[:len(used)] = self.table[used], self.newest_of[used]
        self.count, self.limit = len(used), max(self.limit, 2 * len(used))
