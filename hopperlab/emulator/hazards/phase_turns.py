# SPDX-License-Identifier: Apache-2.0
"""Whether phases of an mbarrier have run away from those who wait for them, one after the other.

A wait tests one bit: it is for the phase after the last one whose end its thread knows of. Where more phases are over by then than that one, the next of them did not
wait for this thread, or the wait could have passed before its own phase was over. What a warp knows: the phases that it has counted itself, wait by wait; those that
others have seen complete before it; and those that count no bytes and all of whose arrivals come before it. PTX ISA 9.7.13.15.5 and .16.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from . import findings_barriers


def seen(checks: Any, ids: np.ndarray, column: np.ndarray, gids: np.ndarray, site: int, copies: dict[int, Any]) -> None:
    """Warps (their first threads: gids) see the latest phase of these mbarriers complete. checks: the BarrierChecks;
    copies: barrier -> its newest copy (mbarrier_order.py)."""
    phase, turn = checks.M.barriers.phase[ids], checks.turn[ids, column]
    now = turn + ((turn ^ phase) & 1)
    for k in np.flatnonzero(now != phase).tolist():
        barrier, gid = int(ids[k]), int(gids[k])
        known = counted(checks, gid, barrier)
        now[k] = known + ((known ^ int(phase[k])) & 1)
        if now[k] == phase[k]:
            continue
        if checks.counted_before[barrier] <= known and (checks.clocks.newest(checks.passed_before[barrier]) <= checks.before(gid)).all():
            now[k] = phase[k]                           # all but the latest phase are over for this thread, by their arrivals
        elif not checks.passes.too_few(barrier):
            ended, copy = int(checks.end_site[barrier]) - 1, copies.get(barrier)
            findings_barriers.phase_overrun(checks.M, site, ended if ended >= 0 else None, gid, barrier, None if copy is None else copy.index)
    checks.turn[ids, column], checks.saw_at[ids, column] = now, checks.clocks.epoch[gids >> 5]


def counted(checks: Any, gid: int, barrier: int) -> int:
    """How many phases of an mbarrier are over, as far as a thread has counted them, or comes after others that have seen them."""
    own, saw = (gid >> 5) % checks.warps, checks.saw[barrier].copy()
    saw[(checks.saw_at[barrier] > checks.before(gid)) | (checks.saw_at[barrier] == 0)] = 0
    saw[own] = checks.turn[barrier, own]
    return int(saw.max())
