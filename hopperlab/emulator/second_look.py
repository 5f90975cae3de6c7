# SPDX-License-Identifier: Apache-2.0
"""A launch that showed nothing, or a deadlock alone, runs a second time, on memory as it was, in another order: flags are raised when nobody else can go on
(machine/late_flags.py).

So a ring with a credit or a slot too many, or one whose consumer answers too early, is named although its consumer was quick, and so is a wait for a counter with
fewer arrivals than are made, though all came at once. Only races are taken from that run: any order of threads is one that a GPU may show, but its values and its
end are those of a program that ran already. It is left out where nobody raises flags again and again to those who look at them in loops, or counts for them with
others, and where it would cost much: large arrays, long launches, memory from malloc.
"""
from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .errors import EmulatorError
from .hazards import watch
from .hazards.kinds import Kind
from .machine.altered import COUNTS, FLAGS, TURNS, Altered
from .machine.events import Listener
from .machine.memory import Kept
from .observe.deadlock import Deadlock
from .session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .hazards.hazard import Hazard
    from .machine.cohort import Cohort
    from .machine.machine import Machine

MOST_BYTES = 1 << 26            # of arrays that are kept and put back
MOST_RUNS = 1 << 17             # warps that ran a block of instructions, in the first run
FEW_RUNS = 1 << 15              # the same, where each of two who raise flags is the last in turn, and for counters
MOST_RAISERS = 16               # warps of which each may be the last to raise its flag, in one run more
LEAST, SLOWER = 1 << 6, 4        # turns of cohorts: so many more, so many times as many, and then the second is given up

SILENT = 1 << 60                # characters that printf seems to have written: it writes no more


class Enough(EmulatorError):
    """The second run takes too long."""


class Bound(Listener):
    """Ends a run that does much more than the first."""

    def __init__(self, machine: Machine, most: int) -> None:
        self.M, self.most = machine, most

    def running(self, C: Cohort, block: object) -> None:
        """A cohort runs a block."""
        if self.M.scheduler.turns > self.most:
            raise Enough


class SecondLook:
    """planned: the Plan of the launch (launch.py); before: what memory held when it began; most: what another
    run may do; ways: the runs that are worth while."""

    def __init__(self, planned: Any) -> None:
        self.planned, self.before, self.most = planned, Kept(MOST_BYTES), 0
        self.ways: list[str] = []

    @contextmanager
    def watching(self, first: Machine) -> Iterator[None]:
        """Inside the block the launch runs, to its end or to a deadlock."""
        session, memory = self.planned.session, self.planned.memory
        asked = session.check and not session.altered.way and session.limit is None and not memory.heap.used
        if not asked or not first.translation.flags or memory.viewed:        # what another thread's launch touches
            yield
            return
        with memory.keeping(self.before):
            yield
        runs = sum(first.runs)
        showed = any(hazard.kind != Kind.DEADLOCK for hazard in first.findings.hazards)
        if not showed and runs <= MOST_RUNS and not self.planned.memory.heap.used:
            self.most, raisers = SLOWER * (first.scheduler.turns + LEAST), int(first.scheduler.raisers.sum())
            counts = any(first.body[i].op != "st" for i in first.translation.flags)
            again, several = first.scheduler.raised_again, (2 if runs <= FEW_RUNS else 3) <= raisers <= MOST_RAISERS
            wanted = {FLAGS: again, TURNS: again and several, COUNTS: counts and raisers > 1 and runs <= FEW_RUNS}
            self.ways = [way for way, asked in wanted.items() if asked]

    def races(self) -> list[Hazard]:
        """What further runs show, where they are worth while; memory is then as the first one left it."""
        memory = self.planned.memory
        if not self.ways or self.before.held is None:
            return []
        after = self.before.as_now()
        with memory.apart(), memory.keeping(after):         # and what these runs alone touch
            try:
                return next((found for way in self.ways if (found := self._run(way, after))), [])
            finally:
                after.restore()

    def _listeners(self, machine: Any) -> list[Listener]:
        return [*watch.listeners(machine), Bound(machine, self.most), Deadlock(machine, (watch.explain_stuck,))]

    def _run(self, way: str, after: Kept) -> list[Hazard]:
        self.planned.memory.clear_stamps()
        after.restore()
        self.before.restore()
        asked, session = self.planned.session, Session(hazards_mode="collect", trace=False, altered=Altered(way))
        session.schedule, session.seed, session.budget, session.levels = asked.schedule, asked.seed, asked.budget, asked.levels
        machine = replace(self.planned, session=session).machine(self._listeners)
        machine.printed = SILENT
        with suppress(EmulatorError):                   # what it has shown until then stands
            machine.scheduler.run()
        findings = machine.findings
        findings.close()
        machine.dissolve()
        return [hazard for hazard in findings.hazards if hazard.kind == Kind.RACE]
