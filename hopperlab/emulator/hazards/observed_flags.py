# SPDX-License-Identifier: Apache-2.0
"""Who saw what a synchronising write left in a word: that thread, and whoever is ordered after its read, comes after the write (PTX ISA 8.9.5, observation order).

A fence and a relaxed store behind it publish what stood before the fence, and clocks.py has no time between the fence and the store. So a flag that was waited
for and is then set back by a plain store would look unordered with the store that raised it. global_order.py asks.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .global_words import SYNC

if TYPE_CHECKING:
    from .global_words import Stamped

NO_SITE, WHOLE_WORD = 0, 15


class Observed:
    """seen: (allocation's address, word) -> stamps (who, when) of the first synchronising read by each thread since the last synchronising write; by: of that
    write, the CTA, and whether it is of CTA scope."""

    def __init__(self, order: Any) -> None:
        self.order = order                              # GlobalOrder, whose part this is
        self.seen: dict[tuple[int, int], dict[int, int]] = {}
        self.by: dict[tuple[int, int], tuple[int, bool]] = {}

    def wrote(self, allocation: Stamped, word: int, cta: int, narrow: bool) -> None:
        """A synchronising write: nobody has seen it. Words of shared memory (address -1, access_order.py) are never asked for."""
        if allocation.address >= 0:
            self.seen[allocation.address, word], self.by[allocation.address, word] = {}, (cta, narrow)

    def read(self, gids: np.ndarray, allocation: Stamped, offset: np.ndarray, narrow: bool) -> None:
        """Threads read by synchronising accesses; where these or the write are of CTA scope, only those of its CTA see it."""
        for word in np.unique(offset >> 2).tolist():
            place = (allocation.address, word)
            if place in self.seen:
                lanes, (cta, only) = gids[offset >> 2 == word], self.by[place]
                lanes = lanes[lanes // self.order.M.T == cta] if narrow or only else lanes
                who, when = self.order._stamps(lanes, NO_SITE, WHOLE_WORD, True) if len(lanes) else (lanes, lanes)
                for one, at in zip(who.tolist(), when.tolist(), strict=True):
                    self.seen[place].setdefault(one, at)

    def before(self, gids: np.ndarray, allocation: Stamped, at: np.ndarray, who: np.ndarray, asked: np.ndarray) -> np.ndarray:
        """Of accesses to words `at` that `asked`, last written by `who`: True where that write was a synchronising one and is seen before the access."""
        found = np.zeros(asked.shape, bool)
        for k in zip(*np.nonzero(asked & (who >> SYNC & 1 == 1)), strict=True):
            seen = self.seen.get((allocation.address, int(at[k])))
            if seen:
                readers = np.array(list(seen.items()))
                found[k] = self.order._ordered(np.full(len(readers), gids[k]), readers[:, 0], readers[:, 1], P_needed=False).any()
        return found
