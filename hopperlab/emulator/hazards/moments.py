# SPDX-License-Identifier: Apache-2.0
"""What has happened before each thread's present moment, also by ways that publish no memory: bytes that arrived, products that are over, barriers passed.

By row of lane_rows.py, as what a thread knows in clocks.py: lanes that have learned something apart have a moment of their own until their warp synchronises.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .clocks import V, X

if TYPE_CHECKING:
    from ..machine.cohort import Cohort
    from ..machine.units import Units
    from .clocks import Clocks, Rows

MOMENT = ((V, X),)              # of tables here: a time for whole warps and a code for lanes of each, as V and X of clocks.py


class Moments:
    """past: by row; met: by named barrier, the moments of those who have arrived, and of those whom they completed it for (met_done)."""

    def __init__(self, clocks: Clocks, barriers: int) -> None:
        self.clocks, self.rows = clocks, clocks.rows
        self.past = np.zeros((self.rows.count, 2, clocks.warps), np.int32)
        self.met, self.met_done = (np.zeros((barriers, 2, clocks.warps), np.int32) for _ in range(2))
        clocks.lanes.holders.append(lambda: (table[:, X] for table in (self.past, self.met, self.met_done)))
        self.rows.followers.append(self)

    # --- the rows, as lanes part and meet -------------------------------------------------------------------------------
    def copied(self, rows: np.ndarray, new: np.ndarray) -> None:
        """Lanes of `rows` have rows of their own now, `new`."""
        if len(self.past) < self.rows.count:
            self.past = np.concatenate([self.past, np.zeros((self.rows.count - len(self.past), *self.past.shape[1:]), np.int32)])
        self.past[new] = self.past[rows]

    def joined(self, rows: np.ndarray, others: np.ndarray) -> None:
        """Warps synchronise."""
        self.learn((rows, None), self.past[others])

    def reset(self, rows: np.ndarray) -> None:
        """New warps have no past."""
        self.past[rows] = 0

    def covers(self, row: int, others: np.ndarray) -> bool:
        """Whether nobody in the other rows has a past that the one of `row` lacks."""
        mine = self.past[row]
        return all(bool((self.clocks.join(mine, self.past[other], MOMENT) == mine).all()) for other in others)

    def shared(self, cohort: Cohort, units: Units, rows: Rows) -> None:
        """Some lanes of warps synchronise, and then have these rows."""
        self.learn(rows, self.known(cohort, units))

    def reset_slots(self, slots: int, reused: np.ndarray) -> None:
        """New CTAs: nobody has come to their named barriers."""
        for table in (self.met, self.met_done):
            table.reshape(slots, -1)[reused] = 0

    # --- what is known --------------------------------------------------------------------------------------------------
    def known(self, cohort: Cohort, units: Units) -> np.ndarray:
        """(units, 2, warps): the pasts of the lanes of each unit, together."""
        first = self.rows.of[cohort.gids[units.starts]]
        past: np.ndarray = self.past[first]
        if self.rows.any_apart:
            for which, rows in self.rows.beside(cohort, units, first):
                past[which] = self.clocks.join(past[which], self.past[rows], MOMENT)
        return past

    def of_thread(self, gid: int) -> np.ndarray:
        """(2, warps): of one thread."""
        past: np.ndarray = self.past[self.rows.of[gid]]
        return past

    def newest(self, gw: np.ndarray) -> np.ndarray:
        """(warps,): up to when something of each warp lies before some lane of warps `gw`."""
        known: np.ndarray = self.clocks.newest(self.past[self.rows.of_warps(gw)]).max(axis=0)
        return known

    def learn(self, rows: Rows, past: np.ndarray) -> None:
        """The lanes that have these rows come after `past`, by unit."""
        at, which = rows
        self.past[at] = self.clocks.join(self.past[at], past if which is None else past[which], MOMENT)

    # --- named barriers -------------------------------------------------------------------------------------------------
    def arrive(self, keys: np.ndarray, past: np.ndarray) -> None:
        """Units with such a past arrive at named barriers `keys`."""
        self.clocks.join_at(self.met, keys, past, MOMENT)

    def complete(self, keys: np.ndarray) -> None:
        """All have come to these."""
        self.met_done[keys] = self.clocks.join(self.met_done[keys], self.met[keys], MOMENT)
        self.met[keys] = 0
