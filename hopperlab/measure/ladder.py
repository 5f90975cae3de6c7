"""Measure the product ladder on this machine: `python -m hopperlab.measure.ladder [--out DIR] [--rounds N]`.

Needs a Hopper GPU, CuPy and PyTorch. Each step is first checked in a process of its own with a time limit (a kernel that hangs
costs that step and nothing else); then what passed is timed beside cuBLAS, interleaved, with a cold L2, and written as the
recording `ladder`: every configuration of the last step over eight shapes, which is the table that `gemm_choice` reads, then
every step at two sizes, the last one as the table has it.
"""
from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from . import launches_gemm, peers, recordings
from .board import header
from .gemm_choice import Final, StreamK, choose, tuned
from .launches import Launch
from .operands import bf16_bits, bf16_values, integer_bf16, normal_bf16
from .recordings import Record
from .suites import _beside, _facts, _load, _tflops, _times
from .timing import Sample, interleaved

SIZES = (4096, 8192)
SHAPES = ((1024,) * 3, (2048,) * 3, (4096,) * 3, (8192,) * 3, (16384,) * 3, (4096, 7168, 2048), (4096, 4096, 14336),
          (128, 7168, 18432))
SLOW = {"naive": 4096, "shared_tile": 8192, "register_double_buffer": 8192}     # the largest size each is timed at
CHECK_SHAPES = ((1, 8, 8), (128, 256, 64), (130, 264, 136), (1000, 1032, 520), (2176, 2312, 1096))
ODD_SHAPES = ((129, 257, 72), (515, 771, 200))              # n no multiple of 8: not for a TMA store
TMA_STORED = ("overlapped_store",)

FINALS: Mapping[str, Final | StreamK] = {
    "default": Final(), "4 stages": Final(stages=4, slots=2), "in flight": Final(in_flight=1),
    "4 stages, in flight": Final(stages=4, slots=2, in_flight=1), "no cluster": Final(cluster=1),
    "group 4": Final(group=4), "group 16": Final(group=16), "128 CTAs": Final(blocks=128),
    "128 CTAs, in flight": Final(blocks=128, in_flight=1), "128 CTAs, group 4": Final(blocks=128, group=4),
    "256x128": Final(bm=256, bn=128), "256x128, 4 stages": Final(bm=256, bn=128, stages=4, slots=2),
    "128x128": Final(bn=128, stages=5, slots=2), "128x128, alone": Final(bn=128, stages=5, slots=2, cluster=1),
    "128x64": Final(bn=64, stages=7, slots=1), "128x64, alone": Final(bn=64, stages=7, slots=1, cluster=1),
    "stream-K": StreamK(), "stream-K 128": StreamK(bn=128, stages=5), "stream-K, 112 CTAs": StreamK(blocks=112),
    "stream-K 128, 128 CTAs": StreamK(bn=128, stages=5, blocks=128)}


def _named(choice: Final | StreamK) -> tuple[str, ...]:
    return (*(option[2:] for option in choice.options), f"BLOCKS={choice.blocks}")


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
        return launches_gemm.final(a, b, c, choice) if choice else launches_gemm.launch(name, a, b, c)
    shapes = CHECK_SHAPES + (() if name in TMA_STORED else ODD_SHAPES)
    for shape in shapes:
        wrong = _wrong(make, shape, sum(shape))
        if wrong:
            print(f"{step}: {wrong:.1%} wrong at {shape}")
            return 1
    print(f"{step}: right at {len(shapes)} shapes")
    return 0


