# SPDX-License-Identifier: Apache-2.0
"""How often the warps of a CTA branch, from its control flow alone: whether CTAs do as much as each other, and how much of its work one has done that was cut short."""
from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..emulator import EmulatorError
from ..emulator.hazards.findings import Findings
from ..emulator.launch import Plan
from ..emulator.observe.deadlock import Deadlock
from ..emulator.observe.work import Work
from ..emulator.program import Program
from ..emulator.session import Session
from .draws import Undone
from .skeleton import branches
from .trace import branch_numbers, weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..emulator.compile.translated import Block
    from ..emulator.machine.cohort import Cohort

THERE = re.compile(r"^\s*(?:@!?%\w+\s+)?ld\.(?:volatile\.|relaxed\.\w+\.|acquire\.\w+\.)*shared", re.MULTILINE)
MOST_WORK = 10_000_000       # of a run of the control flow (emulator/observe/work.py)


class Branches(Undone):
    """Counts branches of each CTA's warps."""

    def __init__(self, machine: Any):
        super().__init__()
        self.M, self.branching = machine, branch_numbers(machine)
        self.counts = np.zeros((machine.slots, len(self.branching)), np.int64)

    def running(self, C: Cohort, block: Block) -> None:
        """A block."""
        if block.id in self.branching:
            np.add.at(self.counts[:, self.branching[block.id]], self.M.units(C).gw // self.M.warps, 1)

    def global_atomic(self, C: Cohort, parts: list[Any], info: Any) -> None:
        """An atomic addition."""
        self.keep(parts, info.nbytes)


def counted(launch: Plan, clusters: list[int]) -> NDArray[Any] | None:
    """How often the warps of the CTAs of these clusters come to each branch, [CTA, branch]; None where their control flow does not run alone, and where it depends on
    what goes by way of shared memory, which nothing is written to."""
    ptx = branches(launch.program.ptx)
    if THERE.search(ptx):
        return None
    size = launch.geometry.cluster_ctas
    chosen = np.concatenate([launch.geometry.cta_order[c * size:(c + 1) * size] for c in clusters])
    heard: list[Any] = []

    def listen(machine: Any) -> list[Any]:
        bound: Any = Work
        machine.findings = Findings(machine)
        heard.append(Branches(machine))
        return [*heard, bound(machine), Deadlock(machine, ())]
    program = Program(ptx, launch.program.resources)
    session = Session(schedule="lazy", hazards_mode="collect", trace=False, check=False, limit=MOST_WORK)
    machine: Any = replace(launch, program=program, geometry=launch.geometry.only(chosen), session=session).machine(listen)
    try:
        machine.scheduler.run()
    except EmulatorError:
        return None
    finally:
        heard[0].restore()
        launch.memory.release_views()
        machine.findings.close()
    if machine.findings.hazards or not heard[0].branching:
        return None
    found: NDArray[Any] = heard[0].counts
    return found


def done(machine: Any, turned: list[int], early: NDArray[Any]) -> float:
    """Of the work of CTAs that come so often to each branch, what a sample has done that was cut. turned: how often it has come to each."""
    each = weights(machine)
    did, all_ = (float(np.asarray(often) @ each) for often in (turned, early))
    return float(min(1.0, did / max(1.0, all_ * machine.slots)))


def follows(turned: list[int], known: NDArray[Any], whole: bool) -> bool:
    """Whether a sample of the CTAs `known` has come as often to each branch as their control flow says, if it is whole, or not more often."""
    most = known.sum(axis=0)
    return bool((most == turned).all() if whole else (most >= turned).all())
