# SPDX-License-Identifier: Apache-2.0
"""Lesson 15: the steps of the fp8 ladder run in the emulator on exact operands, k-blocks in flight in a warpgroup, what a tile asks of
shared memory, and the check of the exercise.

Operands are small integers and scales powers of two, so that every sum is exact in fp32 and C is rounded once.
"""
from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from ...measure.launches import fp8, fp8_grouped
from ...measure.launches.edited import Changes, changed
from ...measure.launches.fp8 import TALL, BlockScaled
from ...runtime.tables import text_table
from ...show import style
from ...show.timelines import Span, gantt

STEPS: Mapping[str, BlockScaled | None] = {
    "promoted": None, "staged_scales": BlockScaled(cluster_n=1, parts=1), "multicast": BlockScaled(parts=1), "overlapped": BlockScaled(),
    "tall": TALL}
"""The steps with fine-grained scales: None is fp8/promoted.cu, the others configurations of fp8/block_scaled.cu."""

PRODUCTS_PER_CYCLE = 4096           # e4m3 multiply-adds of an SM's tensor cores in a cycle (lesson 08x counts them)
PORT = 128                          # bytes that can be read from shared memory in a cycle
WAYS = ("tensor core reads", "TMA writes")


def exact_operands(m: int, n: int, k: int, scaled: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(a8, b8, a_scales, b_scales): integers from -2 to 2 in e4m3, scales powers of two from 1/4 to 4, or all 1."""
    from ml_dtypes import float8_e4m3fn

    random = np.random.default_rng(m + n + k)
    a, b = (random.integers(-2, 3, (rows, k)).astype(float8_e4m3fn) for rows in (m, n))
    blocks, rows, columns = -(-k // fp8.BLOCK), -(-m // 4) * 4, -(-n // fp8.BLOCK)
    a_scales, b_scales = (np.exp2(scaled * random.integers(-2, 3, shape)).astype(np.float32) for shape in ((blocks, rows), (columns, blocks)))
    return a, b, a_scales, b_scales


def run_fp8(step: str, m: int = 200, n: int = 136, k: int = 784, landing: str = "lazy", stages: int = 0, blocks: int = 2,
            changes: Changes = (), scaled: bool = True) -> tuple[bool, Any]:
    """(right, session) of a step of STEPS in the emulator.

    stages: of the ring (0: the step's own); blocks: the most CTAs, so that one takes several tiles; changes: to the kernel's text;
    scaled: scales that differ, or all 1. Right: equal to the float64 reference rounded to bf16 once, bit for bit.
    """
    from ml_dtypes import bfloat16

    import hopperlab as hl

    given, choice = exact_operands(m, n, k, scaled), STEPS[step]
    c = np.full((m, n), np.nan, bfloat16)
    if choice is None:
        path, options = "fp8/promoted.cu", (f"-DSTAGES={stages or 5}",)
        launch = fp8.promoted(given[0], given[1], c, *given[2:], stages=stages or 5, blocks=blocks, backend="emulator")
    else:
        choice = replace(choice, stages=stages or choice.stages, blocks=blocks)
        path, options = "fp8/block_scaled.cu", choice.options
        launch = fp8.block_scaled(given[0], given[1], c, *given[2:], choice, backend="emulator")
    if changes:
        with warnings.catch_warnings():                         # ptxas's notes on a planted bug
            warnings.simplefilter("ignore")
            launch = changed(launch, path, changes, options)
    with hl.emulate(schedule=landing, hazards="collect") as run:
        launch()
    return bool((c == fp8.reference(*given).astype(bfloat16)).all()), run


def _consumer_events(run: Any, warp: int) -> list[tuple[int, Any]]:
    mine = [event for event in run.timeline if event.block == 0 and event.warp == warp]
    return list(enumerate(mine))


def blocks_in_flight(run: Any, warp: int = 4) -> int:
    """The most k-blocks (of four wgmma) that were in flight at once in the warpgroup of this warp."""
    most = now = 0
    for _, event in _consumer_events(run, warp):
        now += {"issue wgmma": 1, "land wgmma": -1}.get(event.what, 0)
        most = max(most, now)
    return -(-most // 4)


def promotion_spans(run: Any, name: str, warp: int = 4) -> list[Span]:
    """What one consumer warp did in its own order of events: each k-block from its first wgmma to its last landing, and its
    promotion, which comes after the landing and before whatever the warp does next. Rows begin with `name`."""
    spans: list[Span] = []
    events = _consumer_events(run, warp)
    issues = [at for at, event in events if event.what == "issue wgmma"]
    lands = [at for at, event in events if event.what == "land wgmma"]
    for block in range(len(lands) // 4):
        begun, done = issues[4 * block], lands[4 * block + 3]
        released = next((at for at, event in events if at > done and event.what == "arrive mbarrier"), done)
        spans += [Span(f"{name}: tensor core, part {block % 2}" if name.startswith("two") else f"{name}: tensor core", begun, done, "multiplied", str(block)),
                  Span(f"{name}: warpgroup", released, released + 1, "promoted", str(block))]
    return sorted(spans, key=lambda span: span.row)


def promotion_picture(k: int = 384) -> style.Picture:
    """One consumer of a 128 x 128 tile with one partial accumulator, and with two, over the order of its own events."""
    spans: list[Span] = []
    for name, step in (("one part", "staged_scales"), ("two parts", "overlapped")):
        _, run = run_fp8(step, 128, 128, k)
        spans += promotion_spans(run, name)
    return gantt(spans, "A consumer promotes: between its k-blocks, or under the next",
                 "order of the consumer's events in the emulator (what came after what; not seconds)", {"multiplied": style.BLUE, "promoted": style.ORANGE})


def traffic(run: Any, bm: int, bn: int, k_blocks: int) -> dict[str, float]:
    """Bytes of shared memory in each cycle that the tensor core needs, by way: of a run of one tile of bm x bn and k_blocks k-blocks."""
    count = run.counters
    cycles = bm * bn * fp8.BLOCK * k_blocks / PRODUCTS_PER_CYCLE
    moved = (count["wgmma_wavefronts"] * PORT, k_blocks * (bm + bn) * fp8.BLOCK)
    return {way: moved_bytes / cycles for way, moved_bytes in zip(WAYS, moved, strict=True)}


TILES = {"128 x 128": (BlockScaled(cluster_n=1, parts=1), 128, 128), "256 x 128, one half after the other": (replace(TALL, cluster_n=1), 256, 128),
         "128 x 256 at once, one scale": (None, 128, 256)}


def tiles_traffic() -> dict[str, dict[str, float]]:
    """Name of a tile -> `traffic` of one tile run in the emulator; the last one is fp8/tensor_scale.cu."""
    from ml_dtypes import bfloat16

    import hopperlab as hl

    found = {}
    for name, (choice, bm, bn) in TILES.items():
        a, b, a_scales, b_scales = exact_operands(bm, bn, 256)
        c = np.zeros((bm, bn), bfloat16)
        launch = (fp8.tensor_scale(a, b, c, backend="emulator") if choice is None
                  else fp8.block_scaled(a, b, c, a_scales, b_scales, choice, backend="emulator"))
        with hl.emulate() as run:
            launch()
        found[name] = traffic(run, bm, bn, 2)
    return found


def tile_traffic_fp8() -> str:
    """Each tile's bytes of shared memory in a cycle of the tensor core by way, and the share that is read of PORT bytes."""
    rows = [(name, *(ways[way] for way in WAYS), f"{100 * ways[WAYS[0]] / PORT:.0f} %") for name, ways in tiles_traffic().items()]
    return "\n".join(text_table("{:38}" + "{:19.0f}" * len(WAYS) + "  {}", rows, ("bytes of shared memory a cycle", *WAYS, f"read, of {PORT} at most")))


def check_wide(registers: int | None, bytes_a_cycle: float | None) -> str:
    """Lesson 15's exercise: a tile of 128 x 256, multiplied by n = 256 at once by two consumers with A in shared memory, and promoted.
    registers: fp32 sums and partial sums a thread; bytes_a_cycle: that the tensor core reads from shared memory."""
    if registers is None or bytes_a_cycle is None:
        return "Not answered yet: write both numbers, then run the cell again."
    if registers == 64 * 256 // 128:
        return f"{registers} registers hold the sums of a consumer's 64 x 256. The tensor core needs another place for the k-block it multiplies."
    if registers != 2 * 64 * 256 // 128:
        return f"Not {registers} registers: a consumer's 128 threads hold 64 x 256 sums, and once more as many partial sums."
    found = tiles_traffic()
    read, written = found["128 x 256 at once, one scale"].values()
    if abs(bytes_a_cycle - read - written) < 0.5:
        return f"{bytes_a_cycle:g} bytes per cycle cross shared memory, but {written:.0f} of them are what TMA writes. How many are read?"
    if abs(bytes_a_cycle - read) > 0.5:
        return (f"Not {bytes_a_cycle:g}: a k-block of the tile takes 128 x 256 x 128 / {PRODUCTS_PER_CYCLE} cycles. In them each consumer reads its 64 rows of A "
                "and all 256 of B, 128 bytes per row.")
    halves = found["256 x 128, one half after the other"][WAYS[0]]
    return (f"Right: {read:.0f} bytes per cycle, less than any tile that is promoted reads; but {registers} registers are more than a thread can have (255). So a "
            f"large tile is multiplied half after half: the partial sums take 64 registers, one operand is read twice, and {halves:.0f} bytes per cycle are read.")


def asked_of_l2(step: str, run: Any) -> int:
    """Bytes that the TMA copies of a run asked of the L2: with multicast, a CTA asks for its share of A only."""
    choice = STEPS[step]
    if choice is None:
        return run.counters["tma_load_bytes"]
    stage = choice.bm // choice.cluster_n * fp8.BLOCK + choice.bn * fp8.BLOCK + choice.bm * 4
    return run.counters["tma_loads"] // 3 * stage


def steps_table(runs: Sequence[tuple[str, bool, Any]]) -> str:
    """A line a step that ran: right or not, hazards, loads of warps from global memory, TMA copies, what these asked of the
    L2, and the most k-blocks in flight in one warpgroup."""
    rows = [(name, str(right), len(run.hazards), run.counters.get("global_load_requests", 0), run.counters["tma_loads"], asked_of_l2(name, run) // 1024,
             blocks_in_flight(run)) for name, right, run in runs]
    head = ("step", "right", "hazards", "global loads of warps", "TMA copies", "KiB asked of the L2", "k-blocks in flight")
    return "\n".join(text_table("{:16} {:>6} {:8d} {:22d} {:11d} {:20d} {:19d}", rows, head))


def grouped_operands(rows: Sequence[int], n: int, k: int) -> tuple[np.ndarray, ...]:
    """(a8, b8, a_scales, b_scales, first) of groups with these numbers of rows, exact as `exact_operands`."""
    from ml_dtypes import float8_e4m3fn

    random = np.random.default_rng([sum(rows), n, k])
    first = np.cumsum([0, *rows]).astype(np.int32)
    a, b = (random.integers(-2, 3, shape).astype(float8_e4m3fn) for shape in ((int(first[-1]), k), (len(rows), n, k)))
    blocks, columns = -(-k // fp8.BLOCK), -(-n // fp8.BLOCK)
    shapes = ((blocks, -(-int(first[-1]) // 4) * 4), (len(rows), columns, blocks))
    a_scales, b_scales = (np.exp2(random.integers(-2, 3, shape)).astype(np.float32) for shape in shapes)
    return a, b, a_scales, b_scales, first


def run_grouped(rows: Sequence[int], n: int = 136, k: int = 400, landing: str = "lazy", blocks: int = 2, changes: Changes = ()) -> tuple[list[bool], Any]:
    """(is each group right?, session) of fp8/grouped.cu in the emulator on groups with these numbers of rows."""
    from ml_dtypes import bfloat16

    import hopperlab as hl

    a, b, a_scales, b_scales, first = grouped_operands(rows, n, k)
    c = np.full((len(a), n), np.nan, bfloat16)
    launch = fp8_grouped.grouped(a, b, c, a_scales, b_scales, first, blocks=blocks, backend="emulator")
    if changes:
        launch = changed(launch, "fp8/grouped.cu", changes, ("-DSTAGES=5",))
    with hl.emulate(schedule=landing, hazards="collect") as run:
        launch()
    same = (c == fp8_grouped.reference(a, b, a_scales, b_scales, first).astype(bfloat16)).all(axis=1)
    return [bool(same[begin:end].all()) for begin, end in pairwise(first)], run
