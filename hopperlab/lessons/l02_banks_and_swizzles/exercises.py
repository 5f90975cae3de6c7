# SPDX-License-Identifier: Apache-2.0
"""Exercises of lesson 02: the addresses of a swizzled column, and a transpose through shared memory without one bank conflict."""
from __future__ import annotations

import numpy as np

from ...checking.carried import Carried
from ...checking.concurrency import by_each_warp
from ...checking.exercise import CUDA, PYTHON, Case, Exercise
from ...checking.requires import Requirement, custom, exactly, in_each_block, moved_at_once
from ...hopper import swizzle

PIECE = 16                   # bytes that a swizzle moves as a whole
MOVED = ("global_load_requests", "global_store_requests", "shared_load_requests", "shared_store_requests")
CORNER = 16                  # rows and columns that one ldmatrix.x4 brings


def _column(rng: np.random.Generator, shape: int, SPAN: int) -> Case:
    """`shape` rows of one piece of a tile with rows of SPAN bytes, which starts at some multiple of 128."""
    start, piece = 128 * int(rng.integers(1, 64)), int(rng.integers(SPAN // PIECE))
    plain = start + SPAN * np.arange(shape, dtype=np.int64) + PIECE * piece
    return Case(swizzle.apply(plain, f"{SPAN}B").tolist(), arguments=(start, piece, shape))


def _transpose(rng: np.random.Generator, shape: tuple[int, int], WIDTH: int, THREADS: int) -> Case:
    """(m, n), multiples of 8: elements of 16 bits, by blocks of THREADS threads with two tiles of WIDTH x WIDTH in shared memory."""
    m, n = shape
    a = rng.integers(0, 60_000, (m, n)).astype(np.uint16)
    turned = np.empty((n, m), np.uint16)
    rows, columns = -(-m // WIDTH), -(-n // WIDTH)

    def run(launch):
        launch("transpose", (columns, rows), (THREADS,), (a, turned, np.int32(m), np.int32(n)), shared_mem=2 * WIDTH * WIDTH * 2)

    of_tile = (WIDTH // CORNER) ** 2
    corners, each = rows * columns * of_tile, of_tile // (THREADS // 32)
    return Case({"out": a.T}, run, {"out": turned}, carried=(Carried("ldmatrix"), Carried("stmatrix")), also=(
        exactly("global_load_bytes", 2 * m * n, "each number is loaded once, by the first loop"),
        moved_at_once(PIECE, MOVED, "the first loop brings rows of the tile and the last one takes rows of the turned tile away, as they lie, and nothing but the matrix "
                      "instructions turns them"), _turned_once(corners)), requires=(
        _no_conflicts("shared_store_conflicts"),
        _no_conflicts("shared_load_conflicts"),
        in_each_block(rows * columns, None, "store shared", "stores to shared memory", accesses=True),
        exactly("matrix_load_requests", corners, f"one ldmatrix.x4 for each {CORNER} x {CORNER} corner of a tile"),
        exactly("matrix_store_requests", corners, f"one stmatrix.x4 for each {CORNER} x {CORNER} corner of a tile"),
        by_each_warp(rows * columns * [THREADS // 32 * [each]], "load matrix", "runs ldmatrix", "the corners are shared out to the warps")))


def _turned_once(corners: int) -> Requirement:
    """One matrix instruction with .trans for each corner."""
    def complaint(run) -> str:
        found = sum(one["matrix_load_requests"] + one["matrix_store_requests"] for one in run.counters.by_instruction() if ".trans" in one.opcode)
        return "" if found == corners else (f"{found:,} ldmatrix and stmatrix with .trans run, and it should be {corners:,}: each corner is turned once, by a matrix "
                                            "instruction, and by no other")
    return custom(f"corners turned by matrix instructions: {corners}", complaint)


def _no_conflicts(counter: str) -> Requirement:
    """The counter of bank conflicts must be 0; the complaint names the lines that have them."""
    def complaint(run) -> str:
        lines = ", ".join(f"{count:,} at {place}" for place, count in run.counters.by_line(counter).items() if count)
        return f"{counter} is {run.counters[counter]:,}, and should be 0: {lines}" if run.counters[counter] else ""
    return custom(f"{counter}: 0", complaint)


EXERCISES = (
    Exercise("02.1", "The addresses of a column", PYTHON, "column", shapes=(1, 8, 9, 20, 33), draw=lambda rng: int(rng.integers(4, 60)),
             case=_column, constants={"SPAN": (128, 64, 32)}, says=lambda rows: f"{rows} rows"),
    Exercise("02.2", "A transpose without conflicts", CUDA, "turned", shapes=((8, 8), (64, 64), (72, 40), (24, 136)),
             draw=lambda rng: tuple(8 * int(rng.integers(1, 18)) for _ in range(2)), case=_transpose,
             constants={"WIDTH": (64, 32, 16), "THREADS": (128, 64)}, says=lambda shape: f"m, n = {shape[0]}, {shape[1]}"),
)
