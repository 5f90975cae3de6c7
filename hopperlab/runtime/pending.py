# SPDX-License-Identifier: Apache-2.0
"""Launches in the emulator that the host has not waited for, and the streams that they stand in.

A launch without a stream runs at once, as long as no stream is in use. Those on streams wait here, in the session of the innermost `hl.emulate`, until a
stream, an event or the device is synchronised, an array is copied to the host, or the block ends. emulator/grids.py runs them.
"""
from __future__ import annotations

import atexit
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

from . import session as sessions

if TYPE_CHECKING:
    from ..emulator import Grids, Queue, Session

_queue: ContextVar[Queue | None] = ContextVar("hopperlab_queue", default=None)
_device: ContextVar[int] = ContextVar("hopperlab_device", default=0)


class _Streams:
    """Whether any stream was ever made, and how many GPUs `hl.devices` has opened."""

    made = False
    devices = 0


def current_device() -> int:
    """The device that arrays, streams and launches belong to here."""
    return _device.get()


def enter_device(number: int) -> Any:
    """From now on launches go to this device; what is returned goes to `leave_device`."""
    return _device.set(number), _queue.set(None)


def leave_device(tokens: Any) -> None:
    """The device of before."""
    _device.reset(tokens[0])
    _queue.reset(tokens[1])


def enter_queue(queue: Queue) -> Any:
    """From now on launches go to this stream; what is returned goes to `leave_device`."""
    return _device.set(queue.device), _queue.set(queue)


def open_devices(count: int) -> None:
    """`hl.devices` has opened so many GPUs."""
    _Streams.devices = max(_Streams.devices, count)


def devices_opened() -> range:
    """Numbers of the GPUs that `hl.devices` has opened."""
    return range(_Streams.devices)


def stream_made() -> None:
    """A stream was made: in the rest of this `hl.emulate`, launches without one stand in the default stream."""
    if sessions.current() is not None:
        started()
    if not _Streams.made:
        _Streams.made = True
        atexit.register(_never_waited_for)


def _used_here() -> bool:
    """Whether the innermost `hl.emulate` has made or used a stream; outside of one, whether launches wait."""
    session = sessions.current()
    return grids() is not None if session is None else session.grids is not None


def _session() -> Session | None:
    return sessions.current() or sessions.Outside.session


def grids() -> Grids | None:
    """The launches that the host has not waited for, where there are any."""
    session = _session()
    return None if session is None or session.grids is None or session.grids.idle else session.grids


def beside_others(queue: Queue | None, dependent: bool) -> bool:
    """Must a launch stand in line, or may it run at once, by itself?"""
    return queue is not None or dependent or current_device() != 0 or _queue.get() is not None or _used_here()


def started() -> Grids:
    """The launches of the current session, of which there may be none yet."""
    from .. import emulator
    session = sessions.current()
    if session is None:
        if sessions.Outside.session is None:
            sessions.Outside.session = emulator.Session(schedule="lazy", trace=False)
        session = sessions.Outside.session
    if session.grids is None:
        session.grids = emulator.Grids(session, emulator.memory.default())
    found: Grids = session.grids
    return found


def queue_here(queue: Queue | None = None) -> Queue:
    """The stream that was named, the one of the innermost `with`, or the default stream of the device."""
    return queue or _queue.get() or started().default(current_device())


def synchronise(over: frozenset[int] | None = None) -> None:
    """The host waits for launches (None: all). Raises what they showed."""
    from ..emulator.machine import memory
    waiting = grids()
    if waiting is not None:
        try:
            waiting.synchronise(over)
        finally:
            _copy_back(waiting)
    elif over is None:
        memory.default().forget()


def query(over: frozenset[int]) -> bool:
    """Whether launches are over; time passes. Who learns that they are has waited for them."""
    waiting = grids()
    if waiting is not None:
        if not waiting.query(over):
            return False
        synchronise(over)
    return True


def _copy_back(waiting: Grids) -> None:
    """CuPy arrays get what kernels wrote into their mirrors, and lose these once no launch is left."""
    if waiting.mirrors is not None:
        waiting.mirrors.copy_back()
        if waiting.idle:
            waiting.mirrors = None
    if waiting.idle and sessions.Outside.session is not None and sessions.Outside.session.grids is waiting:
        sessions.Outside.session = None


def host_uses(array: np.ndarray, writes: bool = False) -> None:
    """The host copies an array (writes: overwrites it), in order with the current stream, which it waits for."""
    from ..emulator.machine import memory
    waiting = grids()
    if waiting is None:
        memory.default().forget()
        return
    low, end = np.lib.array_utils.byte_bounds(array)
    first = memory.default().address_of(array) + low - array.__array_interface__["data"][0]
    try:
        waiting.host_uses(first, end - low, queue_here(), writes)
    finally:
        _copy_back(waiting)


def launch(plan: Any, queue: Queue | None, dependent: bool, keep: Sequence[Any]) -> None:
    """Put a launch in line. One in a default stream is over when this returns."""
    waiting = started()
    queue = queue_here(queue)
    grid = waiting.launch(plan, queue, dependent, keep)
    if queue.null:
        try:
            waiting.run(frozenset({grid.number}))
        finally:
            _copy_back(waiting)
        waiting.complain()


def _never_waited_for() -> None:
    session = sessions.Outside.session
    waiting = session.grids if session is not None else None
    left = [] if waiting is None else [grid.title for grid in waiting.all.values() if not grid.over]
    if left:
        print(f"hopperlab: the program ends, and nobody has waited for {', '.join(left[:5])}{' …' if len(left) > 5 else ''}: "
              "call stream.synchronize() or hl.synchronize()", file=sys.stderr)
        from ..emulator import EmulatorError
        try:
            synchronise()
        except EmulatorError as error:
            print(f"hopperlab: {type(error).__name__}: {error}", file=sys.stderr)
