# SPDX-License-Identifier: Apache-2.0
"""What starts and ends of kernels cost, the recording `launches`: `hopperlab bench launches`.

Needs a Hopper GPU. The chain of lesson 13x (small products and a norm) launch by launch, as a CUDA graph, with programmatic dependent
launches and as one persistent kernel; where its kernels wait and let the next one begin; how long the chain is; kernels that do nothing; and how many
clusters the GPU holds. Every result is checked before it is timed.
"""
from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...runtime.library import load_kernel
from ..launches import chain as chains
from ..launches.launch import Launch
from ..launches.operands import bf16_values
from ..machine.timing import L2_FLUSH_BYTES, Sample, interleaved, order_of
from ..recordings import Record
from .fields import beside, facts, times, wait
from .launches_when import when

METHOD = ("medians of whole chains timed with events around them on one stream, variants interleaved in one process; in mode 'cold L2' after a write of 512 MiB, in "
          "mode 'warm L2' after the same chain by another variant and a kernel that only lasts, so that the host is ahead in both; in mode 'from the host' by the "
          "host's clock, from an idle GPU to the end; random normal inputs; the ratio is that of speeds, round by round")
SHAPES = ((64, 512), (128, 1024), (128, 2048))          # rows, columns
SHAPE, PRODUCTS, STAGES = (128, 1024), 4, 6
SPIN_CYCLES, STARTS = 600_000, 32
COLD, WARM, HOST = "cold L2", "warm L2", "from the host"
Runs = Mapping[tuple[str, ...], tuple[Callable[[], None], chains.Chain]]     # options -> how it is launched, and what


class WrongChain(AssertionError):
    """A chain left wrong numbers, so that nothing of it is timed."""


def checked(name: object, run: Callable[[], None], made: chains.Chain) -> Callable[[], None]:
    """`run`, after it has been tried on cleared results. Raises WrongChain."""
    import cupy
    for _ in range(3):
        made.given.clear()
        run()
        wait()
        if not made.right(cupy):
            raise WrongChain(f"{name}: the chain's results are wrong")
    return run


def ways(shape: tuple[int, int], products: int = PRODUCTS, stages: int = STAGES, exact: bool = False) -> Runs:
    """The chain in every way, on the same operands; the current stream is where it will run."""
    import cupy
    given = chains.operands(cupy, *shape, products, exact=exact)
    each, one = chains.chain(given, stages=stages), chains.persistent(given, chains.flags_for(cupy, given), stages=stages)
    runs: Runs = {("way=launches",): (each.bound(), each), ("way=graph",): (each.captured(), each), ("way=dependent launches",): (each.bound(True), each),
                  ("way=graph of dependent launches",): (each.captured(True), each), ("way=persistent kernel",): (one.bound(), one)}
    return {name: (checked((name, shape), run, made), made) for name, (run, made) in runs.items()}


def places(shape: tuple[int, int]) -> Runs:
    """A graph of dependent launches for every place of launch_dependents and of wait, beside the graph of ordinary ones."""
    import cupy
    given = chains.operands(cupy, *shape, PRODUCTS, exact=False)
    made = {("way=graph",): chains.chain(given)}
    made |= {(f"LAUNCH_AT={launch}", "WAIT_AT=x"): chains.chain(given, launch, "x") for launch in chains.LAUNCH_AT}
    made |= {("LAUNCH_AT=loaded", f"WAIT_AT={place}"): chains.chain(given, "loaded", place) for place in ("start", "loads")}
    return {name: (checked((name, shape), one.captured(name != ("way=graph",)), one), one) for name, one in made.items()}


def _spinner() -> Callable[[], None]:
    launch = Launch(load_kernel("launches/start.cu", "spin", backend="gpu"), (1,), (1,), (np.int64(SPIN_CYCLES),))
    return launch.bound()


