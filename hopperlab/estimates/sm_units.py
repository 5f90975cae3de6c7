# SPDX-License-Identifier: Apache-2.0
"""What actors share in an SM (sm.py): barriers, and units that serve one request after the other, or those of several warps in turn."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

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


class Shared:
    """Serves what warps ask for in turn, where it is not known when they come: each takes longer by as much as others are there, on average over the last SEEN cycles.
    Warps that all run the same loop would else always miss each other, or always meet."""

    __slots__ = ("busy", "since", "there", "all_of_them")

    def __init__(self) -> None:
        self.busy = self.since = self.all_of_them = 0.0
        self.there: dict[Any, float] = {}              # by warp: cycles that it was there, those of `since` count 1 and later ones the more

    def later(self, at: float, cycles: float, warp: Any, meets: float | None = 1.0, idle: float = 0.0, power: float = 1.0) -> float:
        """By how much a warp's request takes longer because of others'. meets: of that, what the warp cannot avoid (None: as much as there are others, since they
        come when it does not as long as there is room for that; power: of that share); idle: share of the time in which nobody comes, since all wait for the same."""
        weight, mine = self._weight(at), self.there.get(warp, 0.0)
        others = min(OTHERS, max(0.0, self.all_of_them - mine) / weight / (cycles + (1 - idle) * _seen(at))) if cycles else 0.0
        took = cycles * (1 + others)
        self._there(warp, took * weight)
        self.busy += cycles
        return (took - cycles) * min(1.0, others ** power if meets is None else meets)

    def average(self, at: float, warp: Any) -> float:
        """Share of the time before that a warp has had the unit."""
        return min(IDLE, self.there.get(warp, 0.0) / max(1.0, self._weight(at) * _seen(at)))

    @property
    def used_at_all(self) -> bool:
        """Whether a warp has had the unit."""
        return self.all_of_them > 0

    def used(self, at: float, cycles: float, warp: Any) -> None:
        """A warp has the unit for so long."""
        self._there(warp, cycles * self._weight(at))

    def beside(self, at: float, cycles: float, warp: Any, until: float) -> float:
        """Share of the next so many cycles in which the unit is in use: all of them until then, afterwards as many as others use where this warp does not."""
        begun = min(1.0, max(0.0, until - at) / max(1.0, cycles))
        seen, mine = self._weight(at) * _seen(at), self.there.get(warp, 0.0)
        return begun + (1 - begun) * min(1.0, max(0.0, self.all_of_them - mine) / max(1.0, seen - mine))

    def _there(self, warp: Any, cycles: float) -> None:
        self.there[warp] = self.there.get(warp, 0.0) + cycles
        self.all_of_them += cycles

    def _weight(self, at: float) -> float:
        """What a cycle counts now."""
        if at - self.since > FAR * SEEN:
            less, self.since = math.exp((self.since - at) / SEEN), at
            self.there = {other: there * less for other, there in self.there.items()}
            self.all_of_them *= less
        return math.exp((at - self.since) / SEEN)


def _seen(at: float) -> float:
    """Cycles before this one, those that are long ago count less."""
    return -SEEN * math.expm1(-at / SEEN)


class Multiprocessor:
    """The units of an SM."""

    def __init__(self) -> None:
        self.schedulers, self.special, self.alu = ([Shared() for _ in range(4)] for _ in range(3))
        self.idle = Shared()
        self.products = Shared()         # who has the tensor core, on average
        self.mma = [Unit() for _ in range(4)]
        self.tensor, self.port, self.engine, self.l2, self.dram, self.stores, self.lanes = (Unit() for _ in range(7))
        self.holder: Any = None          # who hands over products one after the other, and who waits for that
        self.held: list[Any] = []
        self.at_once = 0.0
        self.loaded = self.pushed = self.arrived = 0.0
        self.ahead = 0.0                 # cycles between k-blocks' loads and the end of the first wait for them, in all
        self.ready = NEVER               # from when on tensor loads go out: the first one fetches what describes the tensor, and finds no address translated

    def multiply(self, at: float, cycles: float, warp: Any) -> float:
        """When a product of a warp is done."""
        self.products.used(at, cycles, warp)
        return self.tensor.serve(at, cycles)

    def fed(self, at: float, times: float, most: float) -> float:
        """How many times as long a product takes because copies write into shared memory: `times`, where `most` bytes a cycle arrive or more."""
        return 1 + (times - 1) * min(1.0, self.arrived / max(1.0, at) / most)

    def slower(self, at: float, cycles: float, warp: Any, *more: float) -> tuple[float, ...]:
        """What instructions of a warp take longer in the next so many cycles. more: what they would if the tensor core worked all the time."""
        if not any(more):
            return more
        held = self.products.beside(at, cycles, warp, self.tensor.free)
        return tuple(held * each for each in more)

    def took(self, asked: float, at: float, part: float = 1.0) -> None:
        """What was asked for at `asked` is used from `at` on: a k-block, or a part of one."""
        if asked < NEVER:
            self.ahead += part * (at - asked)
