# SPDX-License-Identifier: Apache-2.0
"""Collective instructions without all their threads: lanes that never come, warps of a warpgroup that do not take part.

A warp's lanes wait for each other at a collective (machine/gates.py); what is here is asked when nothing else can run, when a
masked collective goes on without the rest, and when a CTA ends. PTX ISA 9.7.13.1 (.aligned), 9.7.13.9 (member masks), 9.7.15.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.events import Listener
from ..machine.meetings import MeetingWait
from ..machine.waits import WgmmaWait
from ..machine.whereabouts import elsewhere, leads_to, rest_may_come, standing, waiting
from .findings import divergent

if TYPE_CHECKING:
    from ..compile.translated import Block
    from ..machine.cohort import Cohort
    from .findings import Watched


def collective_of(M: Watched, block: Any) -> int:
    """Index of the first collective instruction of a block."""
    ops = M.translation.ops
    if block.gate is not None and block.gate.collective:
        index: int = block.gate_instr.index
        return index
    start = block.first.index
    return next((i for i in range(start, start + block.size) if i in ops and ops[i].collective), start)


def stuck(M: Watched) -> bool:
    """Nothing can run: report lanes that wait at a collective for lanes that will not come. True when there were any."""
    found = False
    for pc, cohorts in M.scheduler.converging.items():
        site = collective_of(M, M.blocks[pc])
        for C in cohorts:
            warp = int(C.gids[0]) >> 5
            missing = np.setdiff1d(np.arange(warp * 32, warp * 32 + 32), C.gids)
            other = elsewhere(M, C, missing)
            if other is not None and not _may_come(M, other, pc):
                lanes = int(np.isin(missing, np.concatenate([c.gids for c in waiting(M)])).sum())
                divergent(M, "lanes-stay-away", site, standing(M, other), int(C.gids[0]), count=lanes)
                found = True
    for C, wait in M.scheduler.parked:
        if type(wait) is WgmmaWait:
            found |= _warpgroup(M, C, wait, M.wgmma_commits)
        elif type(wait) is MeetingWait:
            found |= _warpgroup(M, C, wait, M.meetings.at)
    return found


def _warpgroup(M: Watched, C: Cohort, wait: WgmmaWait | MeetingWait, reached: np.ndarray) -> bool:
    """A wait for a wgmma, or a group of them, to which some warp of the warpgroup never came. `reached`: how far, by warp.
    False where that warp waits for something itself and may still come: then the picture of the deadlock says more."""
    short = np.flatnonzero(~wait.mask(M))
    gid = int(C.gids[short[0]])
    first = (gid >> 5) // M.warps * M.warps + (gid >> 5) % M.warps // 4 * 4
    group = np.arange(first, min(first + 4, (gid >> 5) // M.warps * M.warps + M.warps))
    late = group[reached[group] < wait.extra[short[0]]]
    other = elsewhere(M, C, (late[:, None] * 32 + np.arange(32)).reshape(-1))
    if type(wait) is MeetingWait and _may_come(M, other, C.pc):
        return False
    names = ", ".join(str(int(w) % M.warps) for w in late)
    divergent(M, "warps-stay-away", standing(M, C), standing(M, other) if other is not None else None, gid, warps=names)
    return True


def _may_come(M: Watched, C: Any, block: int) -> bool:
    """True for a cohort (None: none) that itself waits for something, and from there may reach a block: then the picture of the deadlock says
    more than that its lanes are missing."""
    if any(c is C for c in [*(c for c, _ in M.scheduler.parked), *M.scheduler.polling]):
        return leads_to(M, C.pc, block)
    return C is not None and any(c is C for c in M.scheduler.converging.get(C.pc, ())) and rest_may_come(M, C) and leads_to(M, C.pc, block)


class CollectiveChecks(Listener):
    """left: (block, warp) -> lanes (bits) that stood elsewhere when others of their warp began to wait at a masked collective, by the instruction at which they stood."""

    def __init__(self, machine: Watched) -> None:
        self.M = machine
        self.left: dict[tuple[int, int], dict[int, int]] = {}

    def gathering(self, C: Cohort, block: Any) -> None:
        """Lanes begin to wait at a masked collective: note where the rest of their warps stands, in case it ends without coming.
        Lanes that are about to return are no concern: ended lanes may be named."""
        M = self.M
        if not block.masked:
            return
        everyone = waiting(M)
        for warp in np.unique(C.gids >> 5).tolist():
            stood = self.left.setdefault((block.id, warp), {})
            for other in everyone:
                first = M.blocks[other.pc].first
                if other is not C and other.pc != block.id and first is not None and first.op not in ("ret", "exit"):
                    lanes = other.gids[other.gids >> 5 == warp] & 31
                    if len(lanes):
                        stood[first.index] = stood.get(first.index, 0) | int(np.bitwise_or.reduce(np.int64(1) << lanes))

    def met_apart(self, C: Cohort, blocks: list[Block]) -> None:
        """What was noted at these blocks holds for C."""
        for warp in np.unique(C.gids >> 5).tolist():
            for block in blocks:
                for index, lanes in self.left.pop((block.id, warp), {}).items() if block.id != C.pc else ():
                    stood = self.left.setdefault((C.pc, warp), {})
                    stood[index] = stood.get(index, 0) | lanes

    def _passed_by(self, C: Cohort, site: int, mask: np.ndarray) -> None:
        """Lanes that are named and have ended, but stood elsewhere while the others waited here for them."""
        for warp in np.unique(C.gids >> 5).tolist():
            stood = self.left.get((C.pc, warp))
            if not stood:
                continue
            here = C.gids >> 5 == warp
            named = int(np.bitwise_or.reduce(np.broadcast_to(mask, C.n).astype(np.int64)[here]))
            absent = named & ~int(np.bitwise_or.reduce(np.int64(1) << (C.gids[here] & 31)))
            for index, lanes in stood.items():
                if lanes & absent:
                    divergent(self.M, "mask-passed-by", site, index, int(C.gids[here][0]), mask=named, count=(lanes & absent).bit_count())
                    break
            self.left[C.pc, warp] = {index: lanes & ~named for index, lanes in stood.items() if lanes & ~named}

    def named_lanes_met(self, C: Cohort, index: int, mask: np.ndarray) -> None:
        """A collective with a member mask runs: its callers are named in it, and whoever it names is here or has ended."""
        M = self.M
        if self.left:
            self._passed_by(C, index, mask)
        if not mask.ndim and int(mask) == 0xFFFFFFFF and M.whole(C):
            return
        lanes, mask = C.gids & 31, M.lanes(C, mask).astype(np.int64)
        unnamed = np.flatnonzero(mask >> lanes & 1 == 0)
        if len(unnamed):
            gid = int(C.gids[unnamed[0]])
            divergent(M, "mask-without-caller", index, None, gid, caller=gid & 31, mask=int(mask[unnamed[0]]))
        if M.whole(C):
            return
        for warp in np.unique(C.gids >> 5).tolist():
            here = C.gids >> 5 == warp
            named = int(np.bitwise_or.reduce(mask[here]))
            absent = np.array([warp * 32 + lane for lane in range(32) if named >> lane & 1 and lane not in lanes[here]], np.int64)
            other = elsewhere(M, C, absent) if len(absent) else None
            if other is not None:
                divergent(M, "mask-not-here", index, standing(M, other), int(C.gids[here][0]), mask=named, count=len(absent))

    def lanes_asked(self, C: Cohort, index: int, source: np.ndarray, mask: np.ndarray) -> None:
        """A lane that the mask does not name has no value to give."""
        members = self.M.lanes(C, mask).astype(np.int64)
        for k in np.flatnonzero(members >> source & 1 == 0)[:1].tolist():
            gid = int(C.gids[k])
            self.M.findings.add("lane-outside", index, None, gid, caller=gid & 31, asked=int(source[k]), mask=int(members[k]))

    def ctas_end(self, slots: np.ndarray) -> None:
        """Every wgmma group was committed by all four warps of its warpgroup."""
        M = self.M
        if not M.wgmma_commits.any() or M.warps % 4:
            return
        groups = M.wgmma_commits.reshape(M.slots, -1, 4)[slots]
        uneven = np.argwhere((groups != groups[:, :, :1]).any(axis=2))
        if not len(uneven) or M.findings.any_of("divergent-collective", "deadlock"):
            return
        site = next((i.index for i in M.body if i.op == "wgmma" and i.mods[0] == "mma_async"), 0)
        k, group = uneven[0]
        counts = groups[k, group].tolist()
        gid = int(slots[k]) * M.T + int(group) * 128
        divergent(M, "uneven-commits", site, None, gid, group=int(group), counts=counts)
