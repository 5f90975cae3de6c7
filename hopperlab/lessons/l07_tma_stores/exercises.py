# SPDX-License-Identifier: Apache-2.0
"""Exercises of lesson 07: bulk stores from SLOTS buffers, and a product whose parts meet in the L2 by reducing stores."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

import hopperlab as hl

from ...checking.carried import Carried
from ...checking.exercise import CUDA, Case, Exercise
from ...checking.requires import Requirement, custom, exactly, in_flight, none_of

SQUARES = 256                # floats of one tile of 07.1
PART = 16                    # columns of k of one block of 07.2


def unread_at_once(run: Any) -> int:
    """The most bulk stores of one block that were issued and had not yet read their source."""
    now: dict[int, int] = {}
    most = 0
    for event in run.timeline:
        step = {"issue store cp": 1, "read store cp": -1}.get(event.what, 0)
        now[event.block] = now.get(event.block, 0) + step
        most = max(most, now[event.block])
    return most


def _unread(amount: int, slots: int) -> Requirement:
    def complaint(run: Any) -> str:
        found = unread_at_once(run)
        return "" if found == amount else (f"at most {found} stores had not yet read their slot at once, and it should be {amount}: "
                                           f"before a slot is written again, all but the newest {slots - 1} groups must have read, and no more")
    return custom(f"stores that have not yet read: {amount}", complaint)


def _squares(rng: np.random.Generator, shape: tuple[int, int], SLOTS: int) -> Case:
    """(numbers, blocks): each block takes every blocks-th tile of SQUARES numbers; the last tile may be shorter."""
    count, blocks = shape
    x = rng.integers(-40, 40, count).astype(np.float32)
    y = np.empty_like(x)
    tiles = -(-count // SQUARES)
    most = -(-tiles // blocks)               # of one block

    def run(launch) -> None:
        launch("squares", (blocks,), (128,), (x, y, np.int32(count)), shared_mem=SLOTS * SQUARES * 4)

    return Case({"y": x * x}, run, {"y": y}, carried=(Carried("store"),), requires=(
        none_of("global_store_requests", "the copy engine writes y, no thread does"),
        exactly("bulk_stores", tiles, "each tile leaves by one bulk store"),
        exactly("bulk_store_bytes", 4 * count, "the last tile is as long as what is left of y"),
        _unread(min(SLOTS, most), SLOTS),
        in_flight("store cp", most, "a slot is free when it has been read (wait_group.read); the writes into y need no wait in the loop")))


def _draw_squares(rng: np.random.Generator) -> tuple[int, int]:
    """Every block has at least six tiles, so that each of its slots is used again."""
    blocks = int(rng.integers(1, 4))
    return 4 * int(rng.integers(6 * blocks * SQUARES // 4, 9 * blocks * SQUARES // 4)), blocks


def _split_k(rng: np.random.Generator, shape: tuple[int, int, int], TILE: int) -> Case:
    """(m, n, k): a grid of C's tiles times parts of k; c and the counters begin at zero."""
    m, n, k = shape
    a, b = (rng.integers(-3, 4, (rows, k)).astype(np.float32) for rows in (m, n))
    grid = (-(-n // TILE), -(-m // TILE), -(-k // PART))
    c, y = np.zeros((m, n), np.float32), np.empty((m, n), np.float32)
    done = np.zeros(grid[0] * grid[1], np.int32)

    def run(launch) -> None:
        target = hl.TensorMap.tiled(c, box=(TILE, TILE))
        launch("split_k", grid, (128,), (target, a, b, c, y, done, np.int32(m), np.int32(n), np.int32(k)))

    product, last = a @ b.T, slice(PART * (grid[2] - 1), k)
    without_last = product - 2 * a[:, last] @ b[:, last].T
    carried = (Carried("reduce", expected=_finished(-product)), Carried("reduce", expected=_finished(without_last), blocks=lambda block: block[2] == grid[2] - 1))
    return Case(_finished(product), run, {"c": c, "y": y}, kept=frozenset({"c"}), carried=carried, requires=(
        exactly("tma_reduces", math.prod(grid), "each block adds its whole tile by one reducing store"),
        exactly("tma_reduce_bytes", math.prod(grid) * TILE * TILE * 4, "a tile is TILE x TILE floats"),
        exactly("global_atomic_requests", math.prod(grid), "one arrival a block is the only atomic of a thread; the sums are the engine's"),
        exactly("global_store_bytes", 4 * m * n, "threads store y once, and nothing else")))


def _finished(product: np.ndarray) -> dict[str, np.ndarray]:
    return {"c": product, "y": np.maximum(product, 0)}


def _draw_split(rng: np.random.Generator) -> tuple[int, int, int]:
    return int(rng.integers(2, 50)), 4 * int(rng.integers(1, 11)), int(rng.integers(17, 60))


EXERCISES = (
    Exercise("07.1", "Stores from slots", CUDA, "squares", shapes=((4, 1), (SQUARES, 1), (1500, 1), (3 * SQUARES + 12, 2)), draw=_draw_squares,
             case=_squares, constants={"SLOTS": (2, 3, 4)}, says=lambda shape: f"{shape[0]} numbers, {shape[1]} blocks"),
    Exercise("07.2", "Split k, and finish the tile", CUDA, "split_k", shapes=((1, 4, 1), (32, 32, 48), (33, 20, 50)), draw=_draw_split,
             case=_split_k, constants={"TILE": (32, 16, 24)},
             says=lambda shape: f"m, n, k = {shape[0]}, {shape[1]}, {shape[2]}"),
)
