# SPDX-License-Identifier: Apache-2.0
"""Groups of asynchronous copies as clocks.py sees them: numbers of threads that other threads know of."""
from __future__ import annotations

import numpy as np

from ..machine.groups import Groups


class LaneGroups(Groups):
    """Groups of threads whose numbers other threads know of. A thread with nothing in flight keeps up with its warp (`reached`), so that what it
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

    def reached(self, gw: np.ndarray, done: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The groups up to which all lanes of each warp are complete, and any lane (done: by thread, in one sense or another). A lane with nothing in
        flight holds nobody back, and its count catches up, so that what it starts later is newer than what is published now."""
        lanes, started = done.reshape(-1, 32)[gw], self.started.reshape(-1, 32)[gw]
        idle, most = started <= lanes, lanes.max(axis=1)
        least: np.ndarray = np.minimum(np.where(idle, np.iinfo(np.int32).max, lanes).min(axis=1), most)
        done.reshape(-1, 32)[gw] = np.where(idle, np.maximum(lanes, least[:, None]), lanes)
        return least, most