def _from_host(runs: Mapping[tuple[str, ...], Callable[[], None]], rounds: int) -> dict[tuple[str, ...], Sample]:
    """Milliseconds by the host's clock, from an idle GPU until it is idle again."""
    taken: dict[tuple[str, ...], list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 2):
        for name in order_of(list(runs), turn):
            wait()
            began = time.perf_counter()
            runs[name]()
            wait()
            taken[name].append(1e3 * (time.perf_counter() - began))
    return {name: Sample(tuple(values[2:])) for name, values in taken.items()}


def timed(runs: Mapping[tuple[str, ...], Callable[[], None]], rounds: int, mode: str) -> dict[tuple[str, ...], Sample]:
    """Samples of every variant in one mode."""
    named = {"|".join(name): run for name, run in runs.items()}
    if mode == HOST:
        return _from_host(runs, rounds)
    found = interleaved(named, rounds, 2, cold=mode == COLD, prepare=None if mode == COLD else _spinner())
    return {name: found["|".join(name)] for name in runs}


def records(suite: str, runs: Runs, rounds: int, modes: Sequence[str], **fields: object) -> list[Record]:
    """Records of the variants in these modes, each beside the first graph."""
    found, peer = [], ("way=graph",)
    for mode in modes:
        samples = timed({name: run for name, (run, _) in runs.items()}, rounds, mode)
        for name, (_, made) in runs.items():
            m, n, products = made.given.shape
            first = made.launches[0]
            found.append(Record(suite, first.kernel.name, (*name, f"STAGES={first.shared_mem // 16384}"), (m, n, products), "bfloat16", **times(samples[name]),
                                **beside(samples[name], peer[0], samples[peer], round(1e3 * samples[peer].ms, 2)), mode=mode, **facts(first), **fields))
    return found


def chain(rounds: int) -> list[Record]:
    """Every way at every shape, cold, warm and as the host sees it."""
    return [record for shape in SHAPES for record in records("chain", ways(shape), rounds, (COLD, WARM, HOST))]


def placement(rounds: int) -> list[Record]:
    """Where the two instructions stand."""
    return [record for shape in (SHAPE, SHAPES[-1]) for record in records("placement", places(shape), rounds, (COLD, WARM))]


def length(rounds: int) -> list[Record]:
    """Chains of one to eight products and the norm, and the depth of the ring."""
    found = [record for products in (1, 2, 8) for record in records("length", ways(SHAPE, products), rounds, (COLD, WARM))]
    return found + [record for stages in (2, 4, 8) for record in records("depth", ways(SHAPE, stages=stages), rounds, (COLD, WARM))]


def one_kernel(rounds: int) -> list[Record]:
    """The persistent kernel as a cooperative launch, as a graph of one, and as an ordinary launch, which promises nothing about its blocks; beside the graph."""
    import cupy
    given = chains.operands(cupy, *SHAPE, PRODUCTS, exact=False)
    each, one = chains.chain(given), chains.persistent(given, chains.flags_for(cupy, given))
    ordinary = replace(one, cooperative=False)
    runs: Runs = {("way=graph",): (each.captured(), each), ("way=persistent kernel", "launch=cooperative"): (one.bound(), one),
                  ("way=persistent kernel", "launch=cooperative, in a graph"): (one.captured(), one),
                  ("way=persistent kernel", "launch=ordinary"): (ordinary.bound(), ordinary),
                  ("way=persistent kernel", "launch=ordinary, in a graph"): (ordinary.captured(), ordinary)}
    return records("one kernel", {name: (checked(name, run, made), made) for name, (run, made) in runs.items()}, rounds, (COLD, WARM))


