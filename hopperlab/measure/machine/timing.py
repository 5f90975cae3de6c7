# SPDX-License-Identifier: Apache-2.0
"""Timing on a GPU: events around single launches, variants interleaved round by round, a cold L2 before each launch.

Interleaving matters: these boards are power-limited, so that two numbers compare only when they ran in the same minute.
"""
from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

L2_FLUSH_BYTES = 512 << 20


@dataclass(frozen=True)
class Sample:
    """Times of one variant in milliseconds, in the order of the rounds."""

    times: tuple[float, ...]

    @property
    def ms(self) -> float:
        """Median."""
        return median(self.times)

    @property
    def least(self) -> float:
        """Fastest launch, in ms."""
        return min(self.times)

    @property
    def most(self) -> float:
        """Slowest launch, in ms."""
        return max(self.times)


def speed_ratios(sample: Sample, peer: Sample) -> tuple[float, float, float]:
    """Speed of `sample` over `peer`: median, least and greatest of the ratios taken round by round."""
    ratios = [theirs / mine for mine, theirs in zip(sample.times, peer.times, strict=True)]
    return median(ratios), min(ratios), max(ratios)


def order_of(names: Sequence[str], turn: int) -> list[str]:
    """The order of round `turn`: in as many rounds as there are names each of them has every place once."""
    first = turn % max(1, len(names))
    return [*names[first:], *names[:first]]


def interleaved(variants: Mapping[str, Callable[[], None]], rounds: int = 9, warmups: int = 1, cold: bool = True,
                prepare: Callable[[], None] | None = None, clean: bool = False) -> dict[str, Sample]:
    """Time every variant once per round, `rounds` times, after `warmups` rounds that do not count. Each round begins with another variant
    (`order_of`): who comes first pays for a GPU that was idle, a microsecond and more.

    variants: name -> a callable that launches on CuPy's current stream and does not wait. cold: write 512 MiB before each
    launch, so that nothing of the operands is left in the L2; the write also keeps the GPU busy while Python prepares the
    launch, so that the events enclose the kernel and nothing else. clean: read them back after that: what a write leaves in the
    L2 has to go to memory before something else fits, which costs a kernel that reads more than the L2 holds 8 us on an H200.
    prepare: called before each launch and its flush, not timed.
    """
    import cupy
    flush = cupy.empty(L2_FLUSH_BYTES // 4, dtype=cupy.uint32) if cold or clean else None
    sink = cupy.empty((), dtype=cupy.uint32) if clean else None
    events: dict[str, list] = {name: [] for name in variants}
    for turn in range(warmups + rounds):
        for name in order_of(list(variants), turn):
            run, start, end = variants[name], cupy.cuda.Event(), cupy.cuda.Event()
            if prepare is not None:
                prepare()
            if flush is not None:
                flush.fill(turn & 0xFF)
            if flush is not None and sink is not None:
                flush.max(out=sink)
            start.record()
            run()
            end.record()
            if turn >= warmups:
                events[name].append((start, end))
        cupy.cuda.runtime.deviceSynchronize()
    return {name: Sample(tuple(cupy.cuda.get_elapsed_time(*pair) for pair in pairs)) for name, pairs in events.items()}


MOST_IN_BURST = 256             # launches; the driver's queue holds about four times as many


def sustained(variants: Mapping[str, Callable[[], None]], rounds: int = 5, warmups: int = 1,
              burst_ms: float = 40.0) -> dict[str, Sample]:
    """Time bursts of back-to-back launches, one burst of each variant a round: what a kernel does in a busy program.

    The L2 keeps what it keeps from one launch to the next, and the board draws its full power. As many launches of the same variant come before those that
    count, so that power and clocks have come to rest; each round begins with another variant. A sample's time is a launch's share of its burst.
    The burst is queued while the GPU writes memory, for all variants equally long, so that neither Python's pace shows nor a rest that one has and another has not.
    """
    import cupy
    plug = cupy.empty(L2_FLUSH_BYTES, dtype=cupy.uint8)
    probe = interleaved({**variants, "": lambda: plug.fill(1)}, rounds=1, cold=False)
    fill_ms = probe.pop("").ms
    counts = {name: max(2, min(MOST_IN_BURST, round(burst_ms / sample.ms))) for name, sample in probe.items()}
    fills = min(MOST_IN_BURST, max(round(2.4 * counts[name] * _queueing_ms(run) / fill_ms) for name, run in variants.items()) + 1)
    events: dict[str, list] = {name: [] for name in variants}
    for turn in range(warmups + rounds):
        for name in order_of(list(variants), turn):
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            for _ in range(fills):
                plug.fill(turn & 0xFF)
            for launch in range(2 * counts[name]):
                if launch == counts[name]:
                    start.record()
                variants[name]()
            end.record()
            if turn >= warmups:
                events[name].append((start, end))
        cupy.cuda.runtime.deviceSynchronize()
    return {name: Sample(tuple(cupy.cuda.get_elapsed_time(*pair) / counts[name] for pair in pairs))
            for name, pairs in events.items()}


def _queueing_ms(run: Callable[[], None], launches: int = 8) -> float:
    """How long Python takes to queue one launch."""
    import cupy
    began = time.perf_counter()
    for _ in range(launches):
        run()
    took = time.perf_counter() - began
    cupy.cuda.runtime.deviceSynchronize()
    return 1e3 * took / launches
