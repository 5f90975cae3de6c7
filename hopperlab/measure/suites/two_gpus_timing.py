# SPDX-License-Identifier: Apache-2.0
"""Timing of what several GPUs do together: a meeting of all devices, an event on each, the work, an event on each; the longest of the devices' times counts.

A thread that only lasts stands in front of the meeting on every device, so that the host is ahead and its own launches do not show.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ...runtime.library import load_kernel
from ..launches.across import Step, World, load_on, meeting
from ..machine.timing import L2_FLUSH_BYTES, Sample, order_of

Run = Callable[[], None]


class Clock:
    """Times work on the streams of a World, each variant in turns with the others."""

    def __init__(self, here: World, spin_cycles: int = 2_000_000):
        import cupy
        self.here, self.spin_cycles, self.meet = here, spin_cycles, meeting(here)
        self.spin = load_kernel("launches/start.cu", "spin", backend=here.backend)
        self.meet.load()
        self.flush = []
        for device in here.devices:
            load_on(device, self.spin)
            with device:
                self.flush.append(cupy.empty(L2_FLUSH_BYTES, cupy.uint8))
                device.synchronize()

    def once(self, run: Run, cold: bool, turn: int) -> float:
        """Milliseconds of one run, of the device that took longest."""
        import cupy
        if cold:
            for stream, array in zip(self.here.streams, self.flush, strict=True):
                with stream:
                    array.fill(turn & 0xFF)
        for stream in self.here.streams:
            self.spin((1,), (1,), (np.int64(self.spin_cycles),), stream=stream)
        self.meet()
        starts, ends = (self._events(cupy) for _ in range(2))
        for stream, event in zip(self.here.streams, starts, strict=True):
            with stream:
                event.record(stream.cupy)
        run()
        for stream, event in zip(self.here.streams, ends, strict=True):
            with stream:
                event.record(stream.cupy)
        self.here.synchronize()
        return max(float(cupy.cuda.get_elapsed_time(*pair)) for pair in zip(starts, ends, strict=True))

    def interleaved(self, variants: Mapping[str, Callable[[], Run]], rounds: int, warmups: int = 2, cold: bool = True, repeats: int = 1) -> dict[str, Sample]:
        """Every variant once per round. variants: name -> what gives the work of one round, ready to be put into the streams; repeats: of one thing in it."""
        taken: dict[str, list[float]] = {name: [] for name in variants}
        for turn in range(rounds + warmups):
            for name in order_of(list(variants), turn):
                taken[name].append(self.once(variants[name](), cold, turn) / repeats)
        return {name: Sample(tuple(values[warmups:])) for name, values in taken.items()}

    def _events(self, cupy) -> list:
        events = []
        for device in self.here.devices:
            with device:
                events.append(cupy.cuda.Event())
        return events


def again(run: Run) -> Callable[[], Run]:
    """The same work every round."""
    return lambda: run


def steps(step: Step, count: int = 1) -> Callable[[], Run]:
    """The next `count` steps every round, made ready beforehand."""
    return lambda: step.prepared(count)
