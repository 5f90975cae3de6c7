"""Collective instructions without all their threads: lanes that never come, warps of a warpgroup that do not take part.

A warp's lanes wait for each other at a collective (machine.py); what is here is asked when nothing else can run, when a
masked collective goes on without the rest, and when a CTA ends. PTX ISA 9.7.13.1 (.aligned), 9.7.13.9 (member masks), 9.7.15.
"""
from __future__ import annotations

import numpy as np

from . import reports_misuse as reports
from .meetings import MeetingWait
from .waits import WgmmaWait


def standing(M, C) -> int:
    """Index of the instruction at which a cohort stands."""
    block = M.blocks[C.pc]
    instr = block.gate_instr or block.first
    return instr.index


def waiting(M) -> list:
    """Every cohort that has not ended and is not the one that runs."""
    S = M.scheduler
    queues = [c for cs in S.ready.values() for c in cs] + [c for cs in S.converging.values() for c in cs]
    return queues + [c for c, _ in S.parked] + S.polling + S.later


def collective_of(M, block) -> int:
    """Index of the first collective instruction of a block."""
    ops = M.translation.ops
    if block.gate is not None and block.gate.collective:
        return block.gate_instr.index
    start = block.first.index
    return next((i for i in range(start, start + block.size) if i in ops and ops[i].collective), start)


def _elsewhere(M, C, gids: np.ndarray):
    """A cohort other than C that holds some of `gids`, or None when they have all ended."""
    return next((c for c in waiting(M) if c is not C and np.isin(gids, c.gids).any()), None)


def stuck(M) -> bool:
    """Nothing can run: report lanes that wait at a collective for lanes that will not come. True when there were any."""
    found = False
    for pc, cohorts in M.scheduler.converging.items():
        site = collective_of(M, M.blocks[pc])
        for C in cohorts:
            warp = int(C.gids[0]) >> 5
            missing = np.setdiff1d(np.arange(warp * 32, warp * 32 + 32), C.gids)
            other = _elsewhere(M, C, missing)
            if other is not None and not _may_come(M, other, pc):
                lanes = int(np.isin(missing, np.concatenate([c.gids for c in waiting(M)])).sum())
                reports.divergent(M, site, standing(M, other), int(C.gids[0]), f"{lanes} lanes of this warp do not come here")
                found = True
    for C, wait in M.scheduler.parked:
        if type(wait) is WgmmaWait:
            found |= _warpgroup(M, C, wait, M.wgmma_commits)
        elif type(wait) is MeetingWait:
            found |= _warpgroup(M, C, wait, M.meetings.at)
    return found


