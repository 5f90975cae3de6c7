# SPDX-License-Identifier: Apache-2.0
"""From samples to the fields of a record: times, rates, ratios, power, registers. Pure arithmetic, shared by all suites."""
from __future__ import annotations

from collections.abc import Callable, Sequence

from ..machine import board
from ..launches.launch import Launch
from ..machine.timing import Sample, speed_ratios


def wait() -> None:
    """Wait until the GPU is idle."""
    import cupy
    cupy.cuda.runtime.deviceSynchronize()


def facts(launch: Launch | None) -> dict:
    """Registers, spills and launch of a kernel, as fields of a record; nothing for a peer."""
    if launch is None:
        return {}
    use = launch.kernel.use
    return {"registers": use.registers, "spills": use.spill_stores + use.spill_loads, "shared_bytes": launch.shared_mem,
            "grid": launch.grid, "block": launch.block}


def times(sample: Sample) -> dict:
    """Median, least and greatest time."""
    return {"ms": round(sample.ms, 5), "ms_min": round(sample.least, 5), "ms_max": round(sample.most, 5)}


def beside(sample: Sample, name: str, peer: Sample, value: float) -> dict:
    """The peer's name and rate, and the ratio of speeds taken round by round."""
    ratio, least, most = speed_ratios(sample, peer)
    return {"peer": name, "peer_value": round(value, 2), "ratio": round(ratio, 4), "ratio_min": round(least, 4),
            "ratio_max": round(most, 4)}


def flop(shape: Sequence[int]) -> int:
    """Operations of an m x n x k product."""
    m, n, k = shape
    return 2 * m * n * k


def tflops(shape: Sequence[int], sample: Sample) -> float:
    """10^12 operations a second of an m x n x k product."""
    return round(flop(shape) / sample.ms / 1e9, 1)


def gb_s(moved: int, sample: Sample) -> float:
    """10^9 bytes a second for `moved` bytes."""
    return round(moved / sample.ms / 1e6, 1)


def load(run: Callable[[], None], seconds: float) -> dict:
    """Power, energy of a launch, clock and temperature while `run` runs alone for `seconds`; nothing for 0 seconds."""
    if not seconds:
        return {}
    found = board.under_load(run, wait, seconds)
    fields = {"watts": found.watts, "clock_mhz": found.clock_mhz, "joules": found.joules, "temperature_c": found.temperature_c}
    return {name: value for name, value in {**fields, "limited": found.limited}.items() if value not in (None, "")}
