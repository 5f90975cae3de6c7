# SPDX-License-Identifier: Apache-2.0
"""One launch among others that may overlap with it: what it comes after, what its threads know, and how far it is."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .machine.events import Listener
from .machine.sm_places import Places, needs
from .machine.turns import State

if TYPE_CHECKING:
    from .hazards.grid_table import GridTable
    from .launch import Plan
    from .machine.machine import Machine


class Queue:
    """A stream, as the emulator knows it. null: the default stream of its device; blocking: ordered with that one, as CUDA's streams are that were not created
    as non-blocking."""

    def __init__(self, device: int = 0, null: bool = False, blocking: bool = False):
        self.device, self.null, self.blocking = device, null, blocking


class Grid(Listener):
    """A launch. It hears of its CTAs' ends.

    number:  1, 2, … in order of launches; title: what messages call it
    after:   grids that are over before it starts; front: the grid before it in its stream, where it is a dependent launch and may start before that one has
             ended; ahead: all grids in front of it, in its stream and through events (those that the end of its stream's work stands for)
    before:  what its threads know from the start, as numbers; goes_on: threads pass griddepcontrol.launch_dependents at once
    """

    def __init__(self, number: int, plan: Plan, queue: Queue, table: GridTable, goes_on: bool):
        self.number, self.plan, self.queue, self.table, self.goes_on = number, plan, queue, table, goes_on
        self.title, self.device = f"{plan.name} (launch {number})", queue.device
        self.body, self.block_index = plan.body, plan.geometry.block_index
        self.warps, self.cluster, ctas = plan.geometry.warps, plan.geometry.cluster_ctas, plan.geometry.ctas
        self.needs = needs(*plan.geometry.per_cta)
        self.ahead: frozenset[int] = frozenset()
        self.after: frozenset[int] = frozenset()
        self.front: Grid | None = None
        self.before, self.known_before = np.zeros(0, np.int64), frozenset[int]()
        self.machine: Any = None
        self.sm = np.zeros(0, np.int64)       # by slot: where its CTA is, or -1
        self.places: Any = None
        self.state = State.WAITS
        self.over = False
        self.spins = self.turn = 0
        self.beside = ""                      # what a report of a deadlock says of the others
        self.early = False                    # a CTA let the dependents start before it had waited itself
        self.triggered, self.ended, self.waited = (np.zeros(ctas, bool) for _ in range(3))
        self.keep: Any = None                 # what must live as long as the launch does

    # --- what machine and handlers say ------------------------------------------------------------------------------
    def ctas_end(self, slots: np.ndarray) -> None:
        """CTAs end."""
        self.ended[self.machine.slot_cta[slots]] = True
        self._give_back(slots)

    def _ctas(self, gids: np.ndarray) -> np.ndarray:
        ctas: np.ndarray = self.machine.slot_cta[np.unique(gids // self.machine.T)]
        return ctas

    def trigger(self, gids: np.ndarray) -> None:
        """griddepcontrol.launch_dependents by these threads; the first of each CTA counts."""
        ctas = self._ctas(gids)
        self.early |= bool((~self.triggered[ctas] & ~self.waited[ctas]).any())
        self.triggered[ctas] = True

    def has_waited(self, gids: np.ndarray) -> None:
        """griddepcontrol.wait has returned to these threads."""
        self.waited[self._ctas(gids)] = True

    def front_over(self) -> bool:
        """True when griddepcontrol.wait returns."""
        return self.front is None or self.front.over

    # --- order ------------------------------------------------------------------------------------------------------
    def lets_dependents_start(self) -> bool:
        """All CTAs have said so, or have ended."""
        return self.over or self.machine is not None and bool((self.triggered | self.ended).all())

    def learned_by_waiting(self) -> set[int]:
        """What griddepcontrol.wait makes known: the grid in front, and what that one knew at its end."""
        if self.front is None:
            return set()
        beyond = self.front.learned_by_waiting() if self.front.waited.any() else set()
        return {self.front.number, *self.front.before.tolist()} | beyond

    def held_back(self) -> set[int]:
        """Grids in front of a dependent launch that it does not know of at its start."""
        return set(self.ahead) - set(self.before.tolist()) if self.front is not None else set()

    def start(self, build: Callable[[Grid], Machine]) -> None:
        """Its machine; from now on CTAs may be admitted."""
        known, front = set(self.after), self.front
        if front is not None:
            known |= front.known_before                    # it began after that had ended
            if not front.early and (front.triggered | front.waited).all() and front.waited.any():
                known |= front.learned_by_waiting()
        self.before, self.known_before = np.array(sorted(known), np.int64), frozenset(known)
        self.machine = build(self)
        self.sm = np.full(self.machine.slots, -1)
        self.state = State.WAITS

    # --- places on the SMs ------------------------------------------------------------------------------------------
    def admit(self, places: Places) -> bool:
        """CTAs take the places that are free; True when there were any."""
        machine = self.machine
        if not machine.admit(min(places.room(self.needs), machine.slots)):
            return False
        new = np.flatnonzero((machine.slot_cta >= 0) & (self.sm < 0))
        self.sm[new], self.places = places.take(self.needs, len(new)), places
        return True

    def _give_back(self, slots: np.ndarray) -> None:
        slots = slots[self.sm[slots] >= 0]
        if len(slots):
            self.places.give(self.sm[slots], self.needs)
            self.sm[slots] = -1

    def end(self) -> None:
        """The launch is over, in whatever way."""
        self._give_back(np.arange(len(self.sm)))
        self.over, self.machine, self.keep = True, None, None
