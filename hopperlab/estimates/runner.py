# SPDX-License-Identifier: Apache-2.0
"""An actor of a program as it runs on an SM (sm.py): where it is, and what it has open."""
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .programs import Actor
    from .sm_units import Multiprocessor

APART = 2.0                  # times the share of the time in which there are products, by which warpgroups that take turns are not alike (fitted on short launches)


@dataclass
class Runner:
    """place: of its CTA among those there; part: of the SM that its first warp is on; open: when what is open is done, by kind; groups, reads: when what was committed is
    done, and when its copies to shared memory were begun (NEVER: none); worked: issue slots of a warp since its last product; handed: when it can hand over the next
    one; told: when its arrivals at mbarriers are behind it; stored: whether it has stored a tile and waited for nothing since; put: whether lanes have stored
    themselves; who: the warps, as units of the SM know them."""

    actor: Actor
    sm: Multiprocessor
    copy: int
    at: float = 0.0
    place: int = 0
    part: int = 0
    step: int = 0
    open: dict[Any, float] = field(default_factory=dict)
    groups: dict[Any, list[tuple[float, float]]] = field(default_factory=dict)
    reads: dict[Any, list[tuple[float, float]]] = field(default_factory=dict)
    met: dict[Any, tuple[int, bool]] = field(default_factory=dict)
    copies: float = 0.0
    later: float = 0.0
    worked: float = 0.0
    handed: float = 0.0
    told: float = 0.0
    wrote: bool = False
    put: bool = False
    stored: bool = False
    over: bool = False

    def __post_init__(self) -> None:
        self.who, self.began = (self.place, self.actor.first), self.at

    def alike(self, lost: float) -> float:
        """How many others of its CTA do the same at the same time: those that wait for the same begin their first tile within 10 cycles, and drift apart, slowly
        (benchmarks/marked_attention.py); those that take turns do so the less, the more of the time products take, by which the turns keep them apart.
        lost: cycles since its CTA began until a third of that is left."""
        if not self.actor.beside:
            return 0.0
        there = self.actor.beside * math.exp((self.began - self.at) / lost)
        return there * max(0.0, 1 - APART * self.sm.products.in_use()) if self.actor.turns else there
