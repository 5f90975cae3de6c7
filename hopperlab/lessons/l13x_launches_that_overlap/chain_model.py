# SPDX-License-Identifier: Apache-2.0
"""Lesson 13x: a model of a chain of launches: when each kernel begins, when it may read what the one in front wrote, and when it ends.

Its numbers are free: they show what waits for what, not how long it takes on a GPU.
"""
from __future__ import annotations

from dataclasses import dataclass

from ...show import style
from ...show.timelines import Span, gantt

ALONE, WAITS, WORKS, WRITES = "before it needs the one in front", "waits", "reads, multiplies", "writes"
KINDS = {ALONE: style.SKY, WAITS: style.FAINT, WORKS: style.BLUE, WRITES: style.ORANGE}


@dataclass(frozen=True)
class Times:
    """One kernel: its spans (kind of KINDS, first, last) in order."""

    spans: tuple[tuple[str, float, float], ...]

    def first(self, kind: str) -> float:
        """When the span of a kind begins. Raises StopIteration where there is none."""
        return next(first for what, first, _ in self.spans if what == kind)

    @property
    def begins(self) -> float:
        """When the kernel starts."""
        return self.spans[0][1]

    @property
    def ends(self) -> float:
        """When it has written everything."""
        return self.spans[-1][2]


def chain_times(kernels: int, way: str = "dependent", launch_at: str = "loaded", wait_at: str = "x", gap: float = 1.0, head: float = 0.9, body: float = 2.0,
                tail: float = 0.3, flag: float = 0.4) -> list[Times]:
    """Times of a chain. way: 'ordinary', 'dependent' or 'persistent' (one kernel). gap: from the moment in which a kernel may begin until it does; head: what it does
    before it needs the one in front; body: loads of x and products; tail: writing; flag: until a flag in global memory is seen. launch_at, wait_at: where the two
    instructions stand (measure.launches.chain).
    """
    found: list[Times] = []
    for _ in range(kernels):
        begins, may_read = _begins(found[-1], way, launch_at, gap, flag) if found else (0.0, 0.0)
        if way == "persistent" or wait_at == "x" or not found:
            reads = max(begins + head, may_read)
            before = ((ALONE, begins, begins + head), (WAITS, begins + head, reads))
        else:
            reads = max(begins, may_read) + head
            before = ((WAITS, begins, reads - head), (ALONE, reads - head, reads))
        spans = (*before, (WORKS, reads, reads + body), (WRITES, reads + body, reads + body + tail))
        found.append(Times(tuple((kind, round(first, 3), round(last, 3)) for kind, first, last in spans if last > first)))
    return found


def _begins(front: Times, way: str, launch_at: str, gap: float, flag: float) -> tuple[float, float]:
    """(when a kernel begins, when it may read) behind this one."""
    reads, writes = front.first(WORKS), front.first(WRITES)
    if way == "persistent":
        return writes, front.ends + flag                # the producer goes ahead while the consumers write
    places = {"start": front.begins, "loaded": reads + 0.7 * (writes - reads), "multiplied": writes, "never": front.ends}
    return (places[launch_at] if way == "dependent" else front.ends) + gap, front.ends


def chain_spans(times: list[Times], names: list[str]) -> list[Span]:
    """A row a kernel."""
    return [Span(name, first, last, kind) for name, one in zip(names, times, strict=True) for kind, first, last in one.spans]


def kernel_names(kernels: int) -> list[str]:
    """product 1 … and the norm."""
    return [*(f"product {i + 1}" for i in range(kernels - 1)), "norm"]


def chain_picture(kernels: int = 5, way: str = "dependent", launch_at: str = "loaded", wait_at: str = "x", heading: str = "") -> style.Picture:
    """The model of a chain as a picture."""
    times = chain_times(kernels, way, launch_at, wait_at)
    alone = chain_times(kernels, "ordinary")[-1].ends
    words = f"{way}, launch_dependents: {launch_at}, wait: {wait_at}" if way == "dependent" else way
    told = heading or f"{words}: {times[-1].ends:.1f} units, one after another {alone:.1f}"
    return gantt(chain_spans(times, kernel_names(kernels)), told, "time in the model (free units; what waits for what, not speed)", KINDS)
