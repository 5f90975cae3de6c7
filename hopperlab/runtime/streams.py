# SPDX-License-Identifier: Apache-2.0
"""Streams and events with CuPy's names, on the GPU or in the emulator.

    with hl.Stream() as first:
        produce(grid, block, args)
        ready = first.record()
    second = hl.Stream()
    second.wait_event(ready)
    consume(grid, block, args, stream=second)
    second.synchronize()

[CUDA Programming Guide, Streams, Events]
"""
from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import pending
from .backend import backend as choose
from .errors import LaunchError

if TYPE_CHECKING:
    from ..emulator import Grids, Queue


class Stream:
    """Work that runs in order. Two streams are ordered only where an event says so.

    non_blocking: True (unlike CuPy's) leaves it unordered with the default stream too, in which launches without a stream stand; False waits for that one, and is
                  waited for by it, as CUDA's blocking streams are
    device:       its number; None is the device of the innermost `with hl.devices(n)[k]`, else 0
    In a `with` block it is the current stream: launches without `stream=` stand in it. On a GPU `cupy` is the cupy.cuda.Stream.
    """

    def __init__(self, non_blocking: bool = True, device: int | None = None, backend: str | None = None):
        from .. import emulator
        self.backend = choose(backend)
        self.device = int(device) if device is not None else _device_here(self.backend)
        self.queue: Queue = emulator.Queue(self.device, blocking=not non_blocking)
        self._entered: list[tuple[Any, ...]] = []
        pending.stream_made()
        self.cupy: Any = None
        if self.backend == "gpu":
            import cupy
            with cupy.cuda.Device(self.device):
                self.cupy = cupy.cuda.Stream(non_blocking=non_blocking)

    def __enter__(self) -> Stream:
        tokens = pending.enter_queue(self.queue)
        if self.cupy is not None:
            import cupy
            device = cupy.cuda.Device(self.device)
            device.__enter__()
            self.cupy.__enter__()
            self._entered.append((tokens, device))
        else:
            self._entered.append((tokens,))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        tokens, *device = self._entered.pop()
        if device:
            self.cupy.__exit__(kind, error, trace)
            device[0].__exit__(kind, error, trace)
        pending.leave_device(tokens)

    def synchronize(self) -> None:
        """The host waits for all work of this stream, and learns what it did wrong."""
        waiting = pending.grids()
        if waiting is not None:
            pending.synchronise(waiting.ahead(self.queue))
        if self.cupy is not None:
            from .gpu.cuda_errors import guarded
            guarded("an earlier kernel", self.cupy.synchronize)

    def record(self, event: Event | None = None) -> Event:
        """An event (a new one unless given) that stands for all work of this stream so far."""
        event = event or Event(backend=self.backend)
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """What is launched on this stream from now on waits for the event. The host goes on."""
        if not isinstance(event, Event):
            raise TypeError(f"wait_event takes an hl.Event, such as Stream.record() gives, not {type(event).__name__}")
        over = event.over(pending.grids())
        if over:
            pending.started().wait(self.queue, over)
        if self.cupy is not None and event.cupy is not None:
            self.cupy.wait_event(event.cupy)

    @property
    def done(self) -> bool:
        """True when all work of this stream is over, which the host then knows as if it had waited."""
        waiting = pending.grids()
        emulated = waiting is None or pending.query(waiting.ahead(self.queue))
        return emulated and (self.cupy is None or bool(self.cupy.done))

    def __repr__(self) -> str:
        return f"<hl.Stream on device {self.device} ({self.backend})>"


class Event:
    """A point in a stream's work. Before it is recorded it stands for nothing, and nobody waits for it."""

    def __init__(self, backend: str | None = None):
        self.backend = choose(backend)
        self._recorded: tuple[Grids | None, frozenset[int]] = None, frozenset()          # launches in the emulator that it stands for
        self.cupy: Any = None                            # made when it is recorded: it belongs to the stream's device

    def record(self, stream: Stream | None = None) -> None:
        """Stand for all work so far of a stream (None: the current one)."""
        waiting = pending.grids()
        queue = pending.queue_here(stream.queue if stream is not None else None) if waiting is not None else None
        self._recorded = waiting, frozenset() if waiting is None or queue is None else waiting.ahead(queue)
        if self.backend == "gpu":
            import cupy
            with cupy.cuda.Device(stream.device if stream is not None else None):
                self.cupy = cupy.cuda.Event(disable_timing=True)
                self.cupy.record(stream.cupy if stream is not None else None)

    def over(self, waiting: Grids | None) -> frozenset[int]:
        """Those of these launches in the emulator that it stands for."""
        return self._recorded[1] if waiting is not None and self._recorded[0] is waiting else frozenset()

    def synchronize(self) -> None:
        """The host waits for the event."""
        over = self.over(pending.grids())
        if over:
            pending.synchronise(over)
        if self.cupy is not None:
            from .gpu.cuda_errors import guarded
            guarded("an earlier kernel", self.cupy.synchronize)

    @property
    def done(self) -> bool:
        """True when it has come, which the host then knows as if it had waited."""
        waiting = pending.grids()
        emulated = waiting is None or pending.query(self.over(waiting))
        return emulated and (self.cupy is None or bool(self.cupy.done))


def queue_of(stream: Any) -> Queue | None:
    """The emulator's stream of what a launch was given as `stream=`. Raises LaunchError for a stream of CuPy alone."""
    if stream is None:
        return None
    if not isinstance(stream, Stream):
        raise LaunchError(f"stream= takes an hl.Stream, which exists on the GPU and in the emulator, not a {type(stream).__module__}.{type(stream).__qualname__}")
    return stream.queue


def _device_here(place: str) -> int:
    if place == "gpu":
        import cupy
        return int(cupy.cuda.runtime.getDevice())
    return pending.current_device()
