# SPDX-License-Identifier: Apache-2.0
"""`hl.emulate(clock=...)`: launches in the emulator, each with estimated times of its warps' instructions and of its asynchronous operations beside it.

The emulator itself has no clock and does no work for one: each launch is sampled once more, before it runs (estimating.py), and what it showed there is timed.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..emulator.errors import EmulatorError
from ..runtime import session as sessions
from ..runtime.errors import HopperlabError
from ..runtime.watching import launching
from . import boards

if TYPE_CHECKING:
    from ..emulator import Session
    from ..measure.launches.launch import Launch
    from .boards import Board
    from .launch_times import LaunchTimes


class EstimatedClock(list["LaunchTimes | str"]):
    """The launches of a block in order: a LaunchTimes each, or the reason in words (a str) where one cannot be estimated. board: 'h200' or 'h100'."""

    def __init__(self, board: Board):
        super().__init__()
        self.board, self._table = board.name, board

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or f"<no launch yet; to be estimated for an {self.board.upper()}>"

    def launched(self, kernel: Any, grid: Any, block: Any, args: Any, shared_mem: int, attributes: Any) -> None:
        """A launch that is about to be made (runtime/watching.py)."""
        try:
            self.append(times(kernel, grid, block, args, shared_mem=shared_mem, cluster=attributes.cluster, board=self._table))
        except (HopperlabError, EmulatorError) as why:
            said = str(why)
            self.append(said if said.startswith(f"{kernel.name}: ") else f"{kernel.name}: {said}")


def times(kernel: Any, grid: Any, block: Any, args: Any = (), *, shared_mem: int = 0, cluster: Any = None, board: Board | str | None = None) -> LaunchTimes:
    """The estimate of a launch with the times behind it; called, and raising, as estimating.estimate."""
    from . import estimating, programs, sample, timed
    from .launch_times import LaunchTimes
    table = boards.board(board) if board is None or isinstance(board, str) else board
    planned, _mirrors = sample.planned(kernel, grid, block, args, shared_mem, cluster)
    found = estimating.sampled(planned, kernel.name)
    estimate, run = estimating.simulated(found, kernel.name, table, timed.TimedSimulation)
    assert isinstance(run.sim, timed.TimedSimulation)
    return LaunchTimes(estimate, found, programs.Pricer(found, table).each(), run.sim.found, run.sim.turns(found.resident))


def times_of(launch: Launch, board: str | None = None) -> LaunchTimes:
    """The same of a launch of measure.launches."""
    return times(launch.kernel, launch.grid, launch.block, launch.args, shared_mem=launch.shared_mem, board=board)


@contextmanager
def emulate(schedule: str = "lazy", seed: int = 0, hazards: str = "raise", trace: bool | str = True, budget: int | None = None,
            limit: int | None = None, levels: Mapping[str, str] | None = None, clock: str | None = None) -> Iterator[Session]:
    """Run every launch inside the block in the emulator, also on a machine with a GPU.

    schedule: when asynchronous operations land: 'eager' at once, 'lazy' at the last moment, 'random' drawn from `seed`,
              'late-wgmma' copies at once and wgmma at the last moment, 'late-copies' the converse
    hazards:  'raise' ends a launch that shows hazards with HazardError; 'collect' records them and goes on
    trace:    'print' prints every event as it happens; 'accesses' records ordinary loads and stores, products and barriers as well;
              False leaves `run.timeline` empty
    budget:   rounds that loops which poll memory may run while nothing else happens; then they are reported as a deadlock
              (default: 50,000, or 500,000 for loops that change memory; also HOPPERLAB_POLLING_BUDGET)
    limit:    work that the launches of the block may do together (a warp instruction is 1, a memory access 32); more raises BudgetExceeded,
              which names the line where most was done. None: no limit. Counted, not timed, so that it is the same on every machine
    levels:   how loud kinds of hazard are that can be switched: {"unfenced-overwrite": "error"}, "warning" or "off" (also HOPPERLAB_HAZARD_LEVELS)
    clock:    'h200' or 'h100': `run.clock` holds for each launch its estimate for that board (`hl.estimate`), with a start and an end in cycles of each warp
              instruction and each asynchronous operation of the CTAs that were sampled (estimates/launch_times.py). Always an estimate: the error of such ones stands
              beside it (docs/estimates.md). A launch that cannot be estimated leaves the reason there and runs all the same; one under hl.explore is not estimated.
              None: no clock, and no work for one
    Yields the run: `run.hazards`, `run.warnings` (legal and suspicious: they end no launch), `run.by_compiler` (made by a compiler, beyond mending in the source:
    `run.compiler_note` is one line about it), `run.counters`, `run.timeline` add up over the launches of the block.
    On a GPU, CuPy arrays are copied to the host before each launch and back after it. Raises ValueError for an argument that is none of these.
    """
    given = None if clock is None else EstimatedClock(boards.board(clock))
    with sessions.emulate(schedule, seed, hazards, trace, budget, limit, levels) as run:
        if given is None or sessions.forced() is not None:
            yield run
            return
        run.clock = given
        with launching(lambda *launch: given.launched(*launch) if sessions.current() is run else None):
            yield run