def checked(step: str, limit: float = 60) -> bool:
    """Whether `check` passes for this step in a process of its own within `limit` seconds; prints what it said."""
    try:
        done = subprocess.run([sys.executable, "-m", "hopperlab.measure.ladder", "--check", step], timeout=limit, check=False,
                              capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        print(f"{step}: not done in {limit:.0f} s (a hang?)", flush=True)
        return False
    print(done.stdout.strip() or f"{step}: " + done.stderr.strip().rpartition("\n")[2], flush=True)
    return done.returncode == 0


def check_all(limit: float = 45) -> set[str]:
    """The steps and configurations that are right here, each tried in its own process."""
    names = [*launches_gemm.LADDER, *(f"final: {name}" for name in FINALS)]
    with ThreadPoolExecutor(12) as pool:
        return {name for name, right in zip(names, pool.map(lambda name: checked(name, limit), names)) if right}


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
    value = _tflops(shape, samples[best])
    out = []
    for name, sample in samples.items():
        out.append(Record("ladder", kernels.get(name, name), options.get(name, ()), shape, "bfloat16", **_times(sample),
                          tflops=_tflops(shape, sample), **_beside(sample, f"cuBLAS ({best})", samples[best], value),
                          **_facts(made.get(name)), **_load(runs[name], 1.0 if name in watts else 0)))
    return out


def steps(right: set[str], rounds: int, best: Mapping[tuple[int, ...], Final | StreamK]) -> list[Record]:
    """Every step at the sizes of SIZES; `best`: the configuration of the last step by shape, where the model's is not it."""
    records = []
    for size in SIZES:
        shape = (size, size, size)
        choice = best.get(shape) or choose(*shape)
        makers = {name: launches_gemm.LADDER[name] for name in launches_gemm.LADDER if name in right}
        if "final" in makers:
            makers["final"] = lambda a, b, c, choice=choice: launches_gemm.final(a, b, c, choice)
        slow = {name: make for name, make in makers.items() if SLOW.get(name, 0) >= size}
        quick = {name: make for name, make in makers.items() if name not in SLOW}
        watts = ("final", "cublasGemmEx", "torch") if size == 8192 else ()
        records += [r for r in _records(shape, {}, {}, _timed(shape, slow, 2)) if r.kernel in SLOW]
        records += _records(shape, {}, {"final": _named(choice)}, _timed(shape, quick, rounds), watts)
    return records


def finals(right: set[str], rounds: int) -> list[Record]:
    """Every configuration of the last step over SHAPES; kernel is 'final' or 'stream_k', the note its name here."""
    records = []
    for shape in SHAPES:
        few = -(-shape[0] // 128) * -(-shape[1] // 256) < 132
        tried = {name: choice for name, choice in FINALS.items() if f"final: {name}" in right
                 and (few or (isinstance(choice, Final) and choice.bm * choice.bn == 32768))}
        makers = {name: (lambda a, b, c, choice=choice: launches_gemm.final(a, b, c, choice)) for name, choice in tried.items()}
        kernels = {name: "final" if isinstance(choice, Final) else "stream_k" for name, choice in tried.items()}
        timed = _timed(shape, makers, rounds)
        made = _records(shape, kernels, {name: _named(choice) for name, choice in tried.items()}, timed)
        records += [replace(record, note=name) for name, record in zip(timed[1], made)]
    return records


def table(records: list[Record]) -> str:
    """One line a step, then one a shape with the best configurations."""
    lines = [f"{r.kernel:24s} {r.shape[0]:6d} {r.tflops:7.1f} TFLOP/s {r.ratio:6.3f} of {r.peer} {r.registers or '':>4} regs "
             f"{r.shared_bytes or '':>7} B {r.spills if r.spills is not None else '':>2} spilled {r.watts or ''}"
             for r in records if not r.note]
    for shape in SHAPES:
        tried = sorted((r for r in records if r.note and r.shape == shape), key=lambda r: -r.tflops)
        lines.append("x".join(map(str, shape)) + ": " + "; ".join(f"{r.note} {r.tflops:.0f} ({r.ratio:.3f})" for r in tried))
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m hopperlab.measure.ladder", description=__doc__.split("\n")[0])
    parser.add_argument("--check", metavar="STEP", help="only check this step, in this process")
    parser.add_argument("--out", type=Path, default=recordings.FOLDER, help="where to write (the package's recordings)")
    parser.add_argument("--rounds", type=int, default=11, help="launches of each variant that count (11)")
    chosen = parser.parse_args(arguments)
    if chosen.check:
        return check(chosen.check)
    right = check_all()
    if not right:
        print("no step is right here: nothing to time")
        return 1
    head = header()
    records = finals(right, chosen.rounds)
    recordings.save("ladder", head, records, chosen.out)    # kept even if what follows is cut short
    records += steps(right, chosen.rounds, tuned(records))
    recordings.save("ladder", head, records, chosen.out)
    print(table(records), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
