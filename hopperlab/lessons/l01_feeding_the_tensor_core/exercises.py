# SPDX-License-Identifier: Apache-2.0
"""Exercises of lesson 01: tiles on their way by Little's law, and a tiled product whose next tile loads while this one is multiplied."""
from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ...checking.carried import Carried
from ...checking.written import only_put_down
from ...checking.exercise import CUDA, PYTHON, Case, Exercise
from ...checking.requires import Requirement, at_most, custom, exactly, in_each_block, needless, no_local_memory

WARP = 32
LOAD, PUT, READ = "load global", "store shared", "load shared"
ENOUGH = 4                   # a load must be hidden behind this part of a tile's products at least
EDGES = (8, 16, 32, 64, 96, 128, 192, 256)
LARGE = 16                   # FLOP for each byte loaded: the multipliers of some GPU are slower than its memory then
DRAWS = 200                  # GPUs tried before one is taken of which both rates ask for equally many tiles


def _plan(rng: np.random.Generator, shape: tuple[int, int, int], ELEMENT_BYTES: int, SMS: int) -> Case:
    """(BM, BN, BK): a tile, and a GPU drawn at random: latency in ns, GB/s and TFLOP/s of the whole of it.

    The multipliers set the pace of large tiles whose edges add up to an odd number of eights, and the two rates ask for different numbers of tiles where they can.
    """
    bm, bn, bk = shape
    tile_bytes, tile_flop = (bm + bn) * bk * ELEMENT_BYTES, 2 * bm * bn * bk
    slow_multipliers = tile_flop >= LARGE * tile_bytes and sum(shape) // 8 % 2 == 1
    for drawn in itertools.count():
        latency, gb_s, tflops = int(rng.integers(300, 1500)), int(rng.integers(800, 6000)), int(rng.integers(20, 1200))
        brought, used = gb_s / SMS / tile_bytes, tflops * 1000 / SMS / tile_flop
        tiles = latency * min(brought, used)
        apart = math.ceil(latency * brought) != math.ceil(latency * used) or drawn >= DRAWS     # of a large tile one is enough at any rate
        if apart and (used < brought) == slow_multipliers and abs(tiles - round(tiles)) > 1e-6:         # no rounding decides
            break
    expected = [tile_flop / tile_bytes, "memory" if brought < used else "multipliers", tiles * tile_bytes, math.ceil(tiles)]
    return Case(expected, arguments=(bm, bn, bk, latency, gb_s, tflops), tolerance=1e-9)


