# SPDX-License-Identifier: Apache-2.0
"""What actors share in an SM (sm.py): barriers, and units that serve one request after the other, or those of several warps in turn."""
from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

NEVER = float("inf")
SEEN = 20_000.0              # cycles over which it is looked at how often warps are at a unit
IDLE = 0.8                   # share of the time that a warp waits, at most
OTHERS = 2.0                 # that hold a warp up, at most: where more are there, units are as busy as PTX says only if ptxas leaves all of its instructions
FAR = 100                    # times as many, after which what was seen is written down anew


@dataclass(slots=True)
class Unit:
    """Serves one request after the other; busy: cycles served."""

    free: float = 0.0
    busy: float = 0.0

    def serve(self, at: float, cycles: float) -> float:
        """When a request that comes at `at` is through."""
        self.free = free = (at if at > self.free else self.free) + cycles
        self.busy += cycles
        return free

    def behind(self, at: float, cycles: float, most: float) -> float:
        """The same of one that does at once what it had time for in the last `most` cycles, and was not asked for."""
        return self.serve(max(self.free, at - most), cycles)


class Barrier:
    """Phases of an mbarrier, or generations of another barrier: when each was complete, and what the running one has."""

    __slots__ = ("wanted", "pending", "bytes", "latest", "asked", "since", "done", "waiting", "met")

    def __init__(self, wanted: int):
        self.wanted = self.pending = wanted
        self.bytes, self.latest = 0, 0.0
        self.asked = NEVER                       # when the first load of the running phase was issued
        self.since: dict[int, float] = {}        # of phases that nobody has waited for: the same
        self.done: list[float] = []
        self.waiting: list[Any] = []
        self.met: dict[tuple[int, int], int] = {}


class Lately:
    """What a cycle counts, of which those over SEEN cycles ago count next to nothing: for all units of an SM. in_order: they serve one request
    after the other; since: when one counts 1; later ones count the more."""

    __slots__ = ("at", "begun", "since", "weight", "seen", "units", "in_order")

    def __init__(self, in_order: bool = False) -> None:
        self.in_order = in_order
        self.at = self.begun = self.since = self.seen = 0.0
        self.weight = 1.0
        self.units: list[Shared] = []

    def move(self, at: float) -> None:
        """Now is `at`: `weight` is what a cycle counts, `seen` what all cycles before count, of those of now."""
        if at == self.at:
            return
        self.at, self.seen = at, -SEEN * math.expm1(min(0.0, self.begun - at) / SEEN)
        if at - self.since > FAR * SEEN:
            less, self.since = math.exp((self.since - at) / SEEN), at
            for unit in self.units:
                unit.forget(less)
        self.weight = math.exp((at - self.since) / SEEN)

    def begin(self, at: float) -> None:
        """What was before counts nothing."""
        self.at = self.begun = self.since = at
        self.weight, self.seen = 1.0, 0.0
        for unit in self.units:
            unit.forget(0.0)

    def room(self, cycles: float, idle: float) -> float:
        """What so many cycles of now count, with those before in which somebody comes. idle: share of the time in which nobody does."""
        return (cycles + (1 - idle) * self.seen) * self.weight


