# SPDX-License-Identifier: Apache-2.0
"""The units of an SM that actors share (sm.py): each serves one request after the other, or those of several warps in turn."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

NEVER = float("inf")
SEEN = 20_000.0              # cycles over which it is looked at how often warps are at a unit
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


class Shared:
    """Serves what warps ask for in turn, where it is not known when they come: each takes longer by as much as others are there, on average over the last SEEN cycles.
    Warps that all run the same loop would else always miss each other, or always meet."""

    __slots__ = ("busy", "since", "there", "all_of_them")

    def __init__(self) -> None:
        self.busy = self.since = self.all_of_them = 0.0
        self.there: dict[Any, float] = {}              # by warp: cycles that it was there, those of `since` count 1 and later ones the more

    def later(self, at: float, cycles: float, warp: Any) -> float:
        """By how much a warp's request takes longer because of others'."""
        if at - self.since > FAR * SEEN:
            less, self.since = math.exp((self.since - at) / SEEN), at
            self.there = {other: there * less for other, there in self.there.items()}
            self.all_of_them *= less
        weight, mine = math.exp((at - self.since) / SEEN), self.there.get(warp, 0.0)
        others = min(OTHERS, max(0.0, self.all_of_them - mine) / weight / (cycles - SEEN * math.expm1(-at / SEEN))) if cycles else 0.0
        took = cycles * (1 + others)
        self.there[warp] = mine + took * weight
        self.all_of_them += took * weight
        self.busy += cycles
        return took - cycles


class Multiprocessor:
    """The units of an SM."""

    def __init__(self) -> None:
        self.schedulers, self.special, self.alu = ([Shared() for _ in range(4)] for _ in range(3))
        self.mma = [Unit() for _ in range(4)]
        self.tensor, self.port, self.engine, self.l2, self.dram, self.stores, self.lanes = (Unit() for _ in range(7))
        self.loaded = self.pushed = self.arrived = 0.0
        self.ahead = 0.0                 # cycles between k-blocks' loads and the end of the first wait for them, in all
        self.ready = NEVER               # from when on tensor loads go out: the first one fetches what describes the tensor, and finds no address translated

    def took(self, asked: float, at: float, part: float = 1.0) -> None:
        """What was asked for at `asked` is used from `at` on: a k-block, or a part of one."""
        if asked < NEVER:
            self.ahead += part * (at - asked)
