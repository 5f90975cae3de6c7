# SPDX-License-Identifier: Apache-2.0
"""What happens at a block's head: lanes gather for collectives, and blocking instructions let lanes pass or park them.

`S` is the Scheduler. A gate's handler does its side effects and returns a Wait (waits.py), or None when nothing blocks.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..compile import masks
from . import warp_meetings
from .gate_values import as_wanted, deliver, put, sources
from .cohort import Cohort, merge
from .waits import MbarrierWait, SpuriousFalse, WgmmaWait

if TYPE_CHECKING:
    from ..compile.translated import Block


def enter(S: Any, C: Cohort, block: Block) -> Cohort | None:
    """Convergence and gates at a block's head; the cohort that may run it, or None."""
    if C.resume == warp_meetings.MET:
        C.resume = None
        return C
    if block.collective and type(C.resume) is not SpuriousFalse and (
            block.id in S.converging or not C.whole(S.M.alive)):
        C = converge(S, C, block)
        if C is None:
            return None
    if block.gate is not None and C.resume != "skip":
        return run_beside(S, C, block) if block.apart else pass_gate(S, C, block)
    C.resume = None
    return C


def run_beside(S: Any, C: Cohort, block: Block) -> Cohort:
    """Run an instruction that lanes may also meet at elsewhere (warp_meetings.py): these are all that their masks name."""
    C.resume = None
    results = block.gate.fn(S.M, C, block.gate.info, *as_wanted(block, sources(S, C, block)))  # type: ignore[union-attr]  # such blocks have one
    deliver(S, C, block, results if type(results) is tuple else (results,))
    return C


def converge(S: Any, C: Cohort, block: Block) -> Cohort | None:
    """Wait at a collective until the lanes it names are here; whole warps, and masks that are satisfied, go on."""
    if C.resume is None:
        waiting = S.converging.pop(block.id, None)
        if waiting:
            C = merge([C, *waiting], block.live_in)
    if C.whole(S.M.alive):
        return C
    short = C.incomplete_lanes(S.M.alive)
    if block.masked and block.mask != masks.FULL:
        short &= ~masks.ready(C, block)
        if not short.any():
            return C
    if short.all():
        S.converging.setdefault(block.id, []).append(C)
        S.M.tell.gathering(C, block)
        go = None
    else:
        rest, go = C.split(short, block.id, block.id, block.live_in, block.live_in)
        S.M.tell.gathering(rest, block)
        S.converging.setdefault(block.id, []).append(rest)
    if block.apart:
        warp_meetings.meet(S)
    return go


def pass_gate(S: Any, C: Cohort, block: Block) -> Cohort | None:
    """Evaluate a blocking instruction; lanes that must wait are parked."""
    wait = C.resume
    C.resume = None
    if type(wait) is SpuriousFalse:
        if _answers_no(S, C, block):
            return C
        wait = None
    if wait is None:
        if block.gate_guard is not None:
            C = _guarded_gate(S, C, block)
            if C is None:
                return None
            if C.resume == "skip":
                C.resume = None
                return C
        wait = block.gate.fn(S.M, C, block.gate.info, *sources(S, C, block))
        if wait is None:
            return C
        if type(wait) is WgmmaWait and S.M.landing.schedule != S.M.landing.products == "lazy":
            C.resume = wait              # late products beside early copies: all others, and their copies, go first
            S.later.append(C)
            return None
    mask = wait.mask(S.M)
    if mask.all():
        passed = C
    elif not mask.any():
        S.park(C, wait)
        return None
    else:
        passed, failed = C.split(mask, C.pc, C.pc, block.live_in, block.live_in)
        S.park(failed, wait.subset(np.flatnonzero(~mask)))
        wait = wait.subset(np.flatnonzero(mask))
    wait.passed(S.M, passed)
    passed.waited |= type(wait) is MbarrierWait
    S.M.tell.passed(passed, wait, block.gate_instr.index)
    if block.gate_dsts and block.gate_dsts[0] is not None:
        put(passed, block.gate_dsts[0][0], wait.value(S.M))
    return passed


def _answers_no(S, C: Cohort, block) -> bool:
    """A try_wait that gave up says so, where it has a result; a collective that goes on with part of a warp has none."""
    if not block.gate_dsts or block.gate_dsts[0] is None:
        return False
    put(C, block.gate_dsts[0][0], np.bool_(False))
    C.polled = True
    return True


def _guarded_gate(S, C: Cohort, block) -> Cohort | None:
    """Lanes whose guard is false pass a blocking instruction by."""
    slot, negated = block.gate_guard
    C.frame.need((slot,), S.M.translation.zeros)
    guard = C.frame.R[slot]
    guard = np.broadcast_to(~guard if negated else guard, C.n)
    if guard.all():
        return C
    if not guard.any():
        C.resume = "skip"
        return C
    held, free = C.split(guard, C.pc, C.pc, block.live_in, block.live_in)
    free.resume = "skip"
    S.enqueue(free)
    return held
