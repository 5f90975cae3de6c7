# SPDX-License-Identifier: Apache-2.0
"""Groups of asynchronous copies as clocks.py sees them: numbers of threads that other threads know of."""
from __future__ import annotations

import numpy as np

from ..machine.groups import Groups


class LaneGroups(Groups):
    """Groups of threads whose numbers other threads know of. A thread with nothing in flight keeps up with its warp (`_reached`), so that what it
    starts later is newer than what was published."""

    def committed(self, gids: np.ndarray) -> np.ndarray:
        """Groups that each thread has committed."""
        closed: np.ndarray = np.maximum(self.closed[gids], self.done[gids])
        self.closed[gids] = closed
        return closed

    def close(self, gids: np.ndarray) -> np.ndarray:
        """End the running group of each thread that has started a copy; its number, the same for all these threads of a warp (0: no copies)."""
        started = self.started[gids]
        newest = np.zeros(len(self.closed) >> 5, np.int32)
        np.maximum.at(newest, gids >> 5, started)
        number = np.where(started > 0, newest[gids >> 5], 0)
        self.closed[gids] = np.maximum(self.committed(gids), number)
        return number
