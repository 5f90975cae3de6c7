# SPDX-License-Identifier: Apache-2.0
"""Groups of asynchronous copies, cp.async and bulk, by thread: which number the running one has, and which are complete. PTX ISA 9.7.9.25.3.2."""
from __future__ import annotations

import numpy as np


class Groups:
    """Numbers count from 1; by thread: `started`, the newest group with a copy in it; `closed`, committed groups; `done`, complete ones."""

    def __init__(self, threads: int):
        self.started, self.closed, self.done = (np.zeros(threads, np.int32) for _ in range(3))

    def reset(self, places: int, which: np.ndarray) -> None:
        """New threads in these of so many places have started nothing."""
        for table in (self.started, self.closed, self.done):
            table.reshape(places, -1)[which] = 0

    def committed(self, gids: np.ndarray) -> np.ndarray:
        """Groups that each thread has committed."""
        return self.closed[gids]

    def open(self, gids: np.ndarray) -> np.ndarray:
        """Number of the group that a copy started now by each of these threads belongs to."""
        number = self.started[gids] = self.committed(gids) + np.int32(1)
        return number

    def commit(self, gids: np.ndarray) -> None:
        """commit_group by these threads."""
        self.closed[gids] = self.committed(gids) + np.int32(1)

    def close(self, gids: np.ndarray) -> np.ndarray:
        """End the running group of each thread that has started a copy; its number (0: no copies)."""
        number = self.started[gids]
        self.closed[gids] = np.maximum(self.committed(gids), number)
        return number

    def finish(self, gids: np.ndarray, pending: int) -> np.ndarray:
        """wait_group: all but the `pending` newest groups are complete; by thread, up to which."""
        number = np.maximum(self.done[gids], self.committed(gids) - np.int32(pending))
        self.done[gids] = number
        return number
