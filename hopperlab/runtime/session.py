"""`hl.emulate(...)`: run the kernels of a block in the emulator, under a chosen schedule, and keep what they showed."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

_current: ContextVar = ContextVar("hopperlab_session", default=None)
_forced: ContextVar = ContextVar("hopperlab_forced", default=None)
_everywhere: list = []         # (Forced, its session) of `force(..., threads=True)`: threads start with a context of their own


@dataclass
class Forced:
    """A schedule that every launch of a block runs under, whatever its own `emulate` asks for (explore.py, sanitize.py).

    `sessions` holds what the launches showed; hazards are collected, never raised. `watch`, if given, is called with the
    arguments and the emulator's Program of each launch before it runs.
    """

    schedule: str
    seed: int = 0
    watch: object = None
    trace: bool | str = False
    sessions: list = field(default_factory=list)

    def session(self):
        """A session under this schedule, remembered here."""
        from .. import emulator
        made = emulator.Session(schedule=self.schedule, seed=self.seed, hazards_mode="collect", trace=self.trace)
        self.sessions.append(made)
        return made

    def hazards(self) -> list:
        """All hazards so far, in the order of the launches."""
        return [hazard for session in self.sessions for hazard in session.hazards]

    def warnings(self) -> list:
        """What is legal and suspicious, in the order of the launches."""
        return [warning for session in self.sessions for warning in session.warnings]


def current():
    """The emulator.Session of the innermost `emulate` block, or None outside of one."""
    return _current.get() or (_everywhere[-1][1] if _everywhere else None)


def forced() -> Forced | None:
    """The schedule that is forced on every launch here, or None."""
    return _forced.get() or (_everywhere[-1][0] if _everywhere else None)


@contextmanager
def force(how: Forced, threads: bool = False) -> Iterator[Forced]:
    """Every launch inside the block runs in the emulator under `how`; with `threads`, those of all other threads too."""
    session = how.session()
    token, inside = _forced.set(how), _current.set(session)
    if threads:
        _everywhere.append((how, session))
    try:
        yield how
    finally:
        if threads:
            _everywhere.pop()
        _current.reset(inside)
        _forced.reset(token)


@contextmanager
def emulate(schedule: str = "lazy", seed: int = 0, hazards: str = "raise", trace: bool | str = True, budget: int | None = None,
            limit: int | None = None) -> Iterator:
    """Run every launch inside the block in the emulator, also on a machine with a GPU.

    schedule: when asynchronous operations land: 'eager' at once, 'lazy' at the last moment, 'random' drawn from `seed`,
              'late-wgmma' copies at once and wgmma at the last moment, 'late-copies' the converse
    hazards:  'raise' ends a launch that shows hazards with HazardError; 'collect' records them and goes on
    trace:    'print' prints every event as it happens; False leaves `run.timeline` empty
    budget:   rounds that loops which poll memory may run while nothing else happens; then they are reported as a deadlock
              (default: 50,000, or 500,000 for loops that change memory; also HOPPERLAB_POLLING_BUDGET)
    limit:    work that the launches of the block may do together (a warp instruction is 1, a memory access 32); more raises BudgetExceeded,
              which names the line where most was done. None: no limit. Counted, not timed, so that it is the same on every machine
    Yields the run: `run.hazards`, `run.warnings` (legal and suspicious: they end no launch), `run.counters`, `run.timeline` add up over the launches of the block.
    On a GPU, CuPy arrays are copied to the host before each launch and back after it.
    """
    from .. import emulator
    how = forced()
    session = emulator.Session(schedule=schedule, seed=seed, hazards_mode=hazards, trace=trace, budget=budget, limit=limit) if how is None else how.session()
    token = _current.set(session)
    try:
        yield session
    finally:
        _current.reset(token)