def starts(rounds: int) -> list[Record]:
    """Microseconds a kernel, in a row of STARTS kernels of 132 blocks that do nothing."""
    launches = {}
    for launch_at in (0, 1):
        kernel = load_kernel("launches/start.cu", "start", (f"-DLAUNCH_AT={launch_at}",), backend="gpu")
        launches[launch_at] = chains.Chain((Launch(kernel, (132,), (128,), ()),) * STARTS, None)
    made = {("way=launches",): launches[1].bound(), ("way=graph",): launches[1].captured(), ("way=dependent launches",): launches[1].bound(True),
            ("way=graph of dependent launches",): launches[1].captured(True), ("way=graph of dependent launches", "LAUNCH_AT=never"): launches[0].captured(True)}
    found = []
    for mode in (WARM, HOST):
        for name, sample in timed(made, rounds, mode).items():
            each = [1e3 * value / STARTS for value in sample.times]
            found.append(Record("starts", "start", name, mode=mode, value=round(float(np.median(each)), 3), value_min=round(min(each), 3), value_max=round(max(each), 3),
                                unit="us per kernel", **facts(launches[1].launches[0])))
    return found


def clusters(rounds: int) -> list[Record]:
    """How many clusters the GPU holds at a time, where a block has an SM to itself; the driver's answer."""
    from ...runtime.gpu import launch_ex
    kernel = load_kernel("launches/start.cu", "start", backend="gpu")
    Launch(kernel, (1,), (128,), ())()
    return [Record("clusters", "start", (f"CLUSTER={size}",), value=launch_ex.most_clusters(kernel.cupy, "start", size, 128, 200 << 10), unit="clusters", block=(128,),
                   shared_bytes=200 << 10) for size in (1, 2, 4, 8, 16)]


def bugs(rounds: int) -> list[Record]:
    """How often a chain that reads before griddepcontrol.wait, or never waits, is wrong: 20 cold launches per round, on results that hold something else."""
    import cupy
    flush, found = cupy.empty(L2_FLUSH_BYTES, cupy.uint8), []
    given = chains.operands(cupy, *SHAPE, PRODUCTS)
    expected = [*chains.reference(given, cupy)[0]]
    for name, made in (("", chains.chain(given)), ("BUG_X_BEFORE_GRID_WAIT=1", chains.chain(given, options=("-DBUG_X_BEFORE_GRID_WAIT=1",))),
                       ("WAIT_AT=never", chains.chain(given, wait_at="never"))):
        run, wrong, runs = made.captured(True), 0, 20 * rounds
        for turn in range(runs):
            given.clear()
            flush.fill(turn & 0xFF)
            run()
            wrong += not all(bool((bf16_values(got) == wanted).all()) for got, wanted in zip(given.steps[1:], expected, strict=True))
        found.append(Record("bugs", "product", (name,) if name else (), (*SHAPE, PRODUCTS), "bfloat16", runs=runs, wrong=wrong,
                            outcome="right" if not wrong else "wrong" if wrong == runs else "sometimes wrong"))
    return found


EXPERIMENTS: Mapping[str, Callable[[int], list[Record]]] = {"chain": chain, "placement": placement, "length": length, "one_kernel": one_kernel, "starts": starts,
                                                            "when": when, "clusters": clusters, "bugs": bugs}


def shown(recording: Sequence[Record]) -> str:
    """The records as lines: microseconds, spread, and speed beside the graph."""
    lines = []
    for r in recording:
        what = f"{r.suite:9} {'x'.join(map(str, r.shape)):11} {r.mode:13} {' '.join(r.options):52}"
        if r.ms is not None:
            lines.append(f"{what} {1e3 * r.ms:8.2f} us ({1e3 * (r.ms_min or 0):.2f} to {1e3 * (r.ms_max or 0):.2f})  {r.ratio:.3f} of {r.peer}'s speed")
        elif r.value is not None:
            lines.append(f"{what} {r.value:8.2f} {r.unit}")
        else:
            lines.append(f"{what} {r.wrong} of {r.runs} wrong")
    return "\n".join(lines)


def measure(rounds: int = 41, only: Sequence[str] = (), keep: Callable[[list[Record]], object] = lambda records: None) -> list[Record]:
    """The records of these EXPERIMENTS, or of all; measured on a stream that does not wait for the default one."""
    import cupy
    found: list[Record] = []
    for run in (EXPERIMENTS[name] for name in only or EXPERIMENTS):
        with cupy.cuda.Stream(non_blocking=True):
            found += run(rounds)
        keep(found)
    return found
