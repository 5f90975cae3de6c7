# SPDX-License-Identifier: Apache-2.0
"""The product ladder, the recording `ladder`: `hopperlab bench ladder`.

Needs a Hopper GPU, CuPy and PyTorch. Each step is first checked in a process of its own with a time limit (a kernel that hangs
costs that step and nothing else); then what passed is timed beside cuBLAS, interleaved, with a cold L2, and written as the
recording `ladder`: configurations of the last step over eight shapes (those with a note); the last step as the cost model picks it over the same
shapes, and every step at two sizes (those without a note); results a little smaller than a full tile (kernel `edge`); and the last step and cuBLAS without a
pause (kernel `sustained`).
"""
from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

from .. import story
from . import prechecked, report
from ..launches import gemm
from ..machine import peers
from ..machine.board import Load, under_load
from ..launches.gemm_choice import choose
from ..launches.gemm_configurations import Choice, Final, SplitK, StreamK, kernel_of
from ..launches.launch import Launch
from ..launches.operands import bf16_bits, bf16_values, integer_bf16, normal_bf16
from ..recordings import Record, Recording
from .fields import beside, facts, load, tflops, times
from ..machine.timing import Sample, interleaved

SIZES = (4096, 8192)
SHAPES = ((1024,) * 3, (2048,) * 3, (4096,) * 3, (8192,) * 3, (16384,) * 3, (4096, 7168, 2048), (4096, 4096, 14336),
          (128, 7168, 18432))
SLOW = {"naive": 4096, "shared_tile": 8192, "register_double_buffer": 8192}     # the largest size each is timed at
CHECK_SHAPES = ((1, 8, 8), (128, 256, 64), (130, 264, 136), (1000, 1032, 520), (2176, 2312, 1096))
ODD_SHAPES = ((129, 257, 72), (515, 771, 200))              # n no multiple of 8: not for a TMA store
TMA_STORED = ("overlapped_store",)

WIDE, ALONE = Final(), Final(cluster_m=1, group=16)         # 128x256 tiles, by two CTAs that share B and by each on its own
NARROW = Final(bm=64, bn=128, consumers=1, stages=8, group=0, stagger=0, promotion=128)
SINGLE = Final(group=0, c_slots=1, promotion=128)           # a CTA per tile
FINALS: Mapping[str, Choice] = {
    "wide": WIDE, "wide, in step": replace(WIDE, in_step=1), "wide, 3 stages": replace(WIDE, stages=3, c_slots=4, in_flight=0, stagger=0),
    "alone": replace(ALONE, in_flight=0, stagger=0), "alone, staggered": ALONE,
    "alone, 3 stages": replace(ALONE, stages=3, c_slots=4, in_flight=0, stagger=0),
    "alone, in step": replace(ALONE, stages=3, c_slots=4, in_flight=0, stagger=0, in_step=1, blocks=128),
    "alone, staggered, in step": replace(ALONE, in_step=1, blocks=128),
    "256x128": Final(bm=256, bn=128, cluster_m=1, cluster_n=2, stagger=0),
    "single": SINGLE, "single, together": replace(SINGLE, in_flight=0, stagger=0), "single, alone": replace(SINGLE, cluster_m=1, stagger=0),
    "128x128": Final(bn=128, stages=6, stagger=0), "128x64": Final(bn=64, stages=8, c_slots=1, cluster_m=1, stagger=0),
    "single, alone, together": replace(SINGLE, cluster_m=1, stagger=0, in_flight=0), "single, alone, 256B": replace(SINGLE, cluster_m=1, stagger=0, promotion=256),
    "64x128": NARROW, "64x128, 256B": replace(NARROW, promotion=256), "64x128, alone": replace(NARROW, cluster_m=1),
    "64x128, alone, 256B": replace(NARROW, cluster_m=1, promotion=256), "64x128, alone, two in flight": replace(NARROW, cluster_m=1, in_flight=2),
    "split-K": SplitK(), "split-K, B once": SplitK(stream_b=1), "split-K by 4": SplitK(bn=256, split=4, stages=4, stream_b=1),
    "stream-K": StreamK(bn=128, stages=5)}
LARGE = ("wide", "wide, in step", "wide, 3 stages", "alone", "alone, staggered", "alone, 3 stages", "256x128")
HUGE = ("wide, in step", "alone, in step", "alone, staggered, in step", "alone, 3 stages")
TRIED: Mapping[tuple[int, ...], tuple[str, ...]] = {        # what is timed at each shape
    SHAPES[0]: ("64x128", "64x128, 256B", "64x128, alone", "64x128, alone, 256B", "64x128, alone, two in flight", "128x64", "split-K"),
    SHAPES[1]: ("single", "single, together", "single, alone", "single, alone, together", "single, alone, 256B", "128x128", "256x128"),
    SHAPES[3]: (*HUGE, "wide", "256x128"), SHAPES[4]: HUGE,
    SHAPES[7]: ("split-K", "split-K, B once", "split-K by 4", "128x64", "64x128", "64x128, 256B", "stream-K")}
