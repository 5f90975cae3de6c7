"""`hl.emulate(...)`: run the kernels of a block in the emulator, under a chosen schedule, and keep what they showed."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_current: ContextVar = ContextVar("hopperlab_session", default=None)


def current():
    """The emulator.Session of the innermost `emulate` block, or None outside of one."""
    return _current.get()


@contextmanager
def emulate(schedule: str = "lazy", seed: int = 0, hazards: str = "raise") -> Iterator:
    """Run every launch inside the block in the emulator, also on a machine with a GPU.

    schedule: when asynchronous operations land: 'eager' at once, 'lazy' at the last moment, 'random' drawn from `seed`
    hazards:  'raise' ends a launch that shows hazards with HazardError; 'collect' records them and goes on
    Yields the run: `run.hazards`, `run.counters`, `run.timeline` add up over the launches of the block.
    On a GPU, CuPy arrays are copied to the host before each launch and back after it.
    """
    from .. import emulator
    session = emulator.Session(schedule=schedule, seed=seed, hazards_mode=hazards)
    token = _current.set(session)
    try:
        yield session
    finally:
        _current.reset(token)
