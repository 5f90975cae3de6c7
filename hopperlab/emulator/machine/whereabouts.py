# SPDX-License-Identifier: Apache-2.0
"""Where threads stand that do not run, and whether they may still come to a place: asked when nothing else can run, and when a masked
collective goes on without the rest of a warp."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .cohort import Cohort


def standing(M: Any, C: Cohort) -> int:
    """Index of the instruction at which a cohort stands."""
    block = M.blocks[C.pc]
    instr = block.gate_instr or block.first
    return instr.index


def waiting(M: Any) -> list:
    """Every cohort that has not ended and is not the one that runs."""
    S = M.scheduler
    queues = [c for cs in S.ready.values() for c in cs] + [c for cs in S.converging.values() for c in cs]
    return queues + [c for c, _ in S.parked] + S.polling + S.later + S.about_to_raise


def elsewhere(M: Any, C: Cohort, gids: np.ndarray) -> Cohort | None:
    """A cohort other than C that holds some of `gids`, or None when they have all ended."""
    return next((c for c in waiting(M) if c is not C and np.isin(gids, c.gids).any()), None)


def rest_may_come(M: Any, C: Cohort) -> bool:
    """True where the other lanes of C's warps wait for something themselves, an mbarrier or a flag for instance, and may come to C afterwards."""
    missing = np.setdiff1d((np.unique(C.gids >> 5)[:, None] * 32 + np.arange(32)).reshape(-1), C.gids)
    return any(np.isin(missing, c.gids).any() and leads_to(M, c.pc, C.pc) for c in [*(c for c, _ in M.scheduler.parked), *M.scheduler.polling])


def leads_to(M: Any, start: int, end: int) -> bool:
    """True when some path of branches goes from one block to another."""
    seen, new = {start}, [start]
    while new:
        for block in M.translation.successors[new.pop()]:
            if block == end:
                return True
            if block not in seen:
                seen.add(block)
                new.append(block)
    return False