EDGES = {                                                   # full tile -> m, n, n no multiple of 8, k
    (4096,) * 3: ((4090, 4096, 4096), (4096, 4088, 4096), (4096, 4090, 4096), (4096, 4091, 4096), (4096, 4096, 4088)),
    (8192,) * 3: ((8186, 8192, 8192), (8192, 8184, 8192), (8192, 8186, 8192), (8192, 8187, 8192), (8192, 8192, 8184))}
SUSTAINED = ((4096,) * 3, (8192,) * 3, (16384,) * 3)


def _wrong(make: Callable[..., Launch], shape: tuple[int, int, int], seed: int) -> float:
    """Fraction of wrong elements on integer operands, where PyTorch's fp32 product is exact; c is poisoned first."""
    import cupy
    import torch
    torch.backends.cuda.matmul.allow_tf32 = False
    m, n, k = shape
    a, b = integer_bf16(cupy, (m, k), seed, 2), integer_bf16(cupy, (n, k), seed + 1, 2)
    c = cupy.full((m, n), 0x7FC0, cupy.uint16)
    ready = make(a, b, c)
    left, right = (torch.as_tensor(bf16_values(x), device="cuda") for x in (a, b))
    exact = bf16_bits(cupy.asarray(left @ right.T))
    worst = 0.0
    for _ in range(3):                                      # again on what the last launch left behind
        c.fill(0x7FC0)
        ready()
        cupy.cuda.runtime.deviceSynchronize()
        worst = max(worst, float((c != exact).mean()))
    return worst


def check(step: str) -> int:
    """Check one step (or 'final: <configuration>') on this GPU; returns 0 and prints a line when every element is right."""
    name, _, configuration = step.partition(": ")
    choice = FINALS.get(configuration)

    def make(a, b, c) -> Launch:
        return gemm.final(a, b, c, choice) if choice else gemm.launch(name, a, b, c)
    shapes = CHECK_SHAPES + (() if name in TMA_STORED else ODD_SHAPES)
    for shape in shapes:
        wrong = _wrong(make, shape, sum(shape))
        if wrong:
            print(f"{step}: {wrong:.1%} wrong at {shape}")
            return 1
    print(f"{step}: right at {len(shapes)} shapes")
    return 0


def check_all(limit: float = 45) -> set[str]:
    """The steps and configurations that are right here, each tried in its own process."""
    names = [*gemm.LADDER, *(f"final: {name}" for name in FINALS)]
    return prechecked.right(__name__, names, limit)


def _operands(shape: tuple[int, int, int]):
    import cupy
    m, n, k = shape
    return normal_bf16(cupy, (m, k), 11), normal_bf16(cupy, (n, k), 12), cupy.empty((m, n), cupy.uint16)


def _timed(shape, makers: Mapping[str, Callable[..., Launch]], rounds: int) -> tuple[dict[str, Launch], dict[str, Sample], dict]:
    """Launches, samples and runs by name, with both entry points of cuBLAS among them."""
    import cupy
    a, b, c = _operands(shape)
    made = {name: make(a, b, c) for name, make in makers.items()}
    runs = {name: launch.bound() for name, launch in made.items()}
    runs |= {"cublasGemmEx": peers.cublas(a, b, c), "torch": peers.torch_matmul(a, b, c)}
    runs["cublasGemmEx"]()
    expected = bf16_values(c)
    for name, run in runs.items():
        c.fill(0x7FC0)
        run()
        error = float(cupy.abs(bf16_values(c) - expected).max() / cupy.abs(expected).max())
        if not error < 2e-2:
            raise AssertionError(f"{name} at {shape}: largest error {error:.2e} of the largest result")
    return made, interleaved(runs, rounds, 2), runs


def _records(shape, kernels: Mapping[str, str], options: Mapping[str, tuple[str, ...]], timed,
             watts: tuple[str, ...] = ()) -> list[Record]:
    made, samples, runs = timed
    best = min(("cublasGemmEx", "torch"), key=lambda name: samples[name].ms)
    value = tflops(shape, samples[best])
    out = []
    for name, sample in samples.items():
        out.append(Record("ladder", kernels.get(name, name), options.get(name, ()), shape, "bfloat16", **times(sample),
                          tflops=tflops(shape, sample), **beside(sample, f"cuBLAS ({best})", samples[best], value),
                          **facts(made.get(name)), **load(runs[name], 1.0 if name in watts else 0)))
    return out


def steps(right: set[str], rounds: int) -> list[Record]:
    """Every step at the sizes of SIZES, the last one as the model picks it."""
    records = []
    for size in SIZES:
        shape = (size, size, size)
        made, options = _last(shape)
        makers = {name: gemm.LADDER[name] for name in gemm.LADDER if name in right} | made
        slow = {name: make for name, make in makers.items() if SLOW.get(name, 0) >= size}
        quick = {name: make for name, make in makers.items() if name not in SLOW}
        watts = ("final", "cublasGemmEx", "torch") if size == 8192 else ()
        records += [r for r in _records(shape, {}, {}, _timed(shape, slow, 2)) if r.kernel in SLOW]
        records += _records(shape, {}, options, _timed(shape, quick, rounds), watts)
    return records


