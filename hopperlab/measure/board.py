"""The machine a measurement ran on: GPU, driver, versions, clocks, power. NVML through `pynvml`, else `nvidia-smi`.

Clocks and limits are read, never set.
"""
from __future__ import annotations

import datetime
import importlib.metadata
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

LIBRARIES = ("cupy-cuda13x", "cupy-cuda12x", "torch", "numpy", "ml_dtypes", "cuda-bindings", "nvidia-cublas",
             "nvidia-cuda-nvrtc")
METHOD = ("medians of single launches timed with events, variants interleaved in one process, a 512 MiB write before each "
          "launch so that the L2 is cold, random normal inputs unless noted; power by the board's energy counter while "
          "running alone")


def header() -> dict[str, object]:
    """The header of a recording: GPU, driver, CUDA, library versions, clocks (MHz), power limit (W), date (UTC)."""
    name, driver, limit, clock, memory_clock = query("name", "driver_version", "power.limit", "clocks.max.sm",
                                                     "clocks.max.memory")
    return {"gpu": name, "driver": driver, "cuda": _cuda(), "libraries": _libraries(),
            "clocks": {"sm_max_mhz": _number(clock), "memory_max_mhz": _number(memory_clock)},
            "power_limit_watts": _number(limit),
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"), "method": METHOD}


def query(*fields: str) -> list[str]:
    """Fields of `nvidia-smi --query-gpu` for the first GPU, without units. Raises RuntimeError when it cannot be run."""
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as problem:
        raise RuntimeError(f"nvidia-smi gave no answer ({problem}): is there an NVIDIA driver?") from problem
    return [value.strip() for value in done.stdout.splitlines()[0].split(",")]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _cuda() -> str:
    from ..runtime import toolchain
    return ".".join(str(part) for part in toolchain.nvrtc_version())


def _libraries() -> dict[str, str]:
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@dataclass(frozen=True)
class Load:
    """What the board did while something ran: mean power in watts (None: not readable), median SM clock in MHz."""

    watts: float | None
    clock_mhz: int | None


def under_load(run: Callable[[], None], wait: Callable[[], None], seconds: float = 0.6) -> Load:
    """Call `run` (an asynchronous launch) for about `seconds`, then `wait`, and report power and clock meanwhile."""
    meter = _meter()
    run(), wait()                                           # the board leaves its idle clocks before the clock is read
    clocks: list[int] = []
    stop = threading.Event()
    sampler = threading.Thread(target=_sample, args=(meter, clocks, stop), daemon=True)
    joules, start = meter.joules(), time.perf_counter()
    sampler.start()
    while time.perf_counter() - start < seconds:
        for _ in range(8):
            run()
        wait()
    elapsed, used = time.perf_counter() - start, meter.joules()
    stop.set()
    sampler.join()
    watts = None if joules is None or used is None else round((used - joules) / elapsed, 1)
    return Load(watts, sorted(clocks)[len(clocks) // 2] if clocks else None)


def _sample(meter: _Meter, clocks: list[int], stop: threading.Event) -> None:
    while not stop.wait(0.05):
        clock = meter.clock()
        if clock is not None:
            clocks.append(clock)


class _Meter:
    """Energy in joules and SM clock in MHz by NVML; None where pynvml is not installed."""

    def __init__(self) -> None:
        try:
            import pynvml
        except ImportError:
            self._nvml = None
            return
        pynvml.nvmlInit()
        self._nvml, self._device = pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)

    def joules(self) -> float | None:
        return None if self._nvml is None else self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._device) / 1000.0

    def clock(self) -> int | None:
        return None if self._nvml is None else int(self._nvml.nvmlDeviceGetClockInfo(self._device, self._nvml.NVML_CLOCK_SM))


_METERS: list[_Meter] = []


def _meter() -> _Meter:
    if not _METERS:
        _METERS.append(_Meter())
    return _METERS[0]
