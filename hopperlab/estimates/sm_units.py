# SPDX-License-Identifier: Apache-2.0
"""What actors share in an SM (sm.py): barriers, and units that serve one request after the other, or those of several warps in turn."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """What a cycle counts, of which those over SEEN cycles ago count next to nothing: for all units of an SM. since: when one counts 1; later ones count the more."""

    __slots__ = ("at", "since", "weight", "seen", "units")

    def __init__(self) -> None:
        self.at = self.since = self.seen = 0.0
        self.weight = 1.0
        self.units: list[Shared] = []

    def move(self, at: float) -> None:
        """Now is `at`: `weight` is what a cycle counts, `seen` what all cycles before count, of those of now."""
        if at == self.at:
            return
        self.at, self.seen = at, -SEEN * math.expm1(-at / SEEN)
        if at - self.since > FAR * SEEN:
            less, self.since = math.exp((self.since - at) / SEEN), at
            for unit in self.units:
                unit.forget(less)
        self.weight = math.exp((at - self.since) / SEEN)

    def room(self, cycles: float, idle: float) -> float:
        """What so many cycles of now count, with those before in which somebody comes. idle: share of the time in which nobody does."""
        return (cycles + (1 - idle) * self.seen) * self.weight


class Shared:
    """Serves what warps ask for in turn, where it is not known when they come: each takes longer by as much as others are there, on average over the last SEEN cycles.
    Warps that all run the same loop would else always miss each other, or always meet. What is asked of it is of the moment to which `lately` was moved."""

    __slots__ = ("lately", "busy", "there", "all_of_them")

    def __init__(self, lately: Lately) -> None:
        self.lately = lately
        self.busy = self.all_of_them = 0.0
        self.there: dict[Any, float] = {}              # by warp: cycles that it was there
        lately.units.append(self)

    def average(self, warp: Any) -> float:
        """Share of the time before that a warp has had the unit."""
        there = self.there.get(warp)
        return min(IDLE, there / max(1.0, self.lately.weight * self.lately.seen)) if there else 0.0

    @property
    def used_at_all(self) -> bool:
        """Whether a warp has had the unit."""
        return self.all_of_them > 0

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

    def others(self, mine: float, room: float) -> float:
        """How many times as long others have had the unit as `room` (Lately.room), of which a warp itself had `mine`."""
        others = (self.all_of_them - mine) / room
        return 0.0 if others < 0 else OTHERS if others > OTHERS else others

    def met(self, warp: Any, cycles: float, idle: float) -> float:
        """The same of a warp that has it for so many cycles, more than none."""
        return self.others(self.there.get(warp, 0.0), self.lately.room(cycles, idle))

    def forget(self, less: float) -> None:
        """All cycles count less."""
        self.there = {other: there * less for other, there in self.there.items()}
        self.all_of_them *= less


def later(units: Sequence[Shared], cycles: float, warp: Any, meets: float | None = 1.0, idle: float = 0.0, power: float = 1.0) -> list[float]:
    """By how much a warp's request to each of these units of an SM takes longer because of others'. meets: of that, what the warp cannot avoid (None: as much as there
    are others, since they come when it does not as long as there is room for that; power: of that share); idle: share of the time in which nobody comes, since all wait
    for the same."""
    if not cycles:
        return [0.0] * len(units)
    weight = units[0].lately.weight
    room = units[0].lately.room(cycles, idle)
    found: list[float] = []
    known = mine = more = took = -1.0
    for unit in units:
        all_of_them, there = unit.all_of_them, unit.there.get(warp, 0.0)
        if all_of_them != known or there != mine:              # mostly all four parts are asked for the same by the same warps
            known, mine = all_of_them, there
            others = unit.others(mine, room)
            took = cycles * others
            more = (cycles + took) * weight
            took *= min(1.0, others ** power) if meets is None else meets
        unit.there[warp] = there + more
        unit.all_of_them = all_of_them + more
        unit.busy += cycles
        found.append(took)
    return found


class Multiprocessor:
    """The units of an SM."""

    def __init__(self) -> None:
        self.lately = Lately()
        # one for each part, and once more, since warps that stand one behind the other begin at any of them
        self.schedulers, self.special, self.alu = (2 * [Shared(self.lately) for _ in range(4)] for _ in range(3))
        self.idle = Shared(self.lately)
        self.products = Shared(self.lately)      # who has the tensor core, on average
        self.mma = 2 * [Unit() for _ in range(4)]
        self.tensor, self.port, self.engine, self.l2, self.dram, self.stores, self.lanes = (Unit() for _ in range(7))
        self.holder: Any = None          # who hands over products one after the other, and who waits for that
        self.held: list[Any] = []
        self.at_once = 0.0
        self.loaded = self.pushed = self.arrived = 0.0
        self.ahead = 0.0                 # cycles between k-blocks' loads and the end of the first wait for them, in all
        self.ready = NEVER               # from when on tensor loads go out: the first one fetches what describes the tensor, and finds no address translated

    def multiply(self, at: float, cycles: float, warp: Any) -> float:
        """When a product of a warp is done."""
        self.lately.move(at)
        self.products.used(cycles, warp)
        return self.tensor.serve(at, cycles)

    def fed(self, at: float, times: float, most: float) -> float:
        """How many times as long a product takes because copies write into shared memory: `times`, where `most` bytes a cycle arrive or more."""
        return 1 + (times - 1) * min(1.0, self.arrived / max(1.0, at) / most)

    def slower(self, at: float, cycles: float, warp: Any, *more: float) -> tuple[float, ...]:
        """What instructions of a warp take longer in the next so many cycles. more: what they would if the tensor core worked all the time."""
        if not any(more):
            return more
        self.lately.move(at)
        held = self.products.beside(at, cycles, warp, self.tensor.free)
        return tuple(held * each for each in more)

    def took(self, asked: float, at: float, part: float = 1.0) -> None:
        """What was asked for at `asked` is used from `at` on: a k-block, or a part of one."""
        if asked < NEVER:
            self.ahead += part * (at - asked)
