# SPDX-License-Identifier: Apache-2.0
"""Exercises of lesson 09: the slots and parities of a multistage loop, and the loop itself with PENDING products in flight."""
from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...checking.carried import Carried, alone_ahead
from ...checking.exercise import CUDA, PYTHON, Case, Exercise, Launch
from ...checking.concurrency import arrivals_by, converged, issued_by, nobody_stops, nothing_else, products_in_flight
from ...checking.requires import Requirement, at_least, custom, exactly, in_flight
from ...checking.speed import Speed, of_product
from ...runtime.tables import counted
from ..own_times import own_us
from ..l08_wgmma.exercises import bf16_map, in_flight_at_once, integers

BM, BN, BK = 128, 64, 32     # the tile of a block of 09.2: two warpgroups of 64 rows
ROW_BYTES = 2 * BK
SIZE = 2048                  # m, n and k of the product by which its speed is judged
STEPS = BK // 16             # wgmma of one warpgroup in one k-block


def _plan(_rng: np.random.Generator, tiles: int, STAGES: int, PENDING: int) -> Case:
    """For every k-block: slot, parity of full, tile handed back, tile loaded, parity of empty."""
    rows = []
    for i in range(tiles):
        back = i - PENDING if i >= PENDING else None
        loads = back is not None and back + STAGES < tiles
        rows.append([i % STAGES, i // STAGES % 2, back, back + STAGES if loads else None, back // STAGES % 2 if loads else None])
    return Case(rows, arguments=(tiles,))


def loads_before_steps(run: Any) -> dict[int, list[int]]:
    """Block -> for each k-block, how many loads were issued before the first product of its warp 0 in that step."""
    loads: dict[int, int] = {}
    products: dict[int, int] = {}
    found: dict[int, list[int]] = {}
    for event in run.timeline:
        if event.what == "issue cp":
            loads[event.block] = loads.get(event.block, 0) + 1
        elif event.what == "issue wgmma" and event.warp == 0:
            if products.get(event.block, 0) % STEPS == 0:
                found.setdefault(event.block, []).append(loads.get(event.block, 0))
            products[event.block] = products.get(event.block, 0) + 1
    return found


def _refilled_at_once(tiles: int, stages: int, pending: int) -> Requirement:
    """In step i the slot of tile i - pending is filled again: before step i, stages + i - pending tiles are loaded or on their way."""
    def complaint(run: Any) -> str:
        for counts in loads_before_steps(run).values():
            for i, found in enumerate(counts):
                asked = min(tiles, stages + max(0, i - pending))
                if found < 2 * asked:
                    return (f"before the products of k-block {i}, {counted(found // 2, 'tile')} had been asked for, and it should be {asked}: a slot is "
                            f"filled again in the step in which it is handed back, that of tile i - {pending} in step i")
        return ""
    return custom("each slot is filled again in the step that hands it back", complaint)


def _multistage(rng: np.random.Generator, shape: tuple[int, int, int], STAGES: int, PENDING: int) -> Case:
    """(m, n, k): a grid of tiles of BM x BN; the launch gives STAGES slots of A and B tiles."""
    m, n, k = shape
    a, b = integers(rng, m, k), integers(rng, n, k)
    c = np.empty((m, n), np.float32)
    blocks, tiles = -(-n // BN) * -(-m // BM), -(-k // BK)

    def run(launch: Launch) -> None:
        _launched(launch, a, b, c, STAGES)

    refills = max(0, tiles - STAGES)
    return Case({"c": a @ b.T}, run, {"c": c}, carried=(
        Carried("tma"), Carried("wgmma"), *(alone_ahead(range(4 * who, 4 * who + 4), {4 - 4 * who: STEPS * tiles}, STEPS * (PENDING + 1), f"warpgroup {who}",
                                                        STEPS * STAGES) for who in (0, 1) if tiles > 1)), requires=(
        exactly("wgmma", blocks * tiles * STEPS * 2, "two warpgroups multiply every tile, 16 columns of k at a time"),
        issued_by((0, 1), STEPS * tiles, "two warpgroups with 64 rows each"),
        exactly("tma_load_bytes", blocks * tiles * (BM + BN) * ROW_BYTES, "each tile is loaded once"),
        in_flight("cp", 2 * min(STAGES, tiles), f"{STAGES} slots keep the loads of A and B of {STAGES} tiles on their way"),
        in_flight_at_once(STEPS * min(PENDING + 1, tiles), f"{counted(PENDING, 'more k-block')} of {STEPS} wgmma "
                          f"{'runs' if PENDING == 1 else 'run'} while a new one is issued"),
        at_least("mbarrier_arrivals", blocks * (tiles + 2 * refills), "each warpgroup hands back a slot by one arrival before it is filled again"),
        _refilled_at_once(tiles, STAGES, PENDING),
        nothing_else("A and B come by tensor copies, and wgmma reads them where they landed"),
        products_in_flight(STEPS, PENDING),
        arrivals_by({0: range(4), 1: range(4, 8)}, lambda _block: refills, "warpgroup"),
        nobody_stops(),
        converged(("wgmma",), "thread 0 waits on `empty` alone, so put a __syncwarp() between that and the next product")))


def _launched(launch: Launch, a: np.ndarray, b: np.ndarray, c: np.ndarray, STAGES: int) -> None:
    """The launch of an answer to 09.2. a: m x k, b: n x k, c: m x n."""
    (m, n), k = c.shape, a.shape[1]
    maps = bf16_map(a, BM, ROW_BYTES), bf16_map(b, BN, ROW_BYTES)
    launch("gemm", (-(-n // BN), -(-m // BM)), (256,), (*maps, c, np.int32(m), np.int32(n), np.int32(k)), shared_mem=STAGES * (BM + BN) * ROW_BYTES)


def _speed(STAGES: int, PENDING: int) -> Speed:
    """Of 09.2: many tiles of many k-blocks."""
    return of_product(SIZE, np.float32, lambda *given: _launched(*given, STAGES), partial(own_us, "09.2", STAGES=STAGES, PENDING=PENDING))


def _draw_multistage(rng: np.random.Generator) -> tuple[int, int, int]:
    return int(rng.integers(1, 140)), int(rng.integers(1, 70)), 8 * int(rng.integers(21, 33))


EXERCISES = (
    Exercise("09.1", "Slots and parities", PYTHON, "plan", shapes=(1, 4, 7, 16), draw=lambda rng: int(rng.integers(8, 40)), case=_plan,
             constants={"STAGES": (3, 4, 5), "PENDING": (1, 0, 2)}, says=lambda tiles: counted(tiles, "tile")),
    Exercise("09.2", "One k-block later, safely", CUDA, "gemm", shapes=((128, 64, 192), (1, 3, 40), (65, 66, 168)), draw=_draw_multistage,
             long=lambda rng: (int(rng.integers(1, 70)), int(rng.integers(1, 60)), 8 * int(rng.integers(110, 180))),
             case=_multistage, constants={"STAGES": (3, 4, 5), "PENDING": (1, 2)}, seeds=2, says=lambda shape: f"m, n, k = {shape[0]}, {shape[1]}, {shape[2]}",
             speed=_speed),
)
