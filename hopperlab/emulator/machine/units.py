# SPDX-License-Identifier: Apache-2.0
"""The warps of a cohort: which they are, and whether all their living lanes are present."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .cohort import Cohort


class Units:
    """gw: global warp ids; starts: positions of their first lanes; full: all living lanes are here; single: exactly one of several is; lanes: the
    first lane of each; counts: lanes of each (None: 32). keys, one a lane: a unit is then lanes of one warp with one key, which stand beside each other in the cohort."""

    __slots__ = ("gw", "starts", "full", "all_full", "single", "lanes", "counts")

    def __init__(self, cohort, alive: np.ndarray, keys: np.ndarray | None = None):
        gids = cohort.gids
        if keys is None and cohort.full32():
            self.gw = gids[::32] >> 5
            self.starts = np.arange(0, cohort.n, 32)
            self.full = np.ones(len(self.gw), bool)
            self.counts = counts = None
        else:
            warps = gids >> 5
            new = warps[1:] != warps[:-1]
            if keys is not None:
                new |= keys[1:] != keys[:-1]
            self.starts = np.flatnonzero(np.concatenate(([True], new)))
            self.gw = warps[self.starts]
            self.counts = counts = np.diff(np.append(self.starts, cohort.n))
            self.full = counts == alive[self.gw]
        self.all_full = bool(self.full.all())
        self.single = None if counts is None else (counts == 1) & ~self.full
        self.lanes = gids[self.starts] & 31


def lane_masks(cohort: Cohort, units: Units) -> np.ndarray:
    """A bit for each lane of every unit."""
    masks: np.ndarray = np.bitwise_or.reduceat(np.int64(1) << (cohort.gids & 31), units.starts)
    return masks