def _warpgroup(M, C, wait, reached: np.ndarray) -> bool:
    """A wait for a wgmma, or a group of them, to which some warp of the warpgroup never came. `reached`: how far, by warp.
    False where that warp waits for something itself and may still come: then the picture of the deadlock says more."""
    short = np.flatnonzero(~wait.mask(M))
    gid = int(C.gids[short[0]])
    first = (gid >> 5) // M.warps * M.warps + (gid >> 5) % M.warps // 4 * 4
    group = np.arange(first, min(first + 4, (gid >> 5) // M.warps * M.warps + M.warps))
    late = group[reached[group] < wait.extra[short[0]]]
    other = _elsewhere(M, C, (late[:, None] * 32 + np.arange(32)).reshape(-1))
    if type(wait) is MeetingWait and _may_come(M, other, C.pc):
        return False
    names = ", ".join(str(int(w) % M.warps) for w in late)
    reports.divergent(M, standing(M, C), standing(M, other) if other is not None else None, gid,
                      f"warp {names} of the block did not issue these wgmma")
    return True


def _may_come(M, C, block: int) -> bool:
    """True for a cohort that itself waits for something, and from there may reach a block: then the picture of the deadlock says
    more than that its lanes are missing."""
    if any(c is C for c, _ in M.scheduler.parked):
        return _leads_to(M, C.pc, block)
    return C is not None and any(c is C for c in M.scheduler.converging.get(C.pc, ())) and rest_may_come(M, C) and _leads_to(M, C.pc, block)


def rest_may_come(M, C) -> bool:
    """True where the other lanes of C's warps wait for something themselves, an mbarrier for instance, and may come to C afterwards."""
    missing = np.setdiff1d((np.unique(C.gids >> 5)[:, None] * 32 + np.arange(32)).reshape(-1), C.gids)
    return any(np.isin(missing, c.gids).any() and _leads_to(M, c.pc, C.pc) for c, _ in M.scheduler.parked)


def _leads_to(M, start: int, end: int) -> bool:
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


def left_waiting(M, C, block) -> None:
    """Lanes begin to wait at a masked collective: note where the rest of their warps stands, in case it ends without coming.
    Lanes that are about to return are no concern: ended lanes may be named."""
    if not block.masked or not M.session.check:
        return
    for warp in np.unique(C.gids >> 5).tolist():
        if (block.id, warp) not in M.left:
            missing = np.setdiff1d(np.arange(warp * 32, warp * 32 + 32), C.gids)
            other = _elsewhere(M, C, missing)
            first = M.blocks[other.pc].first if other is not None else None
            M.left[block.id, warp] = None if first is None or first.op in ("ret", "exit") else first.index


def _passed_by(M, C, site: int, mask) -> None:
    """Lanes that are named and have ended, but stood elsewhere while the others waited here for them."""
    for warp in np.unique(C.gids >> 5).tolist():
        other = M.left.get((C.pc, warp))
        here = C.gids >> 5 == warp
        named = int(np.bitwise_or.reduce(np.broadcast_to(mask, C.n).astype(np.int64)[here]))
        absent = [lane for lane in range(32) if named >> lane & 1 and lane not in C.gids[here] & 31]
        if other is not None and absent:
            reports.divergent(M, site, other, int(C.gids[here][0]), f"the mask {named:#x} names {len(absent)} lanes that have passed it by")


def masked(M, C, site: int, mask) -> None:
    """A collective with a member mask runs: its callers are named in it, and whoever it names is here or has ended."""
    if M.left:
        _passed_by(M, C, site, mask)
    if not mask.ndim and int(mask) == 0xFFFFFFFF and M.whole(C):
        return
    lanes, mask = C.gids & 31, M.lanes(C, mask).astype(np.int64)
    unnamed = np.flatnonzero(mask >> lanes & 1 == 0)
    if len(unnamed):
        gid = int(C.gids[unnamed[0]])
        reports.divergent(M, site, None, gid, f"lane {gid & 31} runs it with the mask {int(mask[unnamed[0]]):#x}, which does not name it")
    if M.whole(C):
        return
    for warp in np.unique(C.gids >> 5).tolist():
        here = C.gids >> 5 == warp
        named = int(np.bitwise_or.reduce(mask[here]))
        absent = np.array([warp * 32 + lane for lane in range(32) if named >> lane & 1 and lane not in lanes[here]], np.int64)
        other = _elsewhere(M, C, absent) if len(absent) else None
        if other is not None:
            reports.divergent(M, site, standing(M, other), int(C.gids[here][0]),
                              f"the mask {named:#x} names {len(absent)} lanes that do not come here")


def whole_warpgroups(M, C, site: int) -> None:
    """wgmma needs 32 lanes a warp and four warps a warpgroup; without them nothing sensible can follow."""
    if not C.full32():
        warps, counts = C.warp_counts()
        k = int(np.argmin(counts))
        raise M.fault(C, site, 0, f"a warpgroup instruction needs all 32 lanes of its warps, but warp {int(warps[k]) % M.warps} "
                      f"has only {int(counts[k])} here: the others have ended", "divergent-collective", 0)
    if M.warps % 4 and ((C.gids[::32] >> 5) % M.warps // 4 * 4 + 4 > M.warps).any():
        raise M.fault(C, site, 0, f"a warpgroup is four warps, the first a multiple of four, but the block has {M.warps} warps: launch "
                      "a multiple of 128 threads, or let only whole warpgroups run this", "divergent-collective", 0)


def cta_ends(M, slots: np.ndarray) -> None:
    """CTAs end: every wgmma group was committed by all four warps of its warpgroup."""
    if not M.wgmma_commits.any() or M.warps % 4:
        return
    groups = M.wgmma_commits.reshape(M.slots, -1, 4)[slots]
    uneven = np.argwhere((groups != groups[:, :, :1]).any(axis=2))
    if not len(uneven) or any(h.kind in ("divergent-collective", "deadlock") for h in M.hazards):
        return
    site = next((i.index for i in M.body if i.op == "wgmma" and i.mods[0] == "mma_async"), 0)
    k, group = uneven[0]
    counts = groups[k, group].tolist()
    gid = int(slots[k]) * M.T + int(group) * 128
    reports.divergent(M, site, None, gid, f"the four warps of warpgroup {int(group)} committed {counts} groups")
