# SPDX-License-Identifier: Apache-2.0
"""Waits on mbarriers that are answered no although their phase may be over: an answer that the hardware may give as well, as long as nothing makes the
thread know of the end (PTX ISA 9.7.13.15.16). compile/wait_answers.py says which waits, and which visits."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..compile.wait_answers import SEVERAL, UNTOLD

if TYPE_CHECKING:
    from .cohort import Cohort

TRIES = 8                    # of a loop that may give up
LAST = 16                    # visits after which there is no doubt any more


class Doubts:
    """visits: how often the lanes of each warp were answered, by instruction."""

    def __init__(self, warps: int) -> None:
        self.warps = warps
        self.visits: dict[int, np.ndarray] = {}

    def no(self, M: Any, C: Cohort, ids: np.ndarray, parity: np.ndarray, info: Any) -> np.ndarray:
        """Lanes that are answered no, whatever the barrier says."""
        visits = self.visits.get(info.index)
        count = np.zeros(C.n, np.int64) if visits is None else visits[C.gids >> 5]
        no: np.ndarray = (count < TRIES) if info.turn == UNTOLD else (count < LAST) & (count & 1 == info.turn & 1)
        if info.turn == SEVERAL:
            no |= count < TRIES
        if no.any():
            over = (M.barriers.phase[ids] & 1) != parity
            no &= ~(over & M.sure(C, ids))
            M.scheduler.events += bool((no & over).any())          # the same loop may get another answer next time
        return no

    def told(self, M: Any, C: Cohort, ids: np.ndarray, info: Any) -> np.ndarray:
        """Lanes to which a yes says something: not behind a loop that leaves nothing of the answer, except where they know the end of the phase already."""
        if info.turn != UNTOLD:
            return np.ones(C.n, bool)
        sure: np.ndarray = M.sure(C, ids)
        if not sure.all():
            M.tell.answered_no(C.gids[~sure], ids[~sure], info.index)
        return sure

    def answered(self, M: Any, C: Cohort, ids: np.ndarray, no: np.ndarray, index: int) -> None:
        """Lanes got their answer."""
        visits = self.visits.setdefault(index, np.zeros(self.warps, np.int64))
        visits[np.unique(C.gids >> 5)] += 1
        if no.any():
            M.tell.answered_no(C.gids[no], ids[no], index)
