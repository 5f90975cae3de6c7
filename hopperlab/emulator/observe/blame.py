# SPDX-License-Identifier: Apache-2.0
"""Who is to blame for a deadlock: of all threads that wait, those who wait for nobody that waits himself."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..hazards import phase_turns
from ..machine.cluster_barrier import ClusterWait
from ..machine.meetings import MeetingWait
from ..machine.waits import ConvergeWait, MbarrierWait, NamedWait, WgmmaWait

if TYPE_CHECKING:
    from ..machine.cohort import Cohort
    from ..machine.machine import Machine


def first(M: Machine, stuck: list) -> tuple[Cohort, Any]:
    """Of all (cohort, wait) the one to name first: who waits for a phase that is past; then who waits for nobody of another CTA that is stuck
    itself, loops that look at memory last (whoever should change it may be stuck); then the rest, in the order in which they came to wait."""
    innocent = _innocent(M, stuck)

    def rank(k: int) -> int:
        C, wait = stuck[k]
        if isinstance(wait, MbarrierWait) and any(passed_by(M, C, wait, lane) is not None for lane in range(C.n)):
            return 0
        return 3 if innocent[k] else 2 if wait is None else 1
    found: tuple[Cohort, Any] = stuck[min(range(len(stuck)), key=rank)]
    return found


def _innocent(M: Machine, stuck: list) -> list[bool]:
    """Who waits for threads of another CTA that are stuck, and who waits for nobody but those, and so on."""
    gids = np.concatenate([C.gids for C, _ in stuck])
    owner = np.repeat(np.arange(len(stuck)), [C.n for C, _ in stuck])
    place = {int(gid): int(k) for gid, k in zip(gids, owner)}
    waits_for = []
    for C, wait in stuck:
        missing = _missing(M, C, wait)
        waits_for.append([(place[g], g // M.T) for g in missing[np.isin(missing, gids)].tolist() if place[g] != place[int(C.gids[0])]])
    innocent = [any(slot not in C.gids // M.T for _, slot in others) for (C, _), others in zip(stuck, waits_for)]
    grown = True
    while grown:
        grown = False
        for k, others in enumerate(waits_for):
            if not innocent[k] and others and all(innocent[other] for other, _ in others):
                innocent[k] = grown = True
    return innocent


def passed_by(M: Machine, C: Cohort, wait: MbarrierWait, lane: int) -> int | None:
    """The phase that a lane waits for, where it is over already and so is the next, whose parity it waits out; None where it is not, or nobody kept count."""
    checks = getattr(M.findings, "barriers", None)
    if checks is None:
        return None
    barrier = int(wait.keys[lane])
    seen = phase_turns.counted(checks, int(C.gids[lane]), barrier)
    wanted = seen + ((seen ^ int(wait.extra[lane])) & 1)
    return wanted if wanted < int(M.barriers.phase[barrier]) else None


def _missing(M: Machine, C: Cohort, wait: Any) -> np.ndarray:
    """Threads for which these wait, as far as it is known."""
    T, slots = M.T, np.unique(C.gids // M.T)
    if isinstance(wait, NamedWait):
        return _absent(C.gids, (slots[:, None] * T + np.arange(T)).ravel())
    if type(wait) is ClusterWait:
        first = np.unique(slots // M.cluster * M.cluster) * T
        here = (first[:, None] + np.arange(T * M.cluster)).ravel()
        return here[~M.cluster_barrier.owed[here]]
    if type(wait) is ConvergeWait:
        return _absent(C.gids, (np.unique(C.gids >> 5)[:, None] * 32 + np.arange(32)).ravel())
    if type(wait) in (MeetingWait, WgmmaWait):
        warps = np.unique(C.gids >> 5)
        first = np.unique(warps // M.warps * M.warps + warps % M.warps // 4 * 4)
        return _absent(C.gids, (first[:, None] * 32 + np.arange(128)).ravel())
    return _late(M, wait) if type(wait) is MbarrierWait else np.zeros(0, np.int64)


def _absent(gids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    return np.setdiff1d(wanted, gids)


def _late(M: Machine, wait: MbarrierWait) -> np.ndarray:
    """Threads of the warps that arrived on these mbarriers in the phase before, and have not in the running one."""
    checks, found = getattr(M.findings, "barriers", None), [np.zeros(0, np.int64)]
    for barrier in np.unique(wait.keys).tolist() if checks is not None else ():
        first = barrier // M.barriers.capacity // M.cluster * M.cluster * M.warps
        warps = first + np.flatnonzero((checks.passes.before[barrier] > 0) & (checks.passes.arrived[barrier] == 0))
        found.append((warps[:, None] * 32 + np.arange(32)).ravel())
    return np.concatenate(found)
