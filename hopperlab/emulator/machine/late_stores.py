# SPDX-License-Identifier: Apache-2.0
"""A run in which whoever would write to global memory goes last: when nobody else can go on, and nothing is left to land (altered.py, LATE).

What runs before such a store does not wait for it, whatever the scheduler's habits are. `S` is the Scheduler.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .altered import LATE

if TYPE_CHECKING:
    from .cohort import Cohort


def blocks(M: Any) -> frozenset[int]:
    """The translated blocks that hold a store to global memory, plain or bulk; none, unless the run is such a one."""
    if M.altered.way != LATE:
        return frozenset()
    body = M.translation.function.body
    return frozenset(number for number, (start, end) in enumerate(M.translation.spans) if any(_stores(instr) for instr in body[start:end]))


def _stores(instr: Any) -> bool:
    if instr.op == "st":
        return "global" in instr.mods
    return instr.op == "cp" and "bulk" in instr.mods and "global" in instr.mods and instr.mods.index("global") < min(
        place for place, mod in enumerate(instr.mods) if mod.startswith("shared"))


def held_back(S: Any, C: Cohort) -> bool:
    """True when the cohort has to wait at its block; it is let go once by `release`."""
    if C.pc in S.passing:
        S.passing.discard(C.pc)
        return False
    S.held.append(C)
    return True


def release(S: Any) -> bool:
    """Nobody else can go on: who was held back first runs, and goes before the others until it has stored what it has computed. False where there is nobody."""
    if not S.held:
        return False
    C = next((C for C in S.held if S.storing.items() & _computed(S, C).items()), None)
    if C is None:
        C = S.held[0]
        S.storing = _computed(S, C)
    S.held.remove(C)
    S.passing = {C.pc}
    S.enqueue(C)
    return True


def _computed(S: Any, C: Cohort) -> dict[int, int]:
    """How many products each warp of a cohort has issued."""
    warps = C.warp_counts()[0]
    return dict(zip(warps.tolist(), S.M.wgmma_issued[warps].tolist()))
