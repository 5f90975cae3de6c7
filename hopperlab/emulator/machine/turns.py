# SPDX-License-Identifier: Apache-2.0
"""A launch beside others: it runs for a turn and says how it stands, and never decides alone that nothing can go on.

`S` is the Scheduler of one launch. Who has the next turn, which CTAs are admitted, and when a wait is hopeless is for whoever runs several (emulator/grids.py).
"""
from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from . import late_stores, slow_warps

if TYPE_CHECKING:
    from .scheduler import Scheduler


class State(Enum):
    """How a launch stands after its turn."""

    RUNS = "some of its threads can go on"
    POLLS = "only loops that poll are left, and something has changed since they looked"
    IDLE = "only loops that poll are left, and nothing that it knows of has changed"
    WAITS = "its threads wait for others, or its CTAs for a place"
    OVER = "all its CTAs have ended"


def turn(S: Scheduler, cohorts: int) -> State:
    """Run up to so many cohorts, or until one has raised a flag at which others should look."""
    S.flagged = False
    for _ in range(cohorts):
        while not S.heap:
            state = _unblock(S)
            if state is not State.RUNS:
                return state
        S.run_next()
        if S.flagged:
            break
    return State.RUNS


def _unblock(S: Scheduler) -> State:
    """Nothing of this launch can run: what it can still do by itself, in the order of Scheduler.unblock."""
    M = S.M
    if S.later:
        S.rounds += 1
        for C in S.later:
            S.enqueue(C)
        S.later = []
        return State.RUNS
    M.step += 1
    if M.ended == M.geometry.ctas:
        return State.OVER
    if S.polling and S.polled_at != M.progress:
        return State.POLLS
    if M.landing.advance():
        M.progress += 1
        S.events += 1
        S.wake()
        if S.heap or M.landing.pending():
            return State.RUNS
        if S.polling:
            return State.POLLS
    if S.wake():
        return State.RUNS
    if late_stores.release(S) or slow_warps.release(S) or S.release_partial():
        S.events += 1
        return State.RUNS
    return State.IDLE if S.polling else State.WAITS
