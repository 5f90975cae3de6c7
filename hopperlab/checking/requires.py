# SPDX-License-Identifier: Apache-2.0
"""Whether the mechanism asked for was used: requirements on what the emulator counted and on the order of events.

An answer of plain loads and __syncthreads passes every comparison of values; it must not pass these.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Requirement:
    """`complaint(run)` is what is missing, in words with numbers, or '' when the run meets it. `text` says what is asked.
    accesses: the timeline must hold what warps load, store and multiply themselves."""

    text: str
    complaint: Callable[[Any], str]
    accesses: bool = False


def exactly(counter: str, amount: int, why: str = "") -> Requirement:
    """The counter (emulator/observe/counters.py, COUNTERS) must be `amount`."""
    return _counted(counter, lambda n: n == amount, f"exactly {amount:,}", why)


def at_least(counter: str, amount: int, why: str = "") -> Requirement:
    """The counter must reach `amount`."""
    return _counted(counter, lambda n: n >= amount, f"at least {amount:,}", why)


def at_most(counter: str, amount: int, why: str = "") -> Requirement:
    """The counter must not pass `amount`."""
    return _counted(counter, lambda n: n <= amount, f"at most {amount:,}", why)


def none_of(counter: str, why: str = "") -> Requirement:
    """The counter must be 0."""
    return _counted(counter, lambda n: n == 0, "0", why)


def _counted(counter: str, holds: Callable[[int], bool], amount: str, why: str) -> Requirement:
    def complaint(run: Any) -> str:
        found = run.counters[counter]
        return "" if holds(found) else f"{counter} is {found:,}, and should be {amount}" + (f": {why}" if why else "")
    return Requirement(f"{counter}: {amount}", complaint)


def peak_in_flight(run: Any, operation: str) -> int:
    """The most operations that one block had between issue and landing at once. operation: as the timeline names it, such as 'cp' or 'tma'."""
    now: dict[int, int] = {}
    most = 0
    for event in run.timeline:
        if event.what == f"issue {operation}":
            now[event.block] = now.get(event.block, 0) + 1
            most = max(most, now[event.block])
        elif event.what == f"land {operation}":
            now[event.block] = now.get(event.block, 0) - 1
    return most


def in_flight(operation: str, amount: int, why: str = "", exact: bool = True) -> Requirement:
    """Under the lazy schedule a block must have `amount` operations between issue and landing at its peak (exact=False: at least)."""
    def complaint(run: Any) -> str:
        found = peak_in_flight(run, operation)
        met = found == amount if exact else found >= amount
        asked = f"{amount}" if exact else f"at least {amount}"
        return "" if met else f"at most {found} '{operation}' operations were in flight in a block, and it should be {asked}" + (f": {why}" if why else "")
    return Requirement(f"'{operation}' in flight: {amount}", complaint)


def custom(text: str, complaint: Callable[[Any], str], accesses: bool = False) -> Requirement:
    """Anything else: `complaint(run)` gets the emulator's Session (counters, timeline) and returns '' or what is missing."""
    return Requirement(text, complaint, accesses)
