# SPDX-License-Identifier: Apache-2.0
"""Exercises of lesson 10: a ring that CONSUMERS warpgroups read, and a product whose tile CONSUMERS warpgroups share by columns."""
from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import numpy as np

from ...checking.carried import Carried, alone_ahead, released_ahead, shared_out
from ...checking.exercise import CUDA, Case, Exercise, Launch
from ...checking.concurrency import arrivals_by, issued_by, loaded_by, loads_ahead, nobody_stops, nothing_else, teams_apart
from ...checking.requires import LANDS, Requirement, custom, exactly, in_flight, in_slots, none_of
from ...checking.speed import Speed, of_product
from ...runtime.tables import counted
from ..own_times import own_us

SLOTS, TILE = 3, 512         # of the ring of 10.1: slots, and floats of a tile
SIZE = 2048                  # m, n and k of the product by which the speed of 10.2 is judged


def read_by_all(warps: int, loads: list[int]) -> Requirement:
    """Each of the first `warps` warps of a block must run a load of shared memory for each of its block's tiles. loads: tiles by block."""
    def complaint(run: Any) -> str:
        found = Counter((event.block, event.warp) for event in run.timeline if event.what == "load shared")
        for block, tiles in enumerate(loads):
            for warp in range(warps):
                if found[block, warp] < tiles:
                    return (f"warp {warp} of block {block} reads shared memory {found[block, warp]} times for {tiles} tiles: every consumer reads every tile "
                            "and writes its own rows of y")
        return ""
    return custom(f"{warps} warps read every tile", complaint, accesses=True)


def _each_for_itself(expected: np.ndarray) -> tuple[Carried, ...]:
    """For each consumer warpgroup a run in which it alone reads doubled numbers, so that its rows of y alone are doubled."""
    return tuple(Carried("ld.shared", expected={"y": expected * (1 + (np.arange(len(expected)) == who))[:, None].astype(np.float32)},
                         warps=range(4 * who, 4 * who + 4), says=(
        f"consumer warpgroup {who} alone read doubled numbers from shared memory, and the result "
        "did not follow: its rows of y, and they alone, must come from what it reads itself")) for who in range(len(expected)))


