# SPDX-License-Identifier: Apache-2.0
"""A bound on the work of a session (`hl.emulate(limit=…)`): kernels that never end, or do far more than their task needs, are ended.

Work is counted, not timed, so that it is the same on every machine: a warp instruction is 1, one that the emulator takes longer over is more.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import BudgetExceeded
from ..machine.events import Listener
from ..ptx import places
from .classes import instruction_class

if TYPE_CHECKING:
    from ..compile.translate import Translation
    from ..ptx.ir import Instr

MEMORY, BARRIER = 32, 16
WEIGHTS = {"memory": MEMORY, "async_copy": MEMORY, "barrier": BARRIER, "mbarrier": BARRIER, "tensor": 16}      # by class
MORE = {"wgmma": 64, "call": 2048}
BULK = 256                 # cp.async.bulk, cp.reduce.async.bulk: an engine moves up to a whole tile
START = 16                 # a cohort that starts to run, or jumps back
EVERY = 64                 # looks at the sum are this many starts apart


class Work(Listener):
    """The work of one launch, looked at whenever a cohort starts or jumps back. Listens only where there is a limit."""

    def __init__(self, machine):
        self.M, self.limit = machine, machine.session.limit
        self.first, self.told = machine.session.work == 0, 0
        self.costs = costs(machine.translation)
        self.starts = 0

    def runs_on(self) -> None:
        """Count one start; now and then, add up. Raises BudgetExceeded."""
        self.starts += 1
        if not self.starts % EVERY:
            self.finished()

    def finished(self) -> None:
        """Put the work so far into the session. Raises BudgetExceeded when that is more than its limit."""
        runs = self.M.runs
        session = self.M.session
        done = START * self.starts + sum(count * cost for count, cost in zip(runs, self.costs, strict=True))
        session.work += done - self.told
        self.told = done
        if session.work > self.limit:
            raise BudgetExceeded(self._message(runs))

    def _message(self, runs: list[int]) -> str:
        parts = [count * cost for count, cost in zip(runs, self.costs, strict=True)]
        most = max(range(len(parts)), key=parts.__getitem__)
        start, end = self.M.translation.spans[most]
        where = places.place(self.M.body[end - 1])
        share = f"{100 * parts[most] / max(1, sum(parts)):.0f} % of it" if self.first else "most of the last launch"
        return (f"{self.M.translation.function.name} was ended: it did more work than its limit of {self.limit:,} (a warp instruction is 1, a memory access {MEMORY}). "
                f"{share} was done around {where}, which warps passed {runs[most]:,} times. Either this loop never ends, or it does far more than the task needs.")


def costs(translation: Translation) -> list[int]:
    """By block: what one warp's run through it costs."""
    return [sum(map(_cost, translation.function.body[start:end])) for start, end in translation.spans]


def _cost(instr: Instr) -> int:
    if instr.op == "cp" and "bulk" in instr.mods:
        return BULK
    return MORE.get(instr.op) or WEIGHTS.get(instruction_class(instr), 1)
