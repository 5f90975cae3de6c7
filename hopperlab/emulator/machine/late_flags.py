# SPDX-License-Identifier: Apache-2.0
"""A run in which whoever is about to raise a flag that a loop may look at does so when nobody else can go on (altered.py, FLAGS); of several the one who came
last, and of those who raise their first the one who came first. In TURNS one of the warps is the last of all, until it has had to go on, and then the next one; so it
is in COUNTS, from the first atomic on: who waits for a counter with fewer arrivals than there are goes on without one of them.

So the others run as far ahead as what they know allows: a producer that has a credit too many fills a slot again before its reader has handed it back, though
the reader was quick. Any order of threads is one that a GPU may show. `S` is the Scheduler.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .altered import COUNTS, FLAGS, TURNS
from .recurrence import digest_of

if TYPE_CHECKING:
    from .cohort import Cohort

MOST_LOOKS = 4                          # of loops that wait for something else each time, while nothing changes
CARELESS = {"relaxed", "cta"}           # of a store that publishes nothing: libcu++'s pipeline marks so which warps have come, and nobody waits for it


def blocks(M: Any) -> frozenset[int]:
    """The translated blocks that raise a flag which may publish something; none, unless the run is such a one."""
    if M.altered.way not in (FLAGS, TURNS, COUNTS):
        return frozenset()
    body, spans, flags = M.translation.function.body, M.translation.spans, M.translation.flags
    raises = [i.index for i in body if i.index in flags and not (i.op == "st" and CARELESS.issubset(i.mods))]
    if M.altered.way == COUNTS:
        raises = [i for i in raises if body[i].op != "st"]
    return frozenset(number for number, (start, end) in enumerate(spans) if any(i.index in raises for i in body[start:end]))


def held_back(S: Any, C: Cohort) -> bool:
    """True when the cohort has to wait before its block, which raises a flag; it is let go once by `release`."""
    if C.pc == S.raising:
        S.raising = None
        return False
    S.about_to_raise.append(C)
    return True


def release(S: Any) -> bool:
    """Nobody else can go on, but for loops that have something new to look at: those go first, then who came last, with all at the same flag."""
    if not S.about_to_raise or S.later:
        return False
    if S.polling and (S.polled_at != S.M.progress or _goes_round(S)):
        S.poll_again()
        return True
    if S.M.altered.way == COUNTS and S.last < 0:
        S.last = max(int(C.gids[-1]) >> 5 for C in S.about_to_raise)
    S.about_to_raise = [part for C in S.about_to_raise for part in _apart(S, C)]
    others = [C for C in S.about_to_raise if S.last not in C.warp_counts()[0]]
    if not others:
        others = S.about_to_raise
    if S.M.altered.way == TURNS and (S.last < 0 or others is S.about_to_raise) or S.M.altered.way == COUNTS and others is S.about_to_raise:
        S.last = _next(S)
    C = others[-1]
    if not _has_told(S, C):
        C = next(C for C in others if not _has_told(S, C))
    S.raising = C.pc
    for C in [C for C in others if C.pc == S.raising]:
        S.about_to_raise.remove(C)
        S.told[C.warp_counts()[0]] = True
        S.enqueue(C)
    return True


def _goes_round(S: Any) -> bool:
    """Whether loops that have looked since the last change have come on by it, and may find what they wait for next raised already."""
    where, (progress, before, looks) = frozenset(digest_of(S.M, C) for C in S.polling), S.looked
    if progress != S.M.progress:
        before, looks = frozenset(), 0
    S.looked = S.M.progress, where, looks + 1
    return where != before and looks < MOST_LOOKS


def _apart(S: Any, C: Cohort) -> tuple[Cohort, ...]:
    """A cohort, or two where one of several warps is to be the last."""
    last = C.gids >> 5 == S.last
    if last.all() or not last.any():
        return (C,)
    live = S.blocks[C.pc].live_in
    parts = C.split(last, C.pc, C.pc, live, live)
    for part in parts:
        part.resume = C.resume
    return parts


def _has_told(S: Any, C: Cohort) -> bool:
    return bool(S.told[C.warp_counts()[0]].any())


def _next(S: Any) -> int:
    """Of the warps that have raised flags, the one behind the one that has been last."""
    warps = np.flatnonzero(S.told)
    return int(warps[warps > S.last][0]) if (warps > S.last).any() else int(warps[0]) if len(warps) else -1