def _multiples(rng: np.random.Generator, shape: tuple[int, int], CONSUMERS: int) -> Case:
    """(tiles, blocks): y[w] = (w + 1) x by consumer warpgroup w; each block takes every blocks-th tile."""
    tiles, blocks = shape
    x = rng.integers(-50, 50, TILE * tiles).astype(np.float32)
    y = np.empty((CONSUMERS, x.size), np.float32)
    expected = np.arange(1, CONSUMERS + 1, dtype=np.float32)[:, None] * x

    def run(launch):
        launch("multiples", (blocks,), (128 * CONSUMERS + 32,), (x, y, np.int32(tiles)), shared_mem=SLOTS * TILE * 4 + 64)

    of_block = [len(range(block, tiles, blocks)) for block in range(blocks)]
    parts = [(who, slice(TILE * t, TILE * (t + 1))) for who in range(CONSUMERS) for t in range(tiles)]
    return Case({"y": expected}, run, {"y": y}, carried=(
        Carried("bulk", (x,)), *_each_for_itself(expected), shared_out(y, expected, parts, range(0, 4 * CONSUMERS, 2),
        "the four warps of a consumer share each tile"), *(released_ahead(
            range(4 * who, 4 * who + 4), {warp: lambda block: min(SLOTS, of_block[block]) for warp in range(4 * CONSUMERS) if warp // 4 != who},
            f"consumer warpgroup {who}") for who in range(CONSUMERS))), requires=(
        exactly("bulk_load_bytes", tiles * TILE * 4, "each tile comes once, by one bulk copy, for all consumers"),
        none_of("global_load_requests", "the copy engine reads x, no thread does"),
        exactly("mbarrier_arrivals", tiles * (1 + 4 * CONSUMERS), "a tile takes one arrival by the producer and one by each consumer warp"),
        exactly("mbarrier_expected_bytes", tiles * TILE * 4, "the producer announces what it copies"),
        in_flight("cp", min(SLOTS, -(-tiles // blocks)), "the producer runs ahead as far as there are slots"),
        nothing_else("x comes by bulk copies, and consumers read it from the ring", ("bulk_loads", "read brought")),
        loads_ahead(1, SLOTS, "the producer waits for nothing else than the slot that it fills"),
        loaded_by(range(4 * CONSUMERS, 4 * CONSUMERS + 1), "the producer's warp, the last one"),
        read_by_all(4 * CONSUMERS, of_block),
        arrivals_by({warp: (warp,) for warp in range(4 * CONSUMERS)}, lambda block: of_block[block], "warp")),
        also=(teams_apart(lambda warp: warp // 4, "between its tiles",
                          "where another warpgroup stops too: a consumer waits for the producer's copies, and for nobody else"),
              in_slots(LANDS, SLOTS, "a slot is filled again once it has been handed back", range(SLOTS * TILE * 4 + 64)),))


def _gemm(rng: np.random.Generator, shape: tuple[int, int, int], CONSUMERS: int, STAGES: int) -> Case:
    """(m, n, k): a block computes 64 rows and 64 * CONSUMERS columns; small integers, so that every fp32 sum is exact."""
    from ml_dtypes import bfloat16

    m, n, k = shape
    a, b = (rng.integers(-2, 3, (rows, k)).astype(bfloat16) for rows in (m, n))
    c, width, k_tiles = np.empty((m, n), bfloat16), 64 * CONSUMERS, -(-k // 64)
    blocks, stage_bytes = -(-n // width) * -(-m // 64), (64 + width) * 128

    def run(launch: Launch) -> None:
        _launched(launch, a, b, c, CONSUMERS, STAGES)

    expected = (a.astype(np.float32) @ b.astype(np.float32).T).astype(bfloat16)
    return Case({"c": expected}, run, {"c": c}, carried=(
        Carried("tma"), Carried("wgmma"), *_shares_of(CONSUMERS, c, expected), *(alone_ahead(
            range(4 * who, 4 * who + 4), {4 * other: 4 * k_tiles for other in range(1, 1 + CONSUMERS) if other != who}, 4 * STAGES,
            f"consumer warpgroup {who}") for who in range(1, 1 + CONSUMERS) if k_tiles > 1)), requires=(
        exactly("tma_load_bytes", blocks * k_tiles * stage_bytes, "each k-block of A and B comes once for all consumers"),
        none_of("global_load_requests", "TMA reads A and B, no thread does"),
        exactly("wgmma", blocks * CONSUMERS * 4 * k_tiles, "a consumer multiplies a k-block in four k-steps"),
        issued_by(range(1, 1 + CONSUMERS), 4 * k_tiles, f"the {CONSUMERS} consumers share the work equally, 64 columns each"),
        exactly("mbarrier_arrivals", blocks * k_tiles * (1 + CONSUMERS), "a k-block takes one arrival by the producer and one by each consumer"),
        in_flight("cp", 2 * min(STAGES, k_tiles), f"a ring of {STAGES} stages keeps two boxes per stage on their way"),
        nothing_else("A and B come by tensor copies, and wgmma reads them where they landed"),
        loads_ahead(2, STAGES, "the producer waits for nothing else than the stage that it fills"),
        loaded_by(range(4), "the producer's warpgroup, number 0"),
        nobody_stops(),
        arrivals_by({number: range(4 * number, 4 * number + 4) for number in range(1, 1 + CONSUMERS)}, lambda _block: k_tiles, "warpgroup")),
        also=(_own_columns(),))


def _launched(launch: Launch, a: np.ndarray, b: np.ndarray, c: np.ndarray, CONSUMERS: int, STAGES: int) -> None:
    """The launch of an answer to 10.2. a: m x k, b: n x k, c: m x n, in bf16."""
    import hopperlab as hl

    (m, n), k, width = c.shape, a.shape[1], 64 * CONSUMERS
    maps = (hl.TensorMap.tiled(a, box=(64, 64), swizzle="128B"), hl.TensorMap.tiled(b, box=(width, 64), swizzle="128B"))
    sizes = tuple(np.int32(size) for size in (m, n, k))
    launch("gemm", (-(-n // width), -(-m // 64)), (128 * (1 + CONSUMERS),), (*maps, c, *sizes), shared_mem=STAGES * (64 + width) * 128 + 64)


def _speed(CONSUMERS: int, STAGES: int) -> Speed:
    """Of 10.2: many tiles of many k-blocks."""
    from ml_dtypes import bfloat16

    return of_product(SIZE, bfloat16, lambda *given: _launched(*given, CONSUMERS, STAGES), partial(own_us, "10.2", CONSUMERS=CONSUMERS, STAGES=STAGES))


def _own_columns() -> Requirement:
    """No wgmma may be wider than a consumer's share of the tile."""
    def complaint(run: Any) -> str:
        other = next((event for event in run.timeline if event.what == "issue wgmma" and ".m64n64k16" not in event.opcode), None)
        return "" if other is None else (f"warp {other.warp} of block {other.block} runs {other.opcode}, and it should be m64n64k16: each consumer multiplies its own 64 "
                                         "columns of B and leaves the others' to them")
    return custom("a consumer multiplies its own columns", complaint)


def _shares_of(consumers: int, c: np.ndarray, expected: np.ndarray) -> tuple[Carried, ...]:
    """For each consumer warpgroup a run in which its products alone are negated: of each tile, 64 columns must follow at the most, whichever they are."""
    def judged(_run: Any) -> str:
        found, right = c.astype(np.float32), expected.astype(np.float32)
        if (bad := (np.abs(found) != np.abs(right))).any():
            row, col = np.argwhere(bad)[0]
            return f"c[{row}, {col}] is {found[row, col]:g}, and should be {right[row, col]:g} or {-right[row, col]:g}"
        for top in range(0, len(c), 64):
            for left in range(0, c.shape[1], 64 * consumers):
                tile = (found != right)[top:top + 64, left:left + 64 * consumers]
                groups = [col for col in range(0, tile.shape[1], 64) if tile[:, col:col + 64].any()]
                if len(groups) > 1:
                    return f"of the tile at row {top}, column {left}, {len(groups)} blocks of 64 columns followed, and it should be one"
        return ""
    return tuple(Carried("wgmma", warps=range(4 * who, 4 * who + 4), judged=judged, says=(
        f"the products of consumer warpgroup {who} alone were negated, and more than its share of the tile followed: the {consumers} consumers share the work equally, "
        "64 columns each")) for who in range(1, 1 + consumers))


def _sizes(rng: np.random.Generator) -> tuple[int, int, int]:
    """A few tiles at most, any m and n, k a multiple of 8 (a row's bytes are a multiple of 16) of five k-blocks."""
    return int(rng.integers(1, 80)), int(rng.integers(1, 150)), 8 * int(rng.integers(33, 41))


EXERCISES = (
    Exercise("10.1", "Who arrives, and how often?", CUDA, "multiples", shapes=((1, 1), (3, 2), (8, 1), (11, 3)),
             draw=lambda rng: (int(rng.integers(1, 20)), int(rng.integers(1, 4))), case=_multiples, long=lambda rng: (int(rng.integers(40, 50)), 1),
             constants={"CONSUMERS": (2, 1, 3)}, says=lambda shape: f"{counted(shape[0], 'tile')}, {counted(shape[1], 'block')}"),
    Exercise("10.2", "A second consumer", CUDA, "gemm", shapes=((64, 128, 64), (1, 1, 8), (64, 130, 328), (70, 65, 136)), draw=_sizes, case=_gemm,
             long=lambda rng: (int(rng.integers(1, 65)), int(rng.integers(1, 129)), 8 * int(rng.integers(110, 180))),
             constants={"CONSUMERS": (2, 3), "STAGES": (3, 2, 4)}, seeds=2, says=lambda shape: "m, n, k = {}, {}, {}".format(*shape),
             speed=_speed),
)
