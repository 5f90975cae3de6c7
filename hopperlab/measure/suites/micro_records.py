# SPDX-License-Identifier: Apache-2.0
"""From probes to records: medians of launches, a record's fields, and what several micro-experiments share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .fields import facts, gb_s, times
from ..launches.launch import Launch
from ..launches.micro import Probe
from ..recordings import Record
from ..machine.timing import L2_FLUSH_BYTES, Sample

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Choose = Callable[[np.ndarray], Sequence[float]]


def flush() -> None:
    """Write 512 MiB, so that nothing of earlier data is left in the L2, and wait."""
    import cupy

    cupy.empty(L2_FLUSH_BYTES, cupy.uint8).fill(1)
    cupy.cuda.runtime.deviceSynchronize()


def sampled(probe: Probe, rounds: int, choose: Choose, cold: bool = False) -> np.ndarray:
    """`choose`(out) of each of `rounds` launches, one after the other; a launch before them does not count."""
    probe.cycles()
    values = []
    for _ in range(max(1, rounds)):
        if cold:
            flush()
        values.extend(choose(probe.cycles()))
    return np.asarray(values, dtype=float)


def numbered(
    suite: str, kernel: str, options: Sequence[str], values: ArrayLike, unit: str, launch: Launch | None = None, **fields: object
) -> Record:
    """A record of `values` in `unit`: median, least and greatest."""
    array = np.asarray(values, dtype=float)
    return Record(
        suite,
        kernel,
        tuple(options),
        value=round(float(np.median(array)), 2),
        value_min=round(float(array.min()), 2),
        value_max=round(float(array.max()), 2),
        unit=unit,
        **facts(launch),
        **fields,
    )


def cycles(
    suite: str, probe: Probe, options: Sequence[str], rounds: int, choose: Choose, cold: bool = False, note: str = ""
) -> Record:
    """A record of a probe in cycles, `choose` picking (and dividing) what counts of each launch's output."""
    return numbered(
        suite, probe.launch.kernel.name, options, sampled(probe, rounds, choose, cold), "cycles", probe.launch, note=note
    )


def rated(suite: str, launch: Launch, options: Sequence[str], sample: Sample, moved: int, **fields: object) -> Record:
    """A record of a timed launch that moved `moved` bytes."""
    return Record(suite, launch.kernel.name, tuple(options), gb_s=gb_s(moved, sample), **times(sample), **facts(launch), **fields)


def after_first(per: float) -> Choose:
    """All samples but the first (which fetches instructions), divided by `per`."""
    return lambda out: out[1:] / per