def _product(rng: np.random.Generator, shape: tuple[int, int, int], TILE: int) -> Case:
    """(m, n, k): c = a b of small whole numbers in fp32, exact whatever the order; blocks of TILE x TILE threads."""
    m, n, k = shape
    a, b = (rng.integers(-8, 9, size).astype(np.float32) for size in ((m, k), (k, n)))
    c = np.empty((m, n), np.float32)
    rows, columns, tiles = (-(-size // TILE) for size in (m, n, k))

    def run(launch):
        launch("product", (columns, rows), (TILE, TILE), (a, b, c, np.int32(m), np.int32(n), np.int32(k)))

    warps = rows * columns * TILE * TILE // WARP
    carried = (Carried("st.shared", expected={"c": 4 * (a @ b)}), _beside(rng, shape, TILE)) if tiles > 2 else ()
    return Case({"c": a @ b}, run, {"c": c}, carried=carried, written=(only_put_down,), requires=(
        exactly("global_load_bytes", 4 * (columns * m * k + rows * k * n), "a block loads each number of its rows of a and columns of b once, and nothing outside"),
        at_most("warp_instructions_barrier", warps * (tiles + 1),
                f"tiles of k: {tiles}, warps: {warps}; with two buffers one __syncthreads() a tile is enough, and one before"),
        at_most("shared_load_bytes", warps * WARP * tiles * 2 * TILE * 4, "a product needs two numbers of shared memory, and nothing else is read from there"),
        needless("atom or red", "cp.async", "cp.async.bulk loads", "ldmatrix", "arrivals on mbarriers",
                 instead="ld brings the next tile into registers, st puts it into shared memory, and one __syncthreads() a tile is the only barrier"),
        in_each_block(rows * columns, None, PUT, "stores to shared memory", accesses=True),
        _loads_ahead(tiles)), also=(no_local_memory("what was loaded for the next tile"),))


def _beside(rng: np.random.Generator, shape: tuple[int, int, int], TILE: int) -> Carried:
    """Of numbers that are all 1, what a warp reads between loading a tile and putting it down is doubled: each product that it computes then is 4 instead of 1."""
    m, n, tiles = *shape[:2], int(rng.integers(4, 7))
    k = tiles * TILE
    a, b, c = np.ones((m, k), np.float32), np.ones((k, n), np.float32), np.empty((m, n), np.float32)

    def run(launch):
        launch("product", (-(-n // TILE), -(-m // TILE)), (TILE, TILE), (a, b, c, np.int32(m), np.int32(n), np.int32(k)))

    def judged(_run) -> str:
        found, asked = (float(c.min()) - k) / 3, (tiles - 1) * TILE / ENOUGH
        return "" if found >= asked else (f"of {tiles} tiles of {TILE} columns, {found:.4g} products of an element were computed beside a load, and it should "
                                          f"be {asked:.4g} at least")
    return Carried("ld.shared", beside=True, own=Case({}, run, {"c": c}), judged=judged, says=(
        "all numbers were 1, and those that a warp reads while it holds a tile in its registers were doubled: few or "
        "no products changed. What is read between the load of a tile and its way into shared memory must be multiplied"))


def _loads_ahead(tiles: int) -> Requirement:
    """Once a warp multiplies, it must do part of a tile's products between loading a tile and putting it into shared memory.

    Judged by the order in which each warp ran its loads, not by the order of lines: a tile's products are the loads from shared memory.
    """
    def complaint(run) -> str:
        for (block, warp), steps in sorted(by_warp(run, LOAD, PUT, READ).items()):
            if READ not in steps or PUT not in steps:
                return "no tile passes from global memory through registers to shared memory"
            asked = steps.count(READ) / tiles / ENOUGH
            loading, done, hidden, before = False, 0.0, 0, ""
            for step in steps[steps.index(READ):]:
                if step == LOAD:
                    loading, done = True, 0
                elif step == READ:
                    done += 1
                elif loading and done < asked:
                    return (f"warp {warp} of block {block} loads a tile and puts it into shared memory, and multiplies nothing (or nearly nothing) in between: "
                            "nothing hides the latency of the load")
                else:
                    hidden += before != PUT
                    loading = False
                before = step
            if hidden < tiles - 2:
                return (f"warp {warp} of block {block} puts {hidden} of the {tiles} tiles into shared memory after it has begun to multiply, and should put "
                        f"{tiles - 1}: load only the next tile, and that while one is multiplied")
        return ""
    return custom("the next tile loads while this one is multiplied", complaint, accesses=True)


def by_warp(run: Any, *kinds: str) -> dict[tuple[int, int], list[str]]:
    """The events of these kinds in the order of each warp, by (block, warp)."""
    found: dict[tuple[int, int], list[str]] = {}
    for event in run.timeline:
        if event.what in kinds:
            found.setdefault((event.block, event.warp), []).append(event.what)
    return found


EXERCISES = (
    Exercise("01.1", "How many tiles ahead?", PYTHON, "plan", shapes=((1, 1, 1), (64, 64, 16), (128, 128, 64), (96, 192, 40), (256, 128, 40), (16, 16, 8)),
             draw=lambda rng: (*(int(rng.choice(EDGES)) for _ in range(2)), int(rng.integers(1, 17)) * 8),
             case=_plan, constants={"ELEMENT_BYTES": (2, 1, 4), "SMS": (132, 114, 78)}, says=lambda tile: "BM, BN, BK = " + ", ".join(map(str, tile))),
    Exercise("01.2", "Load the next tile while this one is multiplied", CUDA, "pipelined", shapes=((1, 1, 1), (16, 16, 16), (33, 17, 50), (20, 24, 170)),
             draw=lambda rng: tuple(int(rng.integers(1, high)) for high in (48, 48, 240)), case=_product,
             long=lambda rng: (*(int(n) for n in rng.integers(1, 17, 2)), int(rng.integers(460, 600))),
             constants={"TILE": (16, 8, 32)}, says=lambda shape: "m, n, k = " + ", ".join(map(str, shape))),
)
