# SPDX-License-Identifier: Apache-2.0
"""Which row of clocks.py holds what a thread knows: one row a warp, and more where lanes have learned something apart from their warp.

Row w is warp w's. Lanes that learn apart move to a copy (the first is row warps + w, further ones come from a pool), which they share as long as they
learn together. A warp-level synchronisation joins the rows again. What a row holds is known to all lanes that have left it, so rows may be joined that nobody uses.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from ..machine.cohort import Cohort
    from ..machine.units import Units


class Follower(Protocol):
    """What is kept by row besides the clocks (moments.py)."""

    def copied(self, rows: np.ndarray, new: np.ndarray) -> None:
        """Lanes of `rows` have rows of their own now, `new`."""

    def joined(self, rows: np.ndarray, others: np.ndarray) -> None:
        """Warps with these rows synchronise."""

    def reset(self, rows: np.ndarray) -> None:
        """New warps have these rows."""

    def covers(self, row: int, others: np.ndarray) -> bool:
        """Whether no other row knows more than `row`."""

    def shared(self, cohort: Cohort, units: Units, rows: tuple[np.ndarray, np.ndarray | None]) -> None:
        """Some lanes of warps synchronise, and have these rows."""


class LaneRows:
    """of: row of every thread; apart: warps of which some lanes have rows of their own; count: rows there are; followers: what else is kept by row."""

    def __init__(self, warps: int) -> None:
        self.warps, self.count = warps, 2 * warps
        self.of = np.repeat(np.arange(warps), 32).astype(np.int32)
        self.apart = np.zeros(warps, bool)
        self.any_apart = False
        self.more: dict[int, list[int]] = {}
        self.free: list[int] = []
        self.followers: list[Follower] = []

    def reset(self, gw: np.ndarray) -> tuple[np.ndarray, ...]:
        """New warps: every lane is with its warp. Returns the rows that are theirs from now on."""
        self.gather(gw)
        for follower in self.followers:
            follower.reset(np.concatenate([gw, gw + self.warps]))
        return gw, gw + self.warps

    def of_warps(self, gw: np.ndarray) -> np.ndarray:
        """All rows that lanes of these warps have."""
        return np.unique(self.of.reshape(-1, 32)[gw])

    def beside(self, cohort: Cohort, units: Units, first: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(units, a row of each): what lanes of a unit know in other rows than that of its first lane, until all have been named."""
        torn = self.apart[units.gw]
        if not torn.any() or cohort.n == len(first):
            return
        counts = np.diff(np.append(units.starts, cohort.n))
        lanes = np.flatnonzero(np.repeat(torn, counts))
        unit, rows = np.repeat(np.arange(len(first)), counts)[lanes], self.of[cohort.gids[lanes]]
        differ = rows != first[unit]
        left = np.unique(unit[differ] * np.int64(self.count) + rows[differ])
        while len(left):
            now = np.unique(left // self.count, return_index=True)[1]
            yield left[now] // self.count, left[now] % self.count
            left = np.delete(left, now)

    def own(self, cohort: Cohort, units: Units) -> tuple[np.ndarray, np.ndarray | None, list[tuple[np.ndarray, np.ndarray]]]:
        """Rows that belong to the lanes of these units alone, the unit of each (None: one after the other), and which rows are copies of which."""
        plain = units.full & ~self.apart[units.gw]
        if plain.all():
            return units.gw, None, []
        unit, lanes = np.arange(len(units.gw)), cohort.gids
        if cohort.n > len(unit):
            counts = np.diff(np.append(units.starts, cohort.n))
            keep = np.flatnonzero(np.repeat(~plain, counts))
            unit, lanes = np.repeat(unit, counts)[keep], lanes[keep]
        key, inverse, here = np.unique(unit * np.int64(self.count) + self.of[lanes], return_inverse=True, return_counts=True)
        unit, row = key // self.count, key % self.count
        gw = units.gw[unit]
        there = self.of.reshape(-1, 32)[gw]
        shared = np.flatnonzero(((there == row[:, None]).sum(axis=1) != here) & ~units.full[unit])
        copies = []
        if len(shared):
            new = self._split(gw[shared], there[shared])
            copies = [(row[shared], new)]
            for follower in self.followers:
                follower.copied(row[shared], new)
            row = row.copy()
            row[shared] = new
            self.of[lanes] = row[inverse]
            self.apart[gw[shared]] = self.any_apart = True
        if plain.any():
            whole = np.flatnonzero(plain)
            row, unit = np.concatenate([units.gw[whole], row]), np.concatenate([whole, unit])
        return row, unit, copies

    def _split(self, gw: np.ndarray, there: np.ndarray) -> np.ndarray:
        """New rows for lanes of warps gw, whose lanes have rows `there` now."""
        new = gw + self.warps
        taken = (there == new[:, None]).any(axis=1)
        taken |= ~np.isin(np.arange(len(gw)), np.unique(gw, return_index=True)[1])
        for k in np.flatnonzero(taken).tolist():
            if not self.free:
                self.free = list(range(self.count, self.count + max(16, self.warps // 4)))
                self.count = self.free[-1] + 1
            new[k] = self.free.pop()
            self.more.setdefault(int(gw[k]), []).append(int(new[k]))
        return new

    def together(self, gw: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(rows of warps, other rows of them) to be joined, of warps whose lanes are together again."""
        torn = gw[self.apart[gw]]
        if len(torn):
            pairs = [(torn, torn + self.warps)]
            for warp in [w for w in torn.tolist() if w in self.more] if self.more else ():
                pairs += [(np.array([warp]), np.array([row])) for row in self.more[warp]]
            for main, others in pairs:
                for follower in self.followers:
                    follower.joined(main, others)
                yield main, others
            self.gather(torn)

    def left(self, gw: np.ndarray, row: int) -> None:
        """All living lanes of warp `gw` have `row`, and the others know no more."""
        for follower in self.followers:
            follower.copied(np.array([row]), gw)
        self.gather(gw)

    def gather(self, gw: np.ndarray) -> None:
        """All lanes of these warps have the warp's row again."""
        if self.more:
            for warp in gw.tolist():
                self.free += self.more.pop(warp, [])
        self.of.reshape(-1, 32)[gw] = gw[:, None]
        self.apart[gw] = False
        self.any_apart = bool(self.apart.any())
