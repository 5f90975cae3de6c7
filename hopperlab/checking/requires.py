# SPDX-License-Identifier: Apache-2.0
"""Whether the mechanism asked for was used: requirements on what the emulator counted and on the order of events.

An answer of plain loads and __syncthreads passes every comparison of values; it must not pass these.
"""
from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable
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


NEEDLESS = {
    "ld.global": ("global_load_requests",), "ld.shared": ("shared_load_requests",), "ldmatrix": ("matrix_load_requests",),
    "atom or red": ("global_atomic_requests", "shared_atomic_requests"), "cp.async": ("cp_async_requests",),
    "cp.async.bulk loads": ("bulk_loads",), "bulk reductions": ("bulk_reduces", "tma_reduces"), "mma.sync": ("mma_sync", "wmma"),
    "loads of the tensor map's words": ("tensor_map_load_bytes",),
    "arrivals on mbarriers": ("mbarrier_arrivals",), "ld of another CTA's memory": ("dsmem_load_bytes",), "copies between CTAs": ("dsmem_copy_bytes",),
}
"""What an exercise may have no need of, in the words of a message, and the counters that show it."""


def needless(*ways: str, instead: str, needed: Container[str] = ()) -> Requirement:
    """None of these ways (keys of NEEDLESS) may run, but for the counters that are `needed`; `instead` says what does the work, after a colon."""
    counters = {name: way for way in ways for name in NEEDLESS[way] if name not in needed}

    def complaint(run: Any) -> str:
        found = [f"{way} ({name} is {run.counters[name]:,})" for name, way in counters.items() if run.counters[name]]
        return f"there are {' and '.join(found)}, which this exercise has no use for: {instead}" if found else ""
    return Requirement("no " + ", ".join(ways), complaint)


WIDTH = re.compile(r"(?:\.v(?P<words>[248]))?\.[bsuf](?P<bits>8|16|32|64|128)\b")
MOVES = ("ld", "st")
LOCAL = re.compile(r"(?:ld|st)(?:\.\w+)*\.local\b|cvta(?:\.\w+)*\.local\b")


def moved_at_once(size: int, counters: Container[str], what: str) -> Requirement:
    """Every ld and st that adds to one of these counters must move `size` bytes per lane at once. what: what they are for, in the message."""
    def complaint(run: Any) -> str:
        for one in run.counters.by_instruction():
            found = WIDTH.search(one.opcode)
            if one.opcode.split(".")[0] in MOVES and found and any(amount for name, amount in one.counts.items() if name in counters):
                width = int(found["words"] or 1) * int(found["bits"]) // 8
                if width != size:
                    return f"{one.opcode} ({one.place}) moves {width} bytes of a lane at once, and it should be {size}: {what}"
        return ""
    return custom(f"{size} bytes per lane at once", complaint)


def no_local_memory(what: str) -> Requirement:
    """No array of a thread may lie in memory, which is where those go that are read or written by an index that changes. what: what stays in registers."""
    def complaint(run: Any) -> str:
        found = next((one for one in run.counters.by_instruction() if LOCAL.match(one.opcode)), None)
        return "" if found is None else (f"{found.opcode} ({found.place}) goes to local memory: {what} stays in registers, in an array whose every index is a number "
                                         "when the program is compiled, or in variables of its own")
    return custom(f"{what} in registers", complaint)


def together(*requirements: Requirement) -> Requirement:
    """Several that count as one: what the first one that is not met says."""
    return Requirement("; ".join(one.text for one in requirements), lambda run: next(filter(None, (one.complaint(run) for one in requirements)), ""),
                       any(one.accesses for one in requirements))


def peak_in_flight(events: Iterable[Any], operation: str) -> int:
    """The most operations that one block had between issue and landing at once. operation: as the timeline names it, such as 'cp' or 'tma'."""
    now: dict[int, int] = {}
    most = 0
    for event in events:
        if event.what == f"issue {operation}":
            now[event.block] = now.get(event.block, 0) + 1
            most = max(most, now[event.block])
        elif event.what == f"land {operation}":
            now[event.block] = now.get(event.block, 0) - 1
    return most


OPERATIONS = {"cp": ("copy into shared memory", "copies into shared memory"), "store cp": ("store out of shared memory", "stores out of shared memory")}
"""What messages call the operations whose number in flight an exercise asks for, as the timeline names them."""


