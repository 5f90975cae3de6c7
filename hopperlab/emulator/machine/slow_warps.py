# SPDX-License-Identifier: Apache-2.0
"""A run in which some warps of each CTA are slow: they go on by one block of instructions at a time, and only when nobody else can go on and nothing is
left to land (altered.py, SLOW).

What the others do before has not waited for them, whatever the scheduler's habits are. `S` is the Scheduler.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .altered import SLOW

if TYPE_CHECKING:
    from .cohort import Cohort


def set_aside(S: Any, C: Cohort) -> Cohort | None:
    """What of a cohort may run now; the slow warps in it wait for `release`, unless they have just been let go."""
    if S.M.altered.way != SLOW or S.stepping:
        return C
    slow = np.isin((C.gids >> 5) % S.M.warps, list(S.M.altered.warps or ()))
    for warp in np.unique(C.gids[slow] >> 5).tolist():
        if not S.M.altered.blocks(S.M.block_index(32 * warp)):
            slow &= C.gids >> 5 != warp
    if not slow.any():
        return C
    if slow.all():
        S.slow.append(C)
        return None
    live = S.blocks[C.pc].live_in
    apart, others = C.split(slow, C.pc, C.pc, live, live)
    apart.resume = others.resume = C.resume
    S.slow.append(apart)
    return others


def release(S: Any) -> bool:
    """Nobody else can go on: the slow warps that have waited longest run one block. False where there are none."""
    if not S.slow:
        return False
    S.stepping = True
    S.enqueue(S.slow.pop(0))
    return True
