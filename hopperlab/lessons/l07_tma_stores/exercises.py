# SPDX-License-Identifier: Apache-2.0
"""Exercises of lesson 07: bulk stores from SLOTS buffers, and a product whose parts meet in the L2 by reducing stores."""
from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

import hopperlab as hl

from ...checking.carried import Carried
from ...checking.exercise import CUDA, Case, Exercise
from ...checking.requires import LEAVES, Requirement, custom, exactly, in_slots, needless, none_of
from ...runtime.tables import counted

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
        newest = "group" if slots == 2 else f"{slots - 1} groups"
        found, why = unread_at_once(run), f"before a slot is written again, all but the newest {newest} must have read, and no more"
        if found != amount:
            return f"at most {counted(found, 'store')} had not yet read {'its slot' if found == 1 else 'their slots'} at once, and it should be {amount}: {why}"
        block, turn, unread = next(((b, i, n) for b, before in unread_before(run).items() for i, n in enumerate(before) if n != min(i, slots - 1)), (0, 0, -1))
        return "" if unread < 0 else (f"when store {turn + 1} of block {block} is issued, {unread} had not yet read "
                                      f"their slot, and it should be {min(turn, slots - 1)}, in every turn: {why}")
    return custom(f"stores that have not yet read: {amount}", complaint)


def _unawaited(tiles: list[int]) -> Requirement:
    """Of the blocks (tiles of each), the first one that has issued all its stores must have all of them in flight then; those of another block may have to
    land for its end."""
    def complaint(run: Any) -> str:
        issued, now = Counter[int](), Counter[int]()
        for event in run.timeline:
            now[event.block] += {"issue store cp": 1, "land store cp": -1}.get(event.what, 0)
            issued[event.block] += event.what == "issue store cp"
            if event.what == "issue store cp" and issued[event.block] == (amount := tiles[event.block]):
                found = now[event.block]
                return "" if found == amount else (
                    f"a block had at most {found} {'store' if found == 1 else 'stores'} out of shared memory in flight at once, and it should be {amount}: a block "
                    f"stores {amount} tiles here, a slot is free once it has been read (wait_group.read), and the writes into y need no wait in the loop")
        return ""
    return custom("the writes into y need no wait in the loop", complaint)


def unread_before(run: Any) -> dict[int, list[int]]:
    """For each block, how many bulk stores had not yet read their source when each of them was issued."""
    now, before = Counter[int](), dict[int, list[int]]()
    for event in run.timeline:
        if event.what == "issue store cp":
            before.setdefault(event.block, []).append(now[event.block])
        now[event.block] += {"issue store cp": 1, "read store cp": -1}.get(event.what, 0)
    return before


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
        needless("atom or red", "bulk reductions", instead="the bulk stores bring y what it holds, all of it and at once"),
        _unread(min(SLOTS, most), SLOTS),
        _unawaited([len(range(block, tiles, blocks)) for block in range(blocks)])),
        also=(in_slots(LEAVES, SLOTS, "a slot is written again once the engine has read it", range(SLOTS * SQUARES * 4)),))


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

    return Case(_finished(a @ b.T), run, {"c": c, "y": y}, kept=frozenset({"c"}), carried=(*_shares(rng, a, b, grid, TILE), *_last_finishes(grid)), requires=(
        exactly("tma_reduces", math.prod(grid), "each block adds its whole tile by one reducing store"),
        exactly("tma_reduce_bytes", math.prod(grid) * TILE * TILE * 4, "a tile is TILE x TILE floats"),
        exactly("global_atomic_requests", math.prod(grid), "one arrival a block is the only atomic of a thread; the sums are the engine's"),
        exactly("global_store_bytes", 4 * m * n, "threads store y once, and nothing else")))


def _shares(rng: np.random.Generator, a: np.ndarray, b: np.ndarray, grid: tuple[int, int, int], edge: int) -> tuple[Carried, Carried]:
    """Two runs in which some blocks take their share away. Each block of a tile draws one of four labels, its neighbours in k others: the bits of the label
    say in which of the runs it does, so that no block can have done another's work."""
    columns, rows, parts = grid
    labels = np.stack([np.tile(1 + rng.permutation(4), -(-parts // 4))[:parts] % 4 if parts > 1 else [3] for _ in range(rows * columns)]).reshape(rows, columns, parts)
    found = []
    for bit in (1, 2):
        taken = labels & bit != 0
        product = np.zeros((len(a), len(b)), np.float32)
        for z in range(parts):
            share = a[:, PART * z:PART * (z + 1)] @ b[:, PART * z:PART * (z + 1)].T
            away = np.kron(taken[:, :, z], np.ones((edge, edge), bool))[:len(a), :len(b)]
            product += np.where(away, -share, share)
        found.append(Carried("reduce", expected=_finished(product), blocks=lambda block, taken=taken: bool(taken[block[1], block[0], block[2]])))
    return found[0], found[1]


def _last_finishes(grid: tuple[int, int, int]) -> tuple[Carried, ...]:
    """Two runs, in which the blocks of the first and of the last part are slow, so that they arrive last: they alone store y."""
    tiles, parts = grid[0] * grid[1], grid[2]

    def slow(part: int) -> Carried:
        def judged(run: Any) -> str:
            other = next((event.block for event in run.timeline if event.what == "store global" and event.block // tiles != part), None)
            if other is not None:
                return f"block {other}, which computes part {other // tiles}, stores to y"
            arrived: set[int] = set()
            late = False                                        # has a block of the slow part arrived?
            for event in run.timeline:
                if late and event.block in arrived:
                    return f"block {event.block}, which computes part {event.block // tiles}, had arrived before and has not ended"
                if event.what == "atomic global":
                    late = late or event.block // tiles == part
                    arrived |= {event.block} - set(range(part * tiles, (part + 1) * tiles))
            return ""
        return Carried("slow warps", warps=range(4), blocks=lambda block: block[2] == part, judged=judged, says=(
            f"the blocks of part {part} of k went on only when nobody else could, so that of each tile they should arrive last and finish it, behind all others. "
            "No block waits for another one: each adds its part, arrives once, and whoever learns from this that it was the last one reads C and stores y"))
    return (slow(0), slow(parts - 1)) if parts > 1 else ()


def _finished(product: np.ndarray) -> dict[str, np.ndarray]:
    return {"c": product, "y": np.maximum(product, 0)}


def _draw_split(rng: np.random.Generator) -> tuple[int, int, int]:
    return int(rng.integers(2, 50)), 4 * int(rng.integers(1, 11)), int(rng.integers(17, 60))


EXERCISES = (
    Exercise("07.1", "Stores from slots", CUDA, "squares", shapes=((4, 1), (SQUARES, 1), (1500, 1), (3 * SQUARES + 12, 2)), draw=_draw_squares,
             case=_squares, long=lambda rng: (4 * int(rng.integers(18 * SQUARES // 4, 24 * SQUARES // 4)), 1),
             constants={"SLOTS": (2, 3, 4)}, says=lambda shape: f"{counted(shape[0], 'number')}, {counted(shape[1], 'block')}"),
    Exercise("07.2", "Split k, and finish the tile", CUDA, "split_k", shapes=((1, 4, 1), (32, 32, 48), (33, 20, 50)), draw=_draw_split,
             case=_split_k, constants={"TILE": (32, 16, 24)},
             says=lambda shape: f"m, n, k = {shape[0]}, {shape[1]}, {shape[2]}"),
)
