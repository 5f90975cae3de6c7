# SPDX-License-Identifier: Apache-2.0
"""Behind `hl.emulate(...)`: run the kernels of a block in the emulator, under a chosen schedule, and keep what they showed."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..emulator import Hazard, Program, Session

_current: ContextVar[Session | None] = ContextVar("hopperlab_session", default=None)
_forced: ContextVar[Forced | None] = ContextVar("hopperlab_forced", default=None)
_everywhere: list[tuple[Forced, Session]] = []         # (Forced, its session) of `force(..., threads=True)`: threads start with a context of their own


class Outside:
    """The session of launches on streams outside every block (pending.py), where there are any."""

    session: Session | None = None


@dataclass
class Forced:
    """A schedule that every launch of a block runs under, whatever its own `emulate` asks for (explore.py, sanitize.py).

    `sessions` holds what the launches showed; hazards are collected, never raised. `watch`, if given, is called with the
    arguments and the emulator's Program of each launch before it runs.
    """

    schedule: str
    seed: int = 0
    watch: Callable[[Sequence[Any], Program], None] | None = None
    trace: bool | str = False
    levels: Mapping[str, str] = field(default_factory=dict)
    sessions: list[Session] = field(default_factory=list)

    def session(self, levels: Mapping[str, str] | None = None) -> Session:
        """A session under this schedule, remembered here. levels: what a block asks for where nothing is forced."""
        from .. import emulator
        made = emulator.Session(schedule=self.schedule, seed=self.seed, hazards_mode="collect", trace=self.trace, levels={**(levels or {}), **self.levels})
        self.sessions.append(made)
        return made

    def hazards(self) -> list[Hazard]:
        """All hazards so far, in the order of the launches."""
        return [hazard for session in self.sessions for hazard in session.hazards]

    def by_compiler(self) -> list[Hazard]:
        """What a compiler made and the source cannot mend, in the order of the launches."""
        return [hazard for session in self.sessions for hazard in session.by_compiler]

    def warnings(self) -> list[Hazard]:
        """What is legal and suspicious, in the order of the launches."""
        return [warning for session in self.sessions for warning in session.warnings]


def current() -> Session | None:
    """The emulator.Session of the innermost `emulate` block, or None outside of one."""
    return _current.get() or (_everywhere[-1][1] if _everywhere else None)


def forced() -> Forced | None:
    """The schedule that is forced on every launch here, or None."""
    return _forced.get() or (_everywhere[-1][0] if _everywhere else None)


@contextmanager
def force(how: Forced, threads: bool = False) -> Iterator[Forced]:
    """Every launch inside the block runs in the emulator under `how`; with `threads`, those of all other threads too."""
    _settle()
    session = how.session()
    token, inside = _forced.set(how), _current.set(session)
    if threads:
        _everywhere.append((how, session))
    try:
        yield how
        _finish(session)
    finally:
        if threads:
            _everywhere.pop()
        _current.reset(inside)
        _forced.reset(token)


def _settle() -> None:
    """What was launched before a block is over when it begins."""
    for before in (current(), Outside.session):
        if before is not None:
            _finish(before)


def _finish(session: Session) -> None:
    """The end of a block waits for all of its launches, and shows what they did wrong."""
    if session.grids is not None:
        session.grids.synchronise()
        if session.grids.mirrors is not None:
            session.grids.mirrors.copy_back()


@contextmanager
def emulate(schedule: str = "lazy", seed: int = 0, hazards: str = "raise", trace: bool | str = True, budget: int | None = None,
            limit: int | None = None, levels: Mapping[str, str] | None = None) -> Iterator[Session]:
    """The block of `hl.emulate` (estimates/emulating.py, which says what the parameters mean), without its clock."""
    from .. import emulator
    _settle()
    how = forced()
    session = emulator.Session(schedule=schedule, seed=seed, hazards_mode=hazards, trace=trace, budget=budget, limit=limit,
                               levels=levels or {}) if how is None else how.session(levels)
    token = _current.set(session)
    try:
        yield session
        _finish(session)
    finally:
        if session.grids is not None and not session.grids.idle:
            session.grids.forget()
        _current.reset(token)
