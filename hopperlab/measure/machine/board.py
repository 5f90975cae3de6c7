# SPDX-License-Identifier: Apache-2.0
"""The machine a measurement ran on: GPU, driver, versions, clocks, power. NVML through `pynvml`, else `nvidia-smi`.

Clocks and limits are read, never set.
"""
from __future__ import annotations

import datetime
import importlib.metadata
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

LIBRARIES = ("cupy-cuda13x", "cupy-cuda12x", "torch", "triton", "sgl-deep-gemm", "quack-kernels", "nvidia-cutlass-dsl", "numpy", "ml_dtypes", "cuda-bindings",
             "nvidia-cublas", "nvidia-cublas-cu12", "nvidia-cudnn-cu13", "nvidia-cudnn-cu12", "nvidia-cuda-nvrtc")
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


def first_visible() -> str:
    """What the driver's tools call the GPU that is CUDA's device 0 in this process: its index, or its UUID, by CUDA_VISIBLE_DEVICES."""
    return os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip() or "0"


def query(*fields: str) -> list[str]:
    """Fields of `nvidia-smi --query-gpu` for the first GPU that this process sees, without units. Raises RuntimeError when it cannot be run."""
    command = ["nvidia-smi", "-i", first_visible(), f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
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
    from ...runtime.compile import toolchain
    return ".".join(str(part) for part in toolchain.nvrtc_version())


def _libraries() -> dict[str, str]:
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


Step = tuple[float, float]
"""When the energy counter moved on (seconds), and where it stood then (joules)."""


@dataclass(frozen=True)
class Load:
    """What the board did while something ran alone; None: not readable.

    watts: mean power; clock_mhz: median SM clock; joules: energy of one launch; temperature_c: highest GPU temperature;
    limited: what held the clocks down in a quarter of the samples or more, in words ('power', 'heat'), else empty.
    """

    watts: float | None
    clock_mhz: int | None
    joules: float | None = None
    temperature_c: int | None = None
    limited: str = ""


def under_load(run: Callable[[], None], wait: Callable[[], None], seconds: float = 0.6) -> Load:
    """Call `run` (an asynchronous launch) for about `seconds`, then `wait`, and report what the board did meanwhile.

    The energy counter moves on ten times a second on an H200, so power is taken from one of its steps to another; over less than three of them, from its
    readings at the start and at the end.
    """
    meter = _meter()
    run(), wait()                                           # the board leaves its idle clocks before the clock is read
    samples: list[Instant] = []
    steps: list[Step] = []
    stop = threading.Event()
    threads = [threading.Thread(target=_sample, args=(meter, samples, stop), daemon=True), threading.Thread(target=_follow, args=(meter, steps, stop), daemon=True)]
    launches, joules, start = 0, meter.joules(), time.perf_counter()
    for thread in threads:
        thread.start()
    while not launches or time.perf_counter() - start < seconds:
        for _ in range(8):
            run()
        launches += 8
        wait()
    elapsed, used = time.perf_counter() - start, meter.joules()
    stop.set()
    for thread in threads:
        thread.join()
    clocks = sorted(sample.clock_mhz for sample in samples if sample.clock_mhz is not None)
    heat = [sample.temperature_c for sample in samples if sample.temperature_c is not None]
    watts = power([step for step in steps if step[0] <= start + elapsed])
    spent = elapsed * watts if watts is not None else None if joules is None or used is None else used - joules
    return Load(None if spent is None else round(spent / elapsed, 1), clocks[len(clocks) // 2] if clocks else None,
                None if spent is None else round(spent / launches, 6), max(heat, default=None), _limits(samples))


def _limits(samples: list[Instant]) -> str:
    """The words that stand in a quarter of the samples or more."""
    times = Counter(word for sample in samples for word in sample.limits)
    return ", ".join(word for word in dict.fromkeys(LIMITS.values()) if times[word] and 4 * times[word] >= len(samples))


def power(steps: Sequence[Step]) -> float | None:
    """Watts from the first to the last of the moments at which the counter moved on; None where there are less than three."""
    if len(steps) < 3:
        return None
    (began, low), (ended, high) = steps[0], steps[-1]
    return (high - low) / (ended - began)


def _follow(meter: _Meter, steps: list[Step], stop: threading.Event) -> None:
    """Note when the energy counter moves on."""
    last = None
    while not stop.wait(0.002):
        now, joules = time.perf_counter(), meter.joules()
        if joules is None:
            return
        if last is not None and joules != last:
            steps.append((now, joules))
        last = joules


def _sample(meter: _Meter, samples: list[Instant], stop: threading.Event) -> None:
    while not stop.wait(0.05):
        found = meter.now()
        if found is not None:
            samples.append(found)


LIMITS = {0x04: "power", 0x80: "power", 0x20: "heat", 0x40: "heat", 0x08: "hardware slowdown"}
"""Bits of NVML's clock event reasons that mean a slower clock than asked for, in words (nvml.h, nvmlClocksEventReasons)."""


@dataclass(frozen=True)
class Instant:
    """One reading of the board: SM clock (MHz), temperature (degrees C), power (W), and what holds the clocks down."""

    clock_mhz: int | None
    temperature_c: int | None
    watts: float | None
    limits: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = ((self.clock_mhz, "MHz"), (self.watts, "W"), (self.temperature_c, "°C"))
        return ", ".join(f"{value:.0f} {unit}" for value, unit in parts if value is not None) or "not readable"


class _Meter:
    """The first GPU that this process sees, by NVML; everything is None where pynvml is not installed or a reading is not supported."""

    def __init__(self) -> None:
        self._nvml = None
        try:
            import pynvml
        except ImportError:
            return
        try:
            pynvml.nvmlInit()
            first = first_visible()
            self._device = pynvml.nvmlDeviceGetHandleByIndex(int(first)) if first.isdigit() else pynvml.nvmlDeviceGetHandleByUUID(first)
        except pynvml.NVMLError:                            # no driver, or no permission: then nothing can be read
            return
        self._nvml = pynvml

    def _read(self, name: str, *args):
        """What one NVML call says of the device, or None."""
        if self._nvml is None or not hasattr(self._nvml, name):
            return None
        try:
            return getattr(self._nvml, name)(self._device, *args)
        except self._nvml.NVMLError:
            return None

    def joules(self) -> float | None:
        """The board's energy counter."""
        used = self._read("nvmlDeviceGetTotalEnergyConsumption")
        return None if used is None else used / 1000.0

    def now(self) -> Instant | None:
        """A reading of the board; None where nothing can be read."""
        if self._nvml is None:
            return None
        clock, heat = self._read("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_SM), self._read("nvmlDeviceGetTemperature", 0)
        watts = self._read("nvmlDeviceGetPowerUsage")
        reasons = self._read("nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:
            reasons = self._read("nvmlDeviceGetCurrentClocksThrottleReasons") or 0
        limits = tuple(dict.fromkeys(word for bit, word in LIMITS.items() if reasons & bit))
        return Instant(clock, heat, None if watts is None else watts / 1000.0, limits)

    def others(self) -> list[str]:
        """Compute processes of this GPU other than ours, in words."""
        found = self._read("nvmlDeviceGetComputeRunningProcesses") or []
        return [f"process {p.pid}" + (f" ({p.usedGpuMemory / 1e9:.1f} GB)" if p.usedGpuMemory else "")
                for p in found if p.pid != os.getpid()]

    def utilisation(self) -> int | None:
        """Per cent of the last sampling period in which a kernel ran."""
        rates = self._read("nvmlDeviceGetUtilizationRates")
        return None if rates is None else int(rates.gpu)


@dataclass(frozen=True)
class State:
    """The board before a measurement: one reading, and in words what would spoil it (another process, heat, a held clock)."""

    now: Instant | None
    warnings: tuple[str, ...] = ()


def state(idle: bool = True) -> State:
    """Read the board. idle: nothing of ours runs or has just run, so that work and limits are somebody else's doing."""
    meter = _meter()
    now, warnings = meter.now(), []
    if now is None:
        return State(None, ("clocks, power and temperature cannot be read here: python -m pip install nvidia-ml-py",))
    others, busy = meter.others(), meter.utilisation()
    if others:
        warnings.append(f"the GPU is shared with {', '.join(others)}: what is measured now depends on what they do")
    if idle and not others and busy is not None and busy > 10:
        warnings.append(f"the GPU was busy {busy} % of the time just before this started: something else runs on it")
    if idle:
        warnings += [f"the clocks are held down by {word} before anything runs" for word in now.limits]
    return State(now, tuple(warnings))


_METERS: list[_Meter] = []


def _meter() -> _Meter:
    if not _METERS:
        _METERS.append(_Meter())
    return _METERS[0]
