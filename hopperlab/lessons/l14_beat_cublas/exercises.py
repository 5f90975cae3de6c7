# SPDX-License-Identifier: Apache-2.0
"""Exercises of lesson 14: what a choice of tile and stages comes to on a GPU, and a whole product of the learner's own design.

The second one is the leaderboard's: `Plan`, `planned` and `operands` are also how grading/rank.py launches an answer on a GPU.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import hopperlab as hl

from ...checking.carried import Carried
from ...checking.exercise import CUDA, PYTHON, Case, Exercise, Launch
from ...checking.concurrency import loads_under_products, multiplied, nothing_else
from ...checking.requires import at_least, in_flight, none_of
from ...checking.speed import BOARD, Speed, of_product
from ...hopper import limits
from ...runtime.errors import LaunchError

BK = 64                      # columns of k in a box
MOST_BOX = 256               # rows
MOST_CTAS = 256              # of a launch in the emulator
MOST_TIMED = 1 << 20         # of the product by which its speed is judged
SIZE = 4096                  # m, n and k of the product by which the speed of 14.2 is judged
FEW_SMS = 4                  # what the check tells a plan, so that a persistent kernel has to walk
CHOICES = ([64, 128, 6], [64, 256, 5], [128, 128, 6], [128, 256, 4], [128, 256, 5], [256, 128, 4], [256, 256, 3], [192, 128, 5], [128, 100, 5],
           [128, 64, 9], [128, 192, 5], [256, 64, 5], [128, 96, 8])


def _plans(rng: np.random.Generator, shape: tuple[int, int] | int, SMS: int, CONSUMERS: int) -> Case:
    """A result of m x n (or a column of 128 that fills `shape` waves of tiles 128 high) and nine choices of [BM, BN, stages], the last of them right but
    for the height of its box: what each comes to, and the best of them."""
    m, n = shape if isinstance(shape, tuple) else (shape * SMS * 128, 128)
    picked = sorted(rng.choice(np.arange(1, len(CHOICES)), 6, replace=False).tolist())
    choices = [CHOICES[i] for i in (0, *picked)] + [[128, 136, 3 + int(rng.integers(3))], [384, 40, 4]]
    entries: list[list[int] | None] = []
    for bm, bn, stages in choices:
        nbytes = stages * ((bm + bn) * BK * 2 + 16)
        legal = (nbytes <= limits.SHARED_PER_BLOCK and bm % (64 * CONSUMERS) == 0 and bn % 8 == 0 and max(bm, bn) <= MOST_BOX
                 and bm // CONSUMERS * bn <= 128 * 128)
        tiles = math.ceil(m / bm) * math.ceil(n / bn)
        waves = math.ceil(tiles / SMS)
        entries.append([nbytes, tiles, waves, tiles - (waves - 1) * SMS] if legal else None)
    work = {i: entry[2] * choices[i][0] * choices[i][1] for i, entry in enumerate(entries) if entry}
    return Case([entries, min(work, key=work.get) if work else None], arguments=(m, n, choices))


@dataclass(frozen=True)
class Plan:
    """How an answer to 14.2 wants to be launched for a shape: what its kernel `plan` wrote."""

    grid: tuple[int, int]
    threads: int
    shared_mem: int
    a_rows: int
    b_rows: int
    c_rows: int


def planned(launch: Callable[..., Any], numbers: Any, sizes: tuple[int, int, int], sms: int, most: int) -> Plan:
    """Run the answer's kernel `plan`, which fills `numbers` (7 of int32, on the side of the launch), and read them.

    Raises LaunchError for numbers that cannot be launched, or for more than `most` CTAs.
    """
    launch("plan", (1,), (1,), (numbers, *map(np.int32, sizes), np.int32(sms)))
    x, y, threads, shared, *rows = (int(number) for number in hl.asnumpy(numbers))
    where = f"for m, n, k = {sizes[0]}, {sizes[1]}, {sizes[2]}"
    if x < 1 or y < 1 or x * y > most:
        raise LaunchError(f"plan gives a grid of {x} x {y} CTAs {where}: it must be at least 1 x 1, and here at most {most} CTAs")
    if not 1 <= threads <= limits.MAX_THREADS_PER_BLOCK or not 0 <= shared <= limits.SHARED_PER_BLOCK:
        raise LaunchError(f"plan gives {threads} threads and {shared} bytes of shared memory {where}: a CTA has 1 to "
                          f"{limits.MAX_THREADS_PER_BLOCK} threads and at most {limits.SHARED_PER_BLOCK} bytes")
    if any(not 1 <= count <= MOST_BOX for count in rows):
        raise LaunchError(f"plan gives boxes of {rows[0]}, {rows[1]} and {rows[2]} rows (A, B, C) {where}: a box has 1 to {MOST_BOX} rows")
    return Plan((x, y), threads, shared, *rows)


def operands(plan: Plan, a: Any, b: Any, c: Any) -> tuple:
    """The arguments of the answer's kernel `gemm`. a: m x k, b: n x k, c: m x n; bf16, or uint16 bits of it. The map of C is A's
    where n is no multiple of 8, since TMA cannot store such rows."""
    m, n, k = *c.shape, a.shape[1]
    dtype = "bfloat16" if a.dtype == np.uint16 else None
    a_map, b_map = (hl.TensorMap.tiled(array, box=(rows, BK), swizzle="128B", dtype=dtype, l2_promotion="256B")
                    for array, rows in ((a, plan.a_rows), (b, plan.b_rows)))
    c_map = hl.TensorMap.tiled(c, box=(plan.c_rows, BK), swizzle="128B", dtype=dtype) if n % 8 == 0 else a_map
    return a_map, b_map, c_map, c, np.int32(m), np.int32(n), np.int32(k)


def _gemm(rng: np.random.Generator, shape: tuple[int, int, int], ALPHA: int) -> Case:
    """(m, n, k): C = ALPHA * A * B^T, launched as the answer's own plan says."""
    m, n, k = shape
    a, b = (rng.integers(-3, 4, (rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))
    c = np.empty((m, n), ml_dtypes.bfloat16)

    def run(launch: Launch) -> None:
        _launched(launch, a, b, c, FEW_SMS, MOST_CTAS)

    fewest = math.ceil(k / 16) * min(math.ceil(m / 64) * math.ceil(n / 256), math.ceil(n / 64) * math.ceil(m / 256))
    requires = [at_least("wgmma", fewest, "all of the product goes through wgmma"),
                at_least("tma_load_bytes", 2 * k * (m + n), "all of A and B comes by tensor copies"),
                none_of("global_load_requests", "TMA reads A and B, no thread does"),
                none_of("cp_async_requests", "TMA reads A and B, no thread does"),
                nothing_else("A and B come by tensor copies, and wgmma reads them where they landed", ("global_atomic_requests", "shared_atomic_requests"))]
    if k > 3 * BK:
        requires.append(loads_under_products(math.ceil(k / BK)))
        requires.append(in_flight("cp", 3, "the next k-blocks are loaded while one is multiplied", exact=False, counting=multiplied))
    exact = ALPHA * (a.astype(np.float32) @ b.astype(np.float32).T)
    return Case({"c": exact.astype(ml_dtypes.bfloat16)}, run, {"c": c}, requires=tuple(requires), carried=(Carried("tma"), Carried("wgmma")))


def _launched(launch: Launch, a: np.ndarray, b: np.ndarray, c: np.ndarray, sms: int, most: int) -> None:
    """The launches of an answer to 14.2: as its own plan says, told of `sms` SMs."""
    plan = planned(launch, np.full(7, -1, np.int32), (*c.shape, a.shape[1]), sms, most)
    launch("gemm", plan.grid, (plan.threads,), operands(plan, a, b, c), shared_mem=plan.shared_mem)


def _speed(ALPHA: int) -> Speed:
    """Of 14.2, beside the last kernel of the ladder, which multiplies by no ALPHA."""
    return of_product(SIZE, ml_dtypes.bfloat16, lambda *given: _launched(*given, limits.SMS, MOST_TIMED), _final_us, "lesson 14's kernel `final`", ("plan",))


def _final_us() -> float:
    from ...estimates.steps import estimate_step

    return estimate_step("final", (SIZE,) * 3, (), BOARD).us


def _sizes(shape: Sequence[int]) -> str:
    return "m, n, k = {}, {}, {}".format(*shape)


EXERCISES = (
    Exercise("14.1", "Waves, tails and bytes", PYTHON, "plans", shapes=((1, 1), (4096, 4096), 2, (1000, 3000), (8192, 7168)),
             draw=lambda rng: (int(rng.integers(3000, 12000)), int(rng.integers(3000, 12000))), case=_plans,
             constants={"SMS": (132, 114, 78), "CONSUMERS": (2, 1)}, says=lambda shape: f"m, n = {shape}"),
    Exercise("14.2", "Beat cuBLAS", CUDA, "beat", shapes=((66, 136, 328), (1, 1, 8), (129, 72, 136), (40, 257, 72)),
             draw=lambda rng: (int(rng.integers(1, 150)), int(rng.integers(1, 264)), 8 * int(rng.integers(1, 26))), case=_gemm,
             long=lambda rng: (int(rng.integers(1, 65)), int(rng.integers(1, 65)), 8 * int(rng.integers(100, 140))),
             constants={"ALPHA": (2, 3, -1)}, says=_sizes, seeds=2, speed=_speed),
)
