# SPDX-License-Identifier: Apache-2.0
"""Flags that CTAs outside a sample would raise: where nothing but loops that poll is left, the zeros that they look at become ones."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..emulator.machine.events import Listener

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..emulator.compile.translated import Block
    from ..emulator.launch import Plan
    from ..emulator.machine.cohort import Cohort

MOST = 10_000                # flags that are raised, before what waits for them counts as waiting for ever

POLLING = {"acquire", "relaxed", "volatile"}


class Awaited(Exception):
    """A sampled CTA waits for one that is not in the sample."""


def polls(launch: Plan) -> bool:
    """Whether a kernel has a loop that goes on by flags in global memory, for which its CTAs may wait; not one by a counter that CTAs add to themselves."""
    made = launch.program.translation(launch.name)
    spans = [made.spans[block] for loop in made.loops for block in loop.blocks]
    looks = any(instr.op == "ld" and not POLLING.isdisjoint(instr.mods) and "shared" not in instr.mods for start, end in spans for instr in made.function.body[start:end])
    return looks and not any(instr.op == "atom" and "shared" not in instr.mods for instr in made.function.body)


class Absent(Listener):
    """Stands for the CTAs of a launch that are not in the sample. `raised`: how many flags it has raised; alone: raises Awaited in place of the first one."""

    def __init__(self, machine: Any, keep: Any, alone: bool = False):
        self.M, self.keep, self.alone = machine, keep, alone
        self.loops, self.raised = False, 0
        self.polled: dict[tuple[int, int, int], Any] = {}

    def listen(self) -> None:
        """From now on whoever would wait for ever is helped first."""
        scheduler = self.M.scheduler
        ask = scheduler.endless

        def endless() -> bool:
            return ask() and not self.help(scheduler)
        scheduler.endless = endless

    def running(self, C: Cohort, block: Block) -> None:
        """A block."""
        self.loops = self.M.translation.watches(block.id)

    def global_read(self, C: Cohort, address: NDArray[Any], parts: list[Any], info: Any) -> None:
        """A look at a flag."""
        if self.loops:
            for allocation, _lanes, offsets in parts:
                for offset in np.unique(np.asarray(offsets)).tolist():
                    self.polled[(allocation.address, offset, info.nbytes)] = allocation

    def help(self, scheduler: Any) -> bool:
        """Raise the flags that are polled; False where there is none."""
        down = [(allocation, offset, nbytes) for (_, offset, nbytes), allocation in self.polled.items()
                if nbytes in (4, 8) and not allocation.view(1)[offset:offset + nbytes].any()]
        self.polled = {}
        if not down or self.raised > MOST:
            return False
        if self.alone:
            raise Awaited
        for allocation, offset, nbytes in down:
            self.keep(allocation, [offset], nbytes)
            allocation.view(nbytes)[offset // nbytes] = 1
        self.raised += len(down)
        scheduler.events += 1
        self.M.progress += 1
        return True
