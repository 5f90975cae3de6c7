# SPDX-License-Identifier: Apache-2.0
"""What threads do to each other in shared memory beyond the stamps of shared_order.py: a word that one lane of a warp has read and another one
writes with no sync of the warp between, a word whose granule was read again elsewhere, and threads that store to one address in one instruction.

Lanes of a warp need not run in step (independent thread scheduling), so their order is __syncwarp's or a converged collective's.
Instructions that a warp runs together (ldmatrix, wmma) are no lane's own reads.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import findings_memory
from .stamps import W_EPOCH, W_LANE, W_SITE_MASK

if TYPE_CHECKING:
    from collections.abc import Callable

    from .clocks import Clocks
    from .findings import Watched

ELSEWHERE = frozenset({"global", "param", "param::entry", "param::func", "const", "local"})
WHO = 0xFFFF          # of a write stamp: lane (5 bits) and column (11) from bit W_LANE on


class LaneOrder:
    """For every word: the thread that read it last, and the one of the same warp that read it before (stamps like writes')."""

    def __init__(self, machine: Watched, clocks: Clocks, words: int) -> None:
        self.M, self.clocks = machine, clocks
        body = machine.body
        self.own = np.array([i.op in ("ld", "ldu") and not ELSEWHERE.intersection(i.mods) for i in body] or [False])
        self.on = bool(self.own.any()) and any(i.op in ("st", "atom", "red", "cp") for i in body)
        self.last = np.zeros(words if self.on else 0, np.int64)
        self.prior = np.zeros(words if self.on else 0, np.int64)

    @property
    def tables(self) -> tuple[np.ndarray, ...]:
        """The stamps of all words, where any are kept."""
        return (self.last, self.prior) if self.on else ()

    def read(self, at: np.ndarray, stamp: np.ndarray) -> None:
        """Lanes (stamps as of their writes) read whole words `at`, (n,) or (n, words)."""
        stamp = stamp if at.ndim == 1 else stamp[:, None]
        old = self.last[at]
        apart = ((old ^ stamp) >> W_LANE) & WHO
        moved = (apart > 0) & (apart < 32) & (old != 0)
        if moved.any():
            self.prior[at[moved]] = old[moved]
        self.last[at] = stamp
        lost = self.last[at] != stamp
        if lost.any():
            self.prior[at[lost]] = np.broadcast_to(stamp, at.shape)[lost]

    def write(self, gids: np.ndarray, at: np.ndarray, site: int, verb: str) -> None:
        """Lanes write (parts of) words: what another thread has read there must be ordered before."""
        clocks = self.clocks
        mine = (gids >> 5) % clocks.warps << 5 | gids & 31
        mine = mine if at.ndim == 1 else mine[:, None]
        for table in (self.last, self.prior):
            stamps = table[at]
            apart = (stamps >> W_LANE & WHO) ^ mine
            suspect = (apart > 0) & (stamps != 0)
            if suspect.any():
                self._check(gids, at, stamps, suspect, site, verb)

    def _check(self, gids: np.ndarray, at: np.ndarray, stamps: np.ndarray, suspect: np.ndarray, site: int, verb: str) -> None:
        clocks, rows = self.clocks, np.nonzero(suspect)[0]
        found, places = stamps[suspect], at[suspect]
        ok = clocks.ordered(clocks.K, clocks.row_of[gids[rows]], found >> W_LANE + 5 & 0x7FF, found >> W_LANE & 31, found >> W_EPOCH)
        for other in np.unique(found[~ok] & W_SITE_MASK).tolist():
            here = np.flatnonzero(~ok & ((found & W_SITE_MASK) == other))
            pick = np.argmax((found[here] >> W_LANE + 5 & 0x7FF) != (gids[rows[here]] >> 5) % clocks.warps)         # of another warp, if there is one
            k = int(here[pick])
            findings_memory.unordered(self.M, verb, site, "read", other, int(found[k] >> W_LANE + 5 & 0x7FF), int(gids[rows[k]]), int(places[k]) * 4,
                                      int(found[k] >> W_LANE & 31), int(found[k] >> W_EPOCH))


def collided(M: Watched, gids: np.ndarray, places: np.ndarray, lost: np.ndarray,
             value: Callable[[np.ndarray], np.ndarray], site: int, where: Callable[[int], dict[str, Any]]) -> None:
    """Threads `lost` (positions) stored to places where another one stored last, in the same instruction. Equal values are no matter;
    different ones are a warning between lanes of a warp (one of them wins) and a race between warps. where(k): the place, as fields of a Hazard."""
    last = {place: k for k, place in enumerate(places.tolist())}
    winners = np.array([last[place] for place in places[lost].tolist()])
    differ = (value(lost) != value(winners)).any(axis=1)
    near = gids[lost] >> 5 == gids[winners] >> 5
    for pick, tell in ((differ & near, findings_memory.lanes_collide), (differ & ~near, findings_memory.warps_collide)):
        if pick.any():
            k = int(lost[np.flatnonzero(pick)[0]])
            tell(M, site, int(gids[k]), where(k))
