# SPDX-License-Identifier: Apache-2.0
"""Lesson 01: the first steps of the ladder, recorded or timed on this GPU, and the exercise about bytes in flight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...hopper import limits
from ...runtime.tables import text_table
from ...show import charts
from ...show.style import Picture
from ..given import no_number
from .feeding import bytes_in_flight

STEPS = {"naive": "naive", "shared_tile": "shared tile", "register_double_buffer": "register double buffer",
         "mma_multistage": "mma.sync (lesson 03)", "cublasGemmEx": "cuBLAS"}
SIZE = 4096
HERE = 2048          # rows and columns of the product that is timed live


def first_steps(recording: Any) -> Picture:
    """One bar a step: the best recorded rate at 4096³ (TFLOP/s), from the recording `ladder`."""
    return charts.bars({STEPS[name]: rate for name, rate in best_rates(recording).items()}, "rate (TFLOP/s)",
                       f"The first steps of the ladder, bf16 product of {SIZE}³", recording.source, best="cuBLAS")


def best_rates(recording: Any) -> dict[str, float]:
    """Kernel -> its best recorded rate at 4096³ in TFLOP/s, for STEPS."""
    return {name: max(record.tflops for record in recording.where(kernel=name, shape=(SIZE, SIZE, SIZE))) for name in STEPS}


TIMES = "  {:24} {:9.3f} ms ({:.3f} to {:.3f})  {:5.1f} TFLOP/s"


def step_times(recording: Any) -> str:
    """The three kernels of lesson 01: timed on this GPU at 2048³ where there is one, else the recorded times at 4096³."""
    import hopperlab as hl

    if hl.backend() == "gpu":
        return _timed_here()
    best = {name: max(recording.where(kernel=name, shape=(SIZE, SIZE, SIZE)), key=lambda record: record.tflops) for name in list(STEPS)[:3]}
    rows = [(STEPS[name], record.ms, record.ms_min, record.ms_max, record.tflops) for name, record in best.items()]
    return "\n".join([recording.source + f", {SIZE}³, median (least to greatest):", *text_table(TIMES, rows)])


def _timed_here() -> str:
    import cupy

    from ...measure.launches import gemm, operands
    from ...measure.machine import timing
    from ...runtime.gpu.driver import find_gpu

    a, b = (operands.normal_bf16(cupy, (HERE, HERE), seed) for seed in (1, 2))
    c = cupy.empty((HERE, HERE), cupy.uint16)
    runs = {name: getattr(gemm, name)(a, b, c).bound() for name in list(STEPS)[:3]}
    samples = timing.interleaved(runs, 5)
    rows = [(STEPS[name], sample.ms, sample.least, sample.most, 2 * HERE ** 3 / sample.ms / 1e9) for name, sample in samples.items()]
    return "\n".join([f"measured on this GPU ({find_gpu().name}), {HERE}³, cold L2, median of 5 (least to greatest):", *text_table(TIMES, rows)])


def check_flight(answers: Mapping[str, float | None], latency_ns: float, gb_s: float, tile_bytes: int) -> str:
    """Lesson 01's exercise: bytes in flight per SM for `gb_s` at this latency; the 16-byte loads that each of 512 threads of an SM then has on
    its way; the tiles of `tile_bytes` that one block per SM must have on their way (a whole number). Right within 3 %."""
    per_sm = bytes_in_flight(latency_ns, gb_s) / limits.SMS
    right = {"bytes per SM": per_sm, "loads per thread": per_sm / 512 / 16, "tiles": -(-per_sm // tile_bytes)}
    hints = {"bytes per SM": "latency times bandwidth is for the whole GPU, and it has 132 SMs; ns times GB/s gives bytes",
             "loads per thread": "512 threads share the bytes of one SM, 16 at a time", "tiles": "a tile is whole: round up"}
    lines = []
    for name, value in right.items():
        given = answers.get(name)
        if given is None:
            lines.append(f"{name}: not answered yet")
        elif wrong_form := no_number(given):
            lines.append(f"{name}: {wrong_form}")
        elif abs(given - value) <= 0.03 * value:
            lines.append(f"{name}: right")
        else:
            lines.append(f"{name}: {given:.4g} is not it; {hints[name]}")
    return "\n".join(lines)