class Shared:
    """Serves what warps ask for in turn, where it is not known when they come: each takes longer by as much as others are there, on average over the last SEEN cycles.
    Warps that all run the same loop would else always miss each other, or always meet. What is asked of it is of the moment to which `lately` was moved."""

    __slots__ = ("lately", "busy", "there", "all_of_them", "free")

    def __init__(self, lately: Lately) -> None:
        self.lately = lately
        self.busy = self.all_of_them = self.free = 0.0
        self.there: dict[Any, float] = {}              # by warp: cycles that it was there
        lately.units.append(self)

    def average(self, warp: Any) -> float:
        """Share of the time before that a warp has had the unit."""
        there = self.there.get(warp)
        return min(IDLE, there / max(1.0, self.lately.weight * self.lately.seen)) if there else 0.0

    def in_use(self) -> float:
        """Share of the time before that anybody has had the unit, at most 1."""
        return min(1.0, self.all_of_them / max(1.0, self.lately.weight * self.lately.seen))

    def become(self, other: Shared) -> None:
        """Have been asked for what another one was."""
        self.busy, self.there, self.all_of_them, self.free = other.busy, dict(other.there), other.all_of_them, other.free

    def in_order(self, at: float, cycles: float) -> float:
        """By how much a request that comes at `at` waits for those before it."""
        waits = max(0.0, self.free - at)
        self.free, self.busy = at + waits + cycles, self.busy + cycles
        return waits

    def used(self, cycles: float, warp: Any) -> None:
        """A warp has the unit for so long."""
        more = cycles * self.lately.weight
        self.there[warp] = self.there.get(warp, 0.0) + more
        self.all_of_them += more

    def beside(self, at: float, cycles: float, warp: Any, until: float) -> float:
        """Share of the next so many cycles in which the unit is in use: all of them until then, afterwards as many as others use where this warp does not."""
        begun = min(1.0, max(0.0, until - at) / max(1.0, cycles))
        seen, mine = self.lately.weight * self.lately.seen, self.there.get(warp, 0.0)
        return begun + (1 - begun) * min(1.0, max(0.0, self.all_of_them - mine) / max(1.0, seen - mine))

    def met(self, warp: Any, cycles: float, idle: float) -> float:
        """How many times as long as a warp, which has it for so many cycles, more than none, others have it."""
        return min(OTHERS, max(0.0, (self.all_of_them - self.there.get(warp, 0.0)) / self.lately.room(cycles, idle)))

    def forget(self, less: float) -> None:
        """All cycles count less."""
        self.there = {other: there * less for other, there in self.there.items()}
        self.all_of_them *= less


class Part:
    """What the warps of a part of an SM share. several: parts that have been asked for the same so far, and are one until one of them is asked alone."""

    __slots__ = ("several", "scheduler", "special", "alu", "mma")

    def __init__(self, lately: Lately, several: Sequence[int]):
        self.several = tuple(several)
        self.scheduler, self.special, self.alu = Shared(lately), Shared(lately), Shared(lately)
        self.mma = Unit()

    def split(self, several: Collection[int]) -> Part:
        """Some of the parts, on their own from now on."""
        found = Part(self.scheduler.lately, [part for part in self.several if part in several])
        self.several = tuple(part for part in self.several if part not in several)
        for mine, others in ((self.scheduler, found.scheduler), (self.special, found.special), (self.alu, found.alu)):
            others.become(mine)
        found.mma = replace(self.mma)
        return found


class Parts:
    """The four parts of an SM: who asks for so many from one on (`of`) gets them as units that serve one or several alike."""

    def __init__(self, lately: Lately):
        self.all = [Part(lately, range(4))]
        self.known: dict[tuple[int, int], tuple[list[Shared], list[Shared], list[Shared], list[Unit]]] = {}

    def of(self, first: int, count: int) -> tuple[list[Shared], list[Shared], list[Shared], list[Unit]]:
        """(schedulers, units for exponentials, pipes of half the lanes, tensor cores for mma.sync) of so many parts, the first one's first."""
        found = self.known.get((first, count))
        if found is None:
            asked = [(first + k) % 4 for k in range(count)]
            alone = [part.split(asked) for part in self.all if 0 < sum(each in asked for each in part.several) < len(part.several)]
            if alone:
                self.all += alone
                self.known.clear()
            mine = sorted((part for part in self.all if part.several[0] in asked), key=lambda part: min(map(asked.index, part.several)))
            found = self.known[first, count] = ([part.scheduler for part in mine], [part.special for part in mine], [part.alu for part in mine],
                                                [part.mma for part in mine])
        return found

    def busy(self, name: str) -> float:
        """Cycles, on average over the parts."""
        return sum(len(part.several) * float(getattr(part, name).busy) for part in self.all) / 4


