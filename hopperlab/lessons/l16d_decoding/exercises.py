# SPDX-License-Identifier: Apache-2.0
"""Exercises of lesson 16d: into how many pieces a batch's rows are cut, and parts of a softmax put together as a ring of bulk copies brings them."""
from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...checking.carried import Carried, own_share
from ...checking.concurrency import by_each_warp
from ...checking.exercise import CUDA, PYTHON, Case, Exercise
from ...checking.requires import LANDS, Requirement, custom, exactly, in_each_block, in_flight, in_slots, kept_full, needless

WARP = 32
MOST = 12                               # pieces a row that are tried
NOTHING = 1e-7                          # of an element of `out`; one to which a part near the largest brings anything is larger
UNSEEN = 100                            # below the largest maximum, where 2^x is nothing beside the rest


def busiest(tiles: Sequence[int], pieces: int, SMS: int, COST: int) -> int:
    """Tiles' worth of time of the SM that has most, where every row is cut into so many pieces and the longest piece goes to the SM that has least."""
    lengths = sorted((t * (i + 1) // n - t * i // n for t in tiles for n in (min(pieces, t),) for i in range(n)), reverse=True)
    loads = [0] * SMS
    for length in lengths:
        heapq.heappush(loads, heapq.heappop(loads) + length + COST)
    return max(loads)


def _choose(rng: np.random.Generator, shape: tuple[int, int], SMS: int, COST: int) -> Case:
    """(rows, most tiles of a row). A row alone has a multiple of MOST tiles where it can, so that it is best cut into as many pieces."""
    rows, most = shape
    tiles = [int(n) for n in rng.integers(max(1, most // 3), most + 1, rows)]
    if rows == 1:
        tiles = [tiles[0] // MOST * MOST or tiles[0]]
    times = [busiest(tiles, n, SMS, COST) for n in range(1, MOST + 1)]
    return Case([1 + times.index(min(times)), min(times)], arguments=(tiles,))


def _combine(rng: np.random.Generator, shape: tuple[int, ...], DIM: int, SLOTS: int) -> Case:
    """The number of parts of each row. Where a row has several, one saw no key, and the maxima of some are larger than 2^x may be of, by themselves and beyond those
    of others of their row: about half are near its largest, and weigh something."""
    starts = np.concatenate([[0], np.cumsum(shape)]).astype(np.int32)
    count, exact = int(starts[-1]), np.zeros((len(shape), DIM))
    parts = rng.integers(-50, 51, (count, DIM)).astype(np.float32)
    far = 200 * (rng.integers(-4, 5) + np.minimum(0, rng.integers(-4, 5, count)))
    most, total = (rng.integers(-6, 7, count) + far).astype(np.float32), rng.integers(1, 60, count).astype(np.float32)
    for row, (a, b) in enumerate(zip(starts, starts[1:], strict=False)):
        if b - a > 1 or rng.random() < 0.2:
            empty = int(rng.integers(a, b)) if b > a else 0
            most[a:b] += 300 * row
            if b > a:
                most[empty], total[empty], parts[empty] = -np.inf, 0, 0
        if b > a and np.isfinite(most[a:b]).any():
            weights = np.exp2(most[a:b].astype(np.float64) - most[a:b].max())
            exact[row] = weights @ parts[a:b] / (weights @ total[a:b])
    out = np.empty((len(shape), DIM), np.float32)
    weighs = [int((most[a:b] > most[a:b].max(initial=-np.inf) - UNSEEN).sum()) for a, b in zip(starts, starts[1:], strict=False)]

    def run(launch) -> None:
        launch("combine", (len(shape),), (DIM,), (parts, most, total, starts, out))

    return Case({"out": exact.astype(np.float32)}, run, {"out": out}, tolerance=1e-5, carried=(Carried("bulk", (parts,)), *_own_columns(out, exact, DIM)), requires=(
        exactly("bulk_loads", count, "one bulk copy brings a part"), exactly("bulk_load_bytes", count * DIM * 4, "each part is copied once"),
        in_flight("cp", min(SLOTS, max(shape)), f"a ring of {SLOTS} slots keeps {SLOTS} parts on their way"), kept_full(SLOTS, "issue cp", "land cp", "copies"),
        by_each_warp([DIM // WARP * [parts] for parts in weighs], "load shared", "reads shared memory",
                     "a thread adds up one column of every part, so all warps read every slot"),
        *([in_each_block(len(shape), None, "issue cp", "copies")] if min(shape) else []),
        needless("atom or red", "cp.async", instead="a bulk copy brings a part, and each thread adds up one column")),
        also=(_parts_come_by_copies(), in_slots(LANDS, SLOTS, "a slot is filled again when all threads have read it")))


def _parts_come_by_copies() -> Requirement:
    """No thread may load from `parts`, the kernel's first argument."""
    def complaint(run: Any) -> str:
        read = next((event for event in run.timeline if event.what == "load global" and event.detail.startswith("argument 1 ")), None)
        where = f" (line {read.line})" if read is not None and read.line else ""
        return "" if read is None else (f"warp {read.warp} of block {read.block} reads `parts` by an ordinary load{where}: bulk copies bring the parts, and only "
                                        "`most` and `sum` may be read so")
    return custom("parts come by bulk copies", complaint, accesses=True)


def _own_columns(out: np.ndarray, exact: np.ndarray, DIM: int) -> list[Carried]:
    """For each warp a run in which it alone reads doubled numbers: columns of every row must follow, and 32 be doubled at the most, whichever they are."""
    filled = np.abs(exact) > NOTHING

    def changed() -> np.ndarray:
        return filled & ~np.isclose(out, exact, rtol=1e-4, atol=0)

    def doubled() -> np.ndarray:
        return filled & np.isclose(out, 2 * exact, rtol=1e-4, atol=0)

    rows = [row for row in range(len(exact)) if filled[row].sum() > DIM - WARP]
    return [own_share(changed, rows, WARP * len(exact), warp, "a thread adds up one column of every part, so all warps read every slot", doubled)
            for warp in range(DIM // WARP)]


EXERCISES = (
    Exercise("16d.1", "Into how many pieces?", PYTHON, "choose", shapes=((2, 40), (5, 300), (40, 60), (1, 7), (1, 200)),
             draw=lambda rng: (int(rng.choice([1, rng.integers(1, 48)])), int(rng.integers(2, 400))),
             case=_choose, constants={"SMS": (16, 12, 20), "COST": (3, 2, 5)}, says=lambda shape: f"{shape[0]} rows of at most {shape[1]} tiles"),
    Exercise("16d.2", "Parts of a softmax", CUDA, "combine", shapes=((9, 1, 3), (5,), (2, 0, 13, 4)),
             draw=lambda rng: tuple(int(n) for n in rng.integers(1, 14, int(rng.integers(1, 5)))),
             long=lambda rng: (*(int(n) for n in rng.integers(1, 4, 5)), int(rng.integers(26, 40))),
             case=_combine, constants={"DIM": (128, 64), "SLOTS": (4, 3, 5)}, says=lambda shape: f"rows of {', '.join(map(str, shape))} parts", seeds=2),
)
