# SPDX-License-Identifier: Apache-2.0
"""Exercises of lesson 03: how deep each wait_group may be, and a product whose two stages of cp.async become STAGES."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...checking.carried import Carried
from ...checking.exercise import CUDA, PYTHON, Case, Exercise
from ...checking.requires import Requirement, custom, exactly, needless, none_of
from ..l01_feeding_the_tensor_core.exercises import by_warp

EDGE, BK, WARPS = 128, 64, 8                    # the tile of the product: 128 x 128 x 64, by eight warps
PRODUCTS = 64                                   # mma.sync of a warp for one tile
COPIES = 8                                      # cp.async instructions of a warp for one tile: four of A and four of B
STAGE_BYTES = 2 * EDGE * BK * 2
MEET, PRODUCT, COPY = "meet bar", "multiply", "issue cp.async"


def _waits(rng: np.random.Generator, shape: tuple[int, bool], STAGES: int) -> Case:
    """(tiles, copy_first): the deepest safe wait_group before each tile; copy_first says whether the next copy stands before the wait."""
    tiles, copy_first = shape
    committed = [min(tiles, i + STAGES - (not copy_first)) for i in range(tiles)]
    return Case([committed[i] - (i + 1) for i in range(tiles)], arguments=(tiles, copy_first))


def _product(rng: np.random.Generator, shape: tuple[int, int, int], STAGES: int) -> Case:
    """(m, n, k), k a multiple of 8: c = a b^T in bf16 of -1, 0 and 1: sums stay far below 256, up to where bf16 is exact. The launch gives STAGES slots of two tiles."""
    m, n, k = shape
    a, b = (rng.integers(-1, 2, (rows, k)) for rows in (m, n))
    a16, b16 = (_bf16(x) for x in (a, b))
    c = np.empty((m, n), np.uint16)
    rows, columns, tiles = -(-m // EDGE), -(-n // EDGE), -(-k // BK)

    def run(launch):
        launch("gemm", (columns, rows), (32 * WARPS,), (a16, b16, c, np.int32(m), np.int32(n), np.int32(k)), shared_mem=STAGES * STAGE_BYTES)

    return Case({"c": _bf16(a @ b.T)}, run, {"c": c}, carried=(Carried("cp.async", (a16, b16), to="mma"),), requires=(
        exactly("cp_async_bytes", 2 * k * (columns * m + rows * n), "each block copies its rows of a and of b once"),
        none_of("global_load_requests", "cp.async brings the tiles, no thread loads them"),
        needless("atom or red", "cp.async.bulk loads", instead="copy(t, slot) brings a tile, and multiply(slot) reads it"),
        exactly("mma_sync", rows * columns * WARPS * tiles * PRODUCTS, "multiply(slot) once for each tile"),
        _one_barrier(rows * columns * WARPS, tiles),
        _depth(STAGES, tiles), _copies_first()))


def _bf16(x: np.ndarray) -> np.ndarray:
    """Whole numbers of up to 8 bits as bf16, which holds them exactly: the upper half of fp32."""
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def _one_barrier(warps: int, tiles: int) -> Requirement:
    """Warps may come to a barrier once per tile, on the average; arrivals of threads on an mbarrier are another barrier, those of cp.async none."""
    most = warps * tiles

    def complaint(run) -> str:
        barriers = run.counters["warp_instructions_barrier"]
        if barriers > most:
            return f"warp_instructions_barrier is {barriers:,}, and should be at most {most:,}: {warps} warps, {_number(tiles)}: one __syncthreads() a tile is enough"
        arrivals = sum(counted["warp_instructions"] for counted in run.counters.by_instruction() if counted.opcode.startswith("mbarrier.arrive"))
        return "" if barriers + arrivals <= most else (
            f"warps meet {barriers:,} times at a barrier of threads and arrive {arrivals:,} times on an mbarrier, together more than {most:,}: {warps} warps, "
            f"{_number(tiles)}: one __syncthreads() a tile is enough, and an mbarrier on which threads arrive is one more")
    return custom(f"one barrier per tile: {most}", complaint)


def _depth(stages: int, tiles: int) -> Requirement:
    """Each warp has stages - 1 tiles on their way at its peak, and no wait but the last ones leaves fewer than stages - 2."""
    most = min(stages - 1, tiles)

    def complaint(run) -> str:
        for steps in by_warp_copies(run):
            peak, least = peak_and_least(steps)
            if steps.count(1) != tiles * COPIES:
                return f"a warp issues {steps.count(1)} cp.async, and should issue {tiles * COPIES}, {COPIES} a tile: only tiles that exist are copied, each once"
            if peak != most * COPIES:
                return (f"at its peak a warp has {_number(peak / COPIES)} on the way ({peak} cp.async), and should have {most}: "
                        f"a ring of {stages} stages keeps {stages - 1} on their way")
            if least is not None and least < (stages - 2) * COPIES:
                return (f"a wait in the middle of the loop leaves {_number(least / COPIES)} on the way, and should leave {stages - 2}: "
                        "it waits for more than the next tile")
        return ""
    return custom(f"tiles on their way: {stages - 1}", complaint)


def _copies_first() -> Requirement:
    """Once a warp multiplies, each of its copies must come before the products of its turn: between a barrier and the next product."""
    def complaint(run) -> str:
        for (block, warp), steps in sorted(by_warp(run, MEET, PRODUCT, COPY).items()):
            if PRODUCT not in steps:
                continue
            before = ""
            for step in steps[steps.index(PRODUCT):]:
                if step == COPY and before == PRODUCT:
                    return (f"the slot is free from the barrier on, but warp {warp} of block {block} starts the next copy behind products, "
                            "so that it starts late")
                before = before if step == COPY else step
        return ""
    return custom("the next copy starts before the multiplication", complaint, accesses=True)


def _number(tiles: float) -> str:
    return f"{tiles:g} tile" + ("s" if tiles != 1 else "")


def by_warp_copies(run: Any) -> Iterator[list[int]]:
    """For each warp that copied, +1 for each cp.async that it issued and -1 for each that landed, in order."""
    steps: dict[tuple[int, int], list[int]] = {}
    for event in run.timeline:
        if event.what in ("issue cp.async", "land cp.async"):
            steps.setdefault((event.block, event.warp), []).append(1 if event.kind == "issue" else -1)
    return iter(steps.values())


def peak_and_least(steps: list[int]) -> tuple[int, int | None]:
    """The most copies on their way at once, and the fewest left when copies had landed and others were still to be issued."""
    now = peak = issued = 0
    least, total = None, steps.count(1)
    for step, after in zip(steps, [*steps[1:], 0]):
        now, issued = now + step, issued + (step == 1)
        peak = max(peak, now)
        if step == -1 and after == 1 and issued < total:
            least = now if least is None else min(least, now)
    return peak, least


EXERCISES = (
    Exercise("03.1", "How many groups may stay open?", PYTHON, "waits", shapes=((1, False), (1, True), (2, True), (7, False), (8, True), (12, False)),
             draw=lambda rng: (int(rng.integers(4, 30)), bool(rng.integers(2))), case=_waits, constants={"STAGES": (3, 4, 2, 5)},
             says=lambda shape: f"{shape[0]} tiles, the copy {'before' if shape[1] else 'after'} the wait"),
    Exercise("03.2", "From two stages to many", CUDA, "multistage", shapes=((1, 1, 8), (20, 24, 72), (40, 17, 456), (33, 130, 200)),
             draw=lambda rng: (int(rng.integers(1, 140)), int(rng.integers(1, 100)), 8 * int(rng.integers(25, 58))), case=_product,
             long=lambda rng: (int(rng.integers(1, 30)), int(rng.integers(1, 30)), 8 * int(rng.integers(120, 200))),
             constants={"STAGES": (4, 3, 5, 6)}, seeds=2, says=lambda shape: "m, n, k = " + ", ".join(map(str, shape))),
)