def later(units: Sequence[Shared], cycles: float, warp: Any, meets: float | None = 1.0, idle: float = 0.0, power: float = 1.0) -> list[float]:
    """By how much a warp's request to each of these units of an SM takes longer because of others'. meets: of that, what the warp cannot avoid (None: as much as there
    are others, since they come when it does not as long as there is room for that; power: of that share); idle: share of the time in which nobody comes, since all wait
    for the same."""
    if not cycles:
        return [0.0] * len(units)
    lately = units[0].lately
    if lately.in_order:
        return [unit.in_order(lately.at, cycles) for unit in units]
    weight, room = lately.weight, lately.room(cycles, idle)
    found: list[float] = []
    known = had = more = took = -1.0
    for unit in units:
        there, all_of_them = unit.there, unit.all_of_them
        mine = there.get(warp, 0.0)
        if all_of_them != known or mine != had:              # mostly parts are asked for the same by the same warps
            known, had = all_of_them, mine
            others = (all_of_them - mine) / room
            others = 0.0 if others < 0 else OTHERS if others > OTHERS else others
            took = cycles * others
            more = (cycles + took) * weight
            if meets is not None:
                took *= meets
            elif others < 1:
                took *= others ** power
        there[warp] = mine + more
        unit.all_of_them = all_of_them + more
        unit.busy += cycles
        found.append(took)
    return found


class Multiprocessor:
    """The units of an SM."""

    def __init__(self, in_order: bool = False) -> None:
        self.lately = Lately(in_order)
        self.parts = Parts(self.lately)
        self.idle = Shared(self.lately)
        self.products = Shared(self.lately)      # who has the tensor core, on average
        self.tensor, self.port, self.engine, self.l2, self.dram, self.stores, self.by_lanes = (Unit() for _ in range(7))
        self.holder: Any = None          # who hands over products one after the other, and who waits for that
        self.held: list[Any] = []
        self.under_way = deque[float]()  # when the products handed over last are done
        self.at_once = 0.0
        self.loaded = self.pushed = self.arrived = 0.0
        self.ahead = 0.0                 # cycles between k-blocks' loads and the end of the first wait for them, in all
        self.ready = NEVER               # from when on tensor loads go out: the first one fetches what describes the tensor, and finds no address translated

    def multiply(self, at: float, cycles: float, warp: Any) -> float:
        """When a product of a warp is done. Before the first one warps had nothing to do beside each other."""
        (self.lately.move if self.products.there else self.lately.begin)(at)
        self.products.used(cycles, warp)
        return self.tensor.serve(at, cycles)

    def lanes(self, memory: Any, at: float, nbytes: float, end: float) -> float:
        """When what lanes load, and the L1 has not, is there: at `end`, where nobody else loads; later by as long as the L2 and memory (l2_and_memory.Memory) are at
        work for others."""
        waits = max(0.0, max(self.l2.free, self.dram.free) - at)
        there = self.l2.serve(at, nbytes / memory.lanes)
        if memory.missed:
            missed = nbytes * memory.missed
            pushed = min(missed * memory.share, max(0.0, memory.dirty - self.pushed))
            self.pushed += pushed
            there = max(there, self.dram.serve(at, (missed + pushed) / memory.dram))
        self.loaded += nbytes
        self.arrived += nbytes
        return float(max(end + waits + min(1.0, memory.missed) * memory.lane_waits, there))

    def taken(self, end: float, most: int) -> float:
        """When the tensor cores take a product that will be done at `end`: at most so many before it, of all warpgroups, are under way then."""
        self.under_way.append(end)
        return self.under_way.popleft() if len(self.under_way) > most else 0.0

    def fed(self, at: float, times: float, most: float) -> float:
        """How many times as long a product takes because copies write into shared memory: `times`, where `most` bytes a cycle arrive or more."""
        return 1 + (times - 1) * min(1.0, self.arrived / max(1.0, at) / most)

    def took(self, asked: float, at: float, part: float = 1.0) -> None:
        """What was asked for at `asked` is used from `at` on: a k-block, or a part of one."""
        if asked < NEVER:
            self.ahead += part * (at - asked)
