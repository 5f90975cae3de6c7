# SPDX-License-Identifier: Apache-2.0
"""Which of several launches runs next, turn by turn, and when none of them can go on.

The schedule decides as it does inside a launch: 'eager' starts grids at once and lets the oldest go first; 'random' draws; under the others a grid runs no
earlier than the program forces it to, and of those that it waits for the newest goes first: what forgot to wait comes too early. CTAs of all grids share
the SMs of their device, in order of launch.
"""
from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import MemoryFault
from .grid import Grid, Queue
from .hazards import checks_end
from .launch import listeners, one_blas_thread
from .machine.sm_places import Places
from .machine.turns import State, turn

if TYPE_CHECKING:
    from .machine.events import Listener
    from .machine.machine import Machine
    from .observe.counting import Counting

COHORTS = 32          # of a turn
SPINS = 4             # turns of loops that poll and change memory, before others that can run go first


class Overlap:
    """The grids of a Grids that have started and are not over."""

    def __init__(self, grids: Any):
        self.grids, self.schedule = grids, grids.session.schedule
        self.rng = np.random.default_rng(grids.session.seed)
        self.turns = 0
        self.lines: defaultdict[Queue, deque[Grid]] = defaultdict(deque)      # by stream, grids that have not started: they do so in order
        self.over: set[int] = set()
        self.places: defaultdict[int, Places] = defaultdict(Places)          # by device
        self.counting: dict[int, list[Counting]] = {}

    def goes_on(self) -> bool:
        """Does a new grid run past launch_dependents before its dependents have run as far as they can?"""
        return self.schedule == "eager" or self.schedule == "random" and bool(self.rng.random() < 0.5)

    @property
    def started(self) -> list[Grid]:
        """Grids with a machine."""
        return [grid for grid in self.grids.all.values() if grid.machine is not None]

    # --- when to run ------------------------------------------------------------------------------------------------
    def launched(self, grid: Grid) -> None:
        """A grid stands in line."""
        self.lines[grid.queue].append(grid)
        if self.schedule == "eager":
            self._go(frozenset(), None)
        elif self.schedule == "random":
            self._go(frozenset(), int(self.rng.integers(0, 8)))

    def a_little(self) -> None:
        """Somebody looks whether grids are over."""
        if not self._go(frozenset(), 1 if self.schedule == "random" else 16):
            self._unstick()

    def run(self, wanted: frozenset[int]) -> None:
        """Run until these grids are over, or nothing can go on, which is a deadlock."""
        with one_blas_thread(), np.errstate(all="ignore"):
            while not all(self.grids.all[number].over for number in wanted):
                self._start()
                grid = self._next(wanted)
                if grid is not None:
                    self._turn(grid)
                elif not self._unstick():
                    self._deadlock()
                    return

    def _go(self, wanted: frozenset[int], turns: int | None) -> bool:
        """Some turns (None: until nothing goes on by itself, which is False)."""
        with one_blas_thread(), np.errstate(all="ignore"):
            while turns is None or turns > 0:
                self._start()
                grid = self._next(wanted)
                if grid is None or grid.state is State.POLLS and grid.spins > SPINS * SPINS:      # only the host's next step may end these loops
                    return False
                self._turn(grid)
                if grid.machine is not None and grid.machine.scheduler.flagged:      # who is launched next may look at that flag
                    return True
                turns = None if turns is None else turns - 1
        return True

    # --- starting and ending ----------------------------------------------------------------------------------------
    def _start(self) -> None:
        """Grids whose turn in their streams has come begin."""
        for line in self.lines.values():
            while line and (line[0].over or line[0].after <= self.over and (line[0].front is None or line[0].front.lets_dependents_start())):
                grid = line.popleft()
                if not grid.over:
                    grid.start(self._build)
                    self._admit()

    def _build(self, grid: Grid) -> Machine:
        counting = self.counting[grid.number] = []

        def listen(machine: Machine) -> list[Listener]:
            return [grid, *listeners(machine, counting)]
        return grid.plan.machine(listen, grid)

    def _admit(self) -> None:
        """CTAs take the places that are free, those of older grids first."""
        for grid in self.started:
            if grid.admit(self.places[grid.device]):
                grid.machine.scheduler.events += 1
                grid.state = State.RUNS

    def _finish(self, grid: Grid, whole: bool = True) -> None:
        """A grid is over (whole: by itself)."""
        machine, counting, session = grid.machine, self.counting.pop(grid.number)[0], self.grids.session
        grid.end()
        self.over.add(grid.number)
        if whole:
            machine.tell.finished()
        machine.tell.closed()
        counting.before = dict(session.counters)
        counting.finish(grid.plan.name)
        session.launches += 1
        self.grids.keep_found(sorted(machine.findings.hazards, key=lambda h: h.sort_key()))
        self.grids.ended(grid)
        for other in self.started:
            other.state = State.RUNS
        self._admit()

    # --- turns ------------------------------------------------------------------------------------------------------
    def _next(self, wanted: frozenset[int]) -> Grid | None:
        """Whose turn it is; None when nobody can do anything by himself."""
        able = [grid for grid in self.started if grid.state in (State.RUNS, State.POLLS)]
        runs = [grid for grid in able if grid.state is State.RUNS]
        if self.schedule == "random" and able:
            return (runs or able)[int(self.rng.integers(len(runs or able)))]
        if self.schedule == "eager":
            fresh = [grid for grid in runs if not grid.turn] if any(grid.machine.scheduler.flagged for grid in runs) else []
            return (fresh or runs)[0] if runs else min(able, key=lambda g: g.turn, default=None)
        first = [grid for grid in runs if grid.number in wanted]
        if first:
            return first[-1]
        polls = [grid for grid in able if grid.state is State.POLLS and (grid.spins < SPINS or not runs)]
        return min([grid for grid in polls if grid.number in wanted] or runs[-1:] or polls, key=lambda g: g.turn, default=None)

    def _turn(self, grid: Grid) -> None:
        machine, scheduler = grid.machine, grid.machine.scheduler
        before, ended, polls = machine.progress, machine.ended, grid.state is State.POLLS
        self.turns += 1
        grid.turn, grid.spins = self.turns, grid.spins + 1 if polls else 0
        if polls:
            if all(other.state is not State.RUNS for other in self.started) and scheduler.endless():
                grid.state = State.IDLE
                return
            scheduler.poll_again()
        try:
            grid.state = turn(scheduler, COHORTS if self.schedule != "random" else int(self.rng.integers(1, 9)))
        except MemoryFault as fault:
            checks_end.fault_as_hazard(machine, fault)
            self._finish(grid, whole=False)
            if self.grids.session.hazards_mode == "raise":
                raise
            return
        self._tell_others(grid, machine.progress - before, polls)
        if grid.state is State.OVER:
            self._finish(grid)
        elif machine.ended != ended:
            self._admit()
        for other in self.started if scheduler.flagged else ():
            if other is not grid and not grid.over and (other.state is State.POLLS or other.state is State.RUNS and not other.turn):
                self._turn(other)

    def _tell_others(self, grid: Grid, progress: int, polled: bool) -> None:
        """Memory has changed: whoever polls may see it."""
        for other in self.started if progress else ():
            if other is not grid:
                other.machine.progress += progress
                other.machine.scheduler.events += not polled
                if other.state is State.IDLE:
                    other.state = State.POLLS

    def _unstick(self) -> bool:
        """Nobody can do anything by himself. Those who gave way to their dependents go on; loops look again, unless they never end; waits with a time limit give up."""
        for grid in self.started:
            if not grid.goes_on:
                grid.goes_on, grid.state = True, State.RUNS
                return True
        for grid in self.started:
            scheduler = grid.machine.scheduler
            if scheduler.polling and not scheduler.endless():
                scheduler.poll_again()
                grid.state = State.RUNS
                return True
        for grid in self.started:
            if grid.machine.scheduler.spurious():
                grid.state = State.RUNS
                return True
        return False

    def _deadlock(self) -> None:
        """Nobody can go on: every grid says who waits; those that have not started never will."""
        stuck, unknown = self.started, [grid for grid in self.grids.all.values() if not grid.over]
        for grid in stuck:
            grid.beside = "; ".join(f"{other.title} {_stands(other)}" for other in unknown if other is not grid)
        for grid in stuck:
            scheduler = grid.machine.scheduler
            if scheduler.parked or scheduler.polling or scheduler.converging:
                scheduler.give_up()
        for grid in self.grids.all.values():
            if grid.machine is None:
                grid.over = True
                self.over.add(grid.number)
        for grid in stuck:
            if not grid.over:
                self._finish(grid, whole=False)


def _stands(grid: Grid) -> str:
    """How far a grid is, in a deadlock."""
    if grid.machine is None:
        return "has not begun: it comes after another grid of its stream, or after an event" if grid.front is None else ("has not begun: the grid in front of "
                                                                                                                         "it has not let it")
    if not grid.machine.next_cta:
        return "has not begun: its blocks find no place on the GPU beside those that wait"
    return "waits too"
