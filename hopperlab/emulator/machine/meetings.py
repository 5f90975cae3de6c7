# SPDX-License-Identifier: Apache-2.0
"""Where the four warps of a warpgroup meet: at the first wgmma.mma_async of a run.

Measured on an H200: wgmma.fence lets a warp through alone, the first wgmma.mma_async after it holds the warp until all four
warps of the warpgroup have come to theirs (tests/gpu/test_wgmma_meeting.py). It orders no memory.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .waits import Wait

if TYPE_CHECKING:
    from .cohort import Cohort


class Meetings:
    """How far each warp has come (the number of the wgmma before which it stands), and how far warpgroups have met."""

    def __init__(self, M):
        self.M = M
        self.at = np.zeros(M.slots * M.warps, np.int64)
        self.met = np.zeros(M.slots * M.warps, np.int64)        # by warp, so that both tables reset alike
        self.complete: list[np.ndarray] = []

    def reset_slots(self, slots: np.ndarray) -> None:
        """CTAs begin in these slots."""
        for table in (self.at, self.met):
            table.reshape(self.M.slots, self.M.warps)[slots] = 0

    def arrive(self, C: Cohort) -> Wait | None:
        """Warps of a cohort stand before their next wgmma; a Wait where a warpgroup is not here as a whole."""
        M, gw = self.M, self.M.units(C).gw
        number = M.wgmma_issued[gw] + 1
        self.at[gw] = number
        if (self.met[gw] >= number).all():
            return None
        groups = gw - gw % M.warps % 4                          # the warpgroup's first warp
        others = groups[:, None] + np.arange(4)
        ready = (self.at[others] >= number[:, None]).all(axis=1)
        if len(gw) % 4 == 0 and ready.all() and (groups[::4] == groups[3::4]).all() and (np.diff(groups[::4]) > 0).all():
            self.met[gw] = number
            return None
        if ready.any():                                         # together again: all of them go on as one, once woken
            self.complete.append(others[ready].ravel())
        return MeetingWait(C.gids >> 5, M.wgmma_issued[C.gids >> 5] + 1)

    def flush(self) -> None:
        """Let warpgroups that have met go on."""
        for warps in self.complete:
            self.met[warps] = self.at[warps.reshape(-1, 4)].min(axis=1).repeat(4)
        self.complete = []


class MeetingWait(Wait):
    """wgmma.mma_async: keys are global warp ids of the lanes, extra the number of the wgmma they stand before."""

    retries = True

    def mask(self, M: Any) -> np.ndarray:
        return M.meetings.met[self.keys] >= self.extra