def in_flight(operation: str, amount: int, why: str = "", exact: bool = True, counting: Callable[[Any], Iterable[Any]] | None = None) -> Requirement:
    """Under the lazy schedule a block must have `amount` operations between issue and landing at its peak (exact=False: at least). counting: the events of a run
    with accesses that count (None: all of the timeline)."""
    def complaint(run: Any) -> str:
        found = peak_in_flight(run.timeline if counting is None else counting(run), operation)
        met = found == amount if exact else found >= amount
        asked = f"{amount}" if exact else f"at least {amount}"
        return "" if met else f"a block had at most {found} {one if found == 1 else several} in flight at once, and it should be {asked}" + (f": {why}" if why else "")
    one, several = OPERATIONS[operation]
    return Requirement(f"{several} in flight: {amount}", complaint, counting is not None)


def kept_full(slots: int, issue: str, land: str, what: str) -> Requirement:
    """Under the lazy schedule, whenever one of a block's operations lands, all others that a ring of `slots` has room for are on their way. Where several
    land at once, because several warps wait for them, that is asked of the first.

    issue, land: as the timeline names them; what: 'copies', and the like, in the message.
    """
    def complaint(run: Any) -> str:
        total = Counter(event.block for event in run.timeline if event.what == issue)
        issued, landed = Counter[int](), Counter[int]()
        landing: set[int] = set()                              # blocks in which nobody has done anything since a landing
        for event in run.timeline:
            block = event.block
            issued[block] += event.what == issue
            if event.what != land:
                if event.kind in ("issue", "arrive", "wait"):
                    landing.discard(block)
                continue
            now, room = issued[block] - landed[block], min(slots, total[block] - landed[block])
            if now != room and block not in landing:
                return (f"when number {landed[block] + 1} of the {what} of block {block} had to land, {now} of them were on their "
                        f"way, and it should be {room}: a ring of {slots} slots stays full in every turn, not only in the first ones")
            landed[block] += 1
            landing.add(block)
        return ""
    return custom(f"{what} on their way in every turn: {slots}", complaint)


LANDS, LEAVES = "place cp", "place store cp"
PLACES = {LANDS: "copies of block {} land in", LEAVES: "stores of block {} leave from"}


def in_slots(event: str, slots: int, why: str, dynamic: range | None = None,
             lie: str = "the slots lie in the dynamic shared memory that the launch gives") -> Requirement:
    """The copies of each block must land at (LANDS), or its stores leave from (LEAVES), `slots` places at most. dynamic: bytes of the launch's dynamic shared memory, at
    one of which they must begin (None: anywhere); lie: that in words."""
    def complaint(run: Any) -> str:
        places: dict[int, set[int]] = {}
        for one in run.timeline:
            if one.what == event:
                found, place = places.setdefault(one.block, set()), int(one.detail)
                found.add(place)
                if dynamic is not None and place not in dynamic:
                    where = f"the dynamic shared memory, at byte {place}" if place >= 0 else "shared memory that the kernel declares for itself"
                    return f"{PLACES[event].format(one.block)} {where} (line {one.line}), and {lie}"
                if len(found) > slots:
                    there = "there is one slot" if slots == 1 else f"there are {slots} slots"
                    return f"{PLACES[event].format(one.block)} {len(found)} different places in shared memory, and {there}: {why}"
        return ""
    return custom(f"{slots} slots in shared memory", complaint, accesses=True)


def in_each_block(blocks: int, amount: int | None, event: str, what: str, accesses: bool = False) -> Requirement:
    """Every block of the grid must have `amount` of the events that the timeline names `event` (None: at least one); what: their name in the message."""
    def complaint(run: Any) -> str:
        found = Counter(one.block for one in run.timeline if one.what == event)
        for block in range(blocks):
            if found[block] != amount and (amount is not None or not found[block]):
                return (f"block {block} of {blocks} has {found[block]} {what}" + (f", and should have {amount}" if amount is not None else "") +
                        ": each block does its own tile, no other does it for it")
        return ""
    return custom(f"{what} in each block", complaint, accesses)


def custom(text: str, complaint: Callable[[Any], str], accesses: bool = False) -> Requirement:
    """Anything else: `complaint(run)` gets the emulator's Session (counters, timeline) and returns '' or what is missing."""
    return Requirement(text, complaint, accesses)
