# SPDX-License-Identifier: Apache-2.0
"""What threads in loops of mbarrier.test_wait ask, for the report of a deadlock: such a loop waits, but nothing that could be parked."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .waits import MbarrierWait

if TYPE_CHECKING:
    from .cohort import Cohort


class Questions:
    """By thread, of its latest test_wait that was answered no: the mbarrier, the parity and the instruction."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._latest: np.ndarray | None = None      # three rows; most kernels never ask

    def answered_no(self, gids: np.ndarray, wait: MbarrierWait) -> None:
        """These threads ask again."""
        if self._latest is None:
            self._latest = np.full((3, self._threads), -1, np.int64)
        for row, value in zip(self._latest, (wait.keys, wait.extra, wait.site)):
            row[gids] = value

    def of(self, C: Cohort) -> MbarrierWait | None:
        """What a loop has asked in this turn, as a wait; None where it asked something else, or its threads at several instructions."""
        if self._latest is None or not C.asked.size:
            return None
        keys, parity, sites = self._latest[:, C.gids]
        one = np.isin(keys, C.asked).all() and (sites == sites[0]).all()
        return MbarrierWait(keys, parity, int(sites[0])) if one else None
