"""What a launch leaves behind: hazards, counters and the timeline. One Session may span several launches."""
from __future__ import annotations

from dataclasses import dataclass, field

from .counters import Counters
from .timeline import Event, Timeline

SCHEDULES = ("eager", "lazy", "random", "late-wgmma", "late-copies")
TRACES = (True, False, "print")
HAZARD_MODES = ("raise", "collect")


@dataclass(frozen=True)
class Hazard:
    """One synchronisation error, named at both of its ends.

    kind:     the class of error ('read-before-arrival', 'overwrite-in-flight', 'missing-proxy-fence', 'race', 'deadlock' …)
    message:  what happened and what is missing, in plain words
    where:    source position of the access that came too early
    other:    source position of the operation it collided with
    block, thread: one CTA and thread that showed it
    severity: 'error', or 'warning' for what is legal and suspicious (`session.warnings`; it ends no launch)
    """

    kind: str
    message: str
    where: object = None
    other: object = None
    block: tuple[int, int, int] | None = None
    thread: int | None = None
    severity: str = "error"

    def sort_key(self) -> tuple:
        """Hazards are listed by file, line and kind, so that the order is the same under every schedule."""
        return (*_position(self.where), self.kind, *_position(self.other))

    def __str__(self) -> str:
        return f"{self.kind}{' (warning)' if self.severity == 'warning' else ''}: {self.message}"


def _position(site) -> tuple[str, int]:
    return (site.file, site.line) if site is not None else ("", 0)


@dataclass
class Session:
    """How to run launches and what they showed.

    schedule: 'eager' (operations land at once), 'lazy' (as late as the program can force), 'random' (drawn from `seed`), or a
    pairing: 'late-wgmma' (copies at once, wgmma as late as possible), 'late-copies' (the converse).
    hazards:  'raise' ends a launch that showed hazards with HazardError; 'collect' only records them.
    warnings: what is legal and suspicious, of severity 'warning'. It ends no launch; with 'raise' it is a Python warning.
    trace:    True records the timeline, False does not, 'print' also prints each event as it happens.
    budget:   rounds that loops which poll may run alone before they count as endless (None: see recurrence.py).
    limit:    work that all launches together may do (work.py: a warp instruction is 1, a memory access 32); more raises BudgetExceeded. None: no limit.
    work:     that done so far; counted only where there is a limit.
    """

    schedule: str = "lazy"
    seed: int = 0
    hazards_mode: str = "raise"
    trace: bool | str = True
    check: bool = True
    budget: int | None = None
    limit: int | None = None
    work: int = 0
    hazards: list[Hazard] = field(default_factory=list)
    warnings: list[Hazard] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)
    timeline: Timeline = field(default_factory=Timeline)
    launches: int = 0

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule {self.schedule!r}: choose one of {', '.join(SCHEDULES)}")
        if self.trace not in TRACES:
            raise ValueError(f"trace {self.trace!r}: choose True, False or 'print'")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit {self.limit!r}: at least 1, or None")
        self.timeline.printing = self.trace == "print"
        if self.hazards_mode not in HAZARD_MODES:
            raise ValueError(f"hazards {self.hazards_mode!r}: choose one of {', '.join(HAZARD_MODES)}")

    def count(self, name: str, amount: int) -> None:
        """Add to a counter."""
        self.counters.add(name, amount)


__all__ = ["Event", "HAZARD_MODES", "Hazard", "SCHEDULES", "Session", "TRACES"]