def _last(shape) -> tuple[dict[str, Callable[..., Launch]], dict[str, tuple[str, ...]]]:
    """The last step at a shape: its maker and the options of its record, by name."""
    choice = choose(*shape)
    return {"final": lambda a, b, c: gemm.final(a, b, c, choice)}, {"final": choice.named}


def verdicts(rounds: int) -> list[Record]:
    """The last step as the model picks it against both entry points of cuBLAS alone, at the shapes that `steps` leaves out."""
    records = []
    for shape in SHAPES:
        if shape not in [(size,) * 3 for size in SIZES]:
            makers, options = _last(shape)
            records += _records(shape, {}, options, _timed(shape, makers, rounds if prod(shape) > 1 << 39 else 4 * rounds))
    return records


def finals(right: set[str], rounds: int) -> list[Record]:
    """The configurations of TRIED (else LARGE) over SHAPES; kernel is the one that is configured, the note its name here."""
    records = []
    for shape in SHAPES:
        tried = {name: FINALS[name] for name in TRIED.get(shape, LARGE) if f"final: {name}" in right}
        makers = {name: (lambda a, b, c, choice=choice: gemm.final(a, b, c, choice)) for name, choice in tried.items()}
        kernels = {name: kernel_of(choice) for name, choice in tried.items()}
        timed = _timed(shape, makers, 3 * rounds if max(shape) <= 2048 else rounds)
        made = _records(shape, kernels, {name: choice.named for name, choice in tried.items()}, timed)
        records += [replace(record, note=name) for name, record in zip(timed[1], made, strict=True)]
    return records


def edges(rounds: int) -> list[Record]:
    """The last step at EDGES, each as `choose` has it, beside itself at the next full tile, and cublasGemmEx at both.

    ratio is of times: the full tile's over this one's. options: who.
    """
    records = []
    for full, shapes in EDGES.items():
        runs = {}
        for shape in (full, *shapes):
            operands = _operands(shape)
            runs["final", shape] = gemm.final(*operands, choose(*shape)).bound()
            runs["cublasGemmEx", shape] = peers.cublas(*operands)
        samples = interleaved(runs, rounds, 2)
        for (who, shape), sample in samples.items():
            if shape != full:
                whole = samples[who, full]
                records.append(Record("ladder", "edge", (who,), shape, "bfloat16", **times(sample), tflops=tflops(shape, sample),
                                      **beside(sample, f"{who} at " + "x".join(map(str, full)), whole, tflops(full, whole)),
                                      note="ratio: the full tile's time over this one's"))
    return records


def sustained(seconds: float = 0.5, turns: int = 3) -> list[Record]:
    """The last step and cublasGemmEx without a pause, in turns: ms is the mean of a turn's launches, median over the turns."""
    import cupy
    records = []
    for shape in SUSTAINED:
        a, b, c = _operands(shape)
        last = gemm.final(a, b, c, choose(*shape))
        runs = {"final": last.bound(), "cublasGemmEx": peers.cublas(a, b, c)}
        loads: dict[str, list[Load]] = {name: [] for name in runs}
        taken: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(turns):
            for name, run in runs.items():
                count, start = 0, time.perf_counter()

                def counted(run=run) -> None:
                    nonlocal count
                    count += 1
                    run()
                loads[name].append(under_load(counted, cupy.cuda.runtime.deviceSynchronize, seconds))
                taken[name].append(1e3 * (time.perf_counter() - start) / count)
        samples = {name: Sample(tuple(values)) for name, values in taken.items()}
        theirs = samples["cublasGemmEx"]
        for name, sample in samples.items():
            middle = sorted(loads[name], key=lambda load: load.watts or 0)[turns // 2]
            records.append(Record("ladder", "sustained", (name,), shape, "bfloat16", **times(sample), tflops=tflops(shape, sample),
                                  **beside(sample, "cublasGemmEx", theirs, tflops(shape, theirs)), watts=middle.watts,
                                  clock_mhz=middle.clock_mhz, note="without a pause, in turns"))
    return records


def shown(recording: Recording) -> str:
    """The story of the ladder, then what was tried at each shape; a plain table where the story's size was not measured."""
    try:
        told = story.tell(recording)
    except ValueError:
        return report.table(list(recording))
    lines = []
    for shape in SHAPES:
        tried = sorted((r for r in recording if r.note and r.shape == shape and r.kernel not in ("edge", "sustained")), key=lambda r: -r.tflops)
        lines.append("x".join(map(str, shape)) + ": " + "; ".join(f"{r.note} {r.tflops:.0f} ({r.ratio:.3f})" for r in tried))
    return "\n".join([str(told), "", "configurations by shape: TFLOP/s (of cuBLAS)", *lines])


def measure(rounds: int, keep: Callable[[list[Record]], object] = lambda records: None) -> list[Record]:
    """All records; what was found so far is given to `keep`, so that a run that is cut short leaves something."""
    right = check_all()
    records = finals(right, rounds)
    keep(records)
    records += verdicts(rounds) + steps(right, rounds)
    keep(records)
    return records + edges(rounds) + sustained()
