# SPDX-License-Identifier: Apache-2.0
"""What a launch leaves behind: hazards, counters and the timeline. One Session may span several launches."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .hazards import levels as levels_of
from .hazards.compiler_made import note
from .hazards.hazard import Hazard
from .machine.altered import Altered
from .observe.counters import Counters
from .observe.timeline import Event, Timeline

SCHEDULES = ("eager", "lazy", "random", "late-wgmma", "late-copies")
TRACES = (True, False, "print", "accesses")
HAZARD_MODES = ("raise", "collect")


@dataclass
class Session:
    """How to run launches and what they showed.

    schedule: 'eager' (operations land at once), 'lazy' (as late as the program can force), 'random' (drawn from `seed`), or a
    pairing: 'late-wgmma' (copies at once, wgmma as late as possible), 'late-copies' (the converse).
    hazards:  'raise' ends a launch that showed hazards with HazardError; 'collect' only records them.
    warnings: what is legal and suspicious, of severity 'warning'. It ends no launch; with 'raise' it is a Python warning.
    by_compiler: what a compiler of another language made and its users cannot mend (hazards/compiler_made.py); it ends no launch, and
    `compiler_note` is one line about it.
    trace:    True records the timeline, False does not, 'print' also prints each event as it happens, 'accesses' also records what warps load,
              store and multiply themselves.
    budget:   rounds that loops which poll may run alone before they count as endless (None: see recurrence.py).
    limit:    work that all launches together may do (work.py: a warp instruction is 1, a memory access 32); more raises BudgetExceeded. None: no limit.
    levels:   'error', 'warning' or 'off' by kind of hazard, for those that can be switched (hazards/levels.py)
    work:     that done so far; counted only where there is a limit.
    clock:    estimated times of its launches, where there are any (estimates/emulating.py); the emulator itself has none.
    altered:  what one mechanism delivers otherwise than it would (machine/altered.py); nothing, unless a check sets it.
    """

    schedule: str = "lazy"
    seed: int = 0
    hazards_mode: str = "raise"
    trace: bool | str = True
    check: bool = True
    budget: int | None = None
    limit: int | None = None
    levels: Mapping[str, str] = field(default_factory=dict)
    work: int = 0
    hazards: list[Hazard] = field(default_factory=list)
    warnings: list[Hazard] = field(default_factory=list)
    by_compiler: list[Hazard] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)
    timeline: Timeline = field(default_factory=Timeline)
    launches: int = 0
    altered: Altered = field(default_factory=Altered)
    clock: Any = field(default=None, compare=False)
    grids: Any = field(default=None, repr=False, compare=False)          # launches that may not be over (emulator/grids.py), where there are any

    @property
    def compiler_note(self) -> str:
        """One line about `by_compiler`, '' where there is nothing."""
        return note(self.by_compiler)

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule {self.schedule!r}: choose one of {', '.join(SCHEDULES)}")
        if self.trace not in TRACES:
            raise ValueError(f"trace {self.trace!r}: choose True, False, 'print' or 'accesses'")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit {self.limit!r}: at least 1, or None")
        self.levels = levels_of.chosen(self.levels)
        self.timeline.printing = self.trace == "print"
        if self.hazards_mode not in HAZARD_MODES:
            raise ValueError(f"hazards {self.hazards_mode!r}: choose one of {', '.join(HAZARD_MODES)}")


__all__ = ["Event", "HAZARD_MODES", "Hazard", "SCHEDULES", "Session", "TRACES"]
