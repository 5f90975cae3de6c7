# SPDX-License-Identifier: Apache-2.0
"""Exercises of lesson 13x: when each kernel of a chain begins, reads and ends, and a product whose wait stands as late as it may."""
from __future__ import annotations

import math
import re
from collections import Counter

import ml_dtypes
import numpy as np

import hopperlab as hl

from ...checking.carried import Carried
from ...checking.exercise import CUDA, PYTHON, Case, Exercise
from ...checking.requires import Requirement, custom, exactly

TILE, STAGE_BYTES = 64, 16384
PRODUCER = 4                    # the warp that loads
PREFETCHES = re.compile(r"cp\.async\.bulk\.prefetch|prefetchu?\.(?!tensormap)")
ASKS = re.compile(r"ld\.(?:acquire|relaxed|volatile|mmio)|ld\.global\.volatile|atom|red\b")


def _times(_rng: np.random.Generator, kernels: tuple[tuple[int, int, bool, bool], ...], GAP: int) -> Case:
    """[begins, reads, ends] of each kernel of a chain of (head, body, tells, late)."""
    expected: list[list[int]] = []
    for number, (head, body, _tells, late) in enumerate(kernels):
        begins = reads_first = 0
        if number:
            began, _, reads_first = expected[-1]
            begins = (began if kernels[number - 1][2] else reads_first) + GAP
        reads = max(begins + head, reads_first) if late else max(begins, reads_first) + head
        expected.append([begins, reads, reads + body])
    return Case(expected, arguments=([list(kernel) for kernel in kernels],))


def _some_kernels(rng: np.random.Generator) -> tuple[tuple[int, int, bool, bool], ...]:
    return tuple((100 * int(rng.integers(1, 30)), 100 * int(rng.integers(2, 40)), bool(rng.integers(2)), bool(rng.integers(2))) for _ in range(int(rng.integers(2, 7))))


def _waits_late(first: int) -> Requirement:
    """When a block's producer comes to griddepcontrol.wait, it must have asked for the weights of `first` k-blocks, and for nothing else; nobody else waits."""
    def complaint(run) -> str:
        asked = Counter[int]()
        waited: dict[int, int] = {}
        for event in run.timeline:
            if event.what == "issue cp":
                asked[event.block] += 1
            elif event.what == "wait griddepcontrol" and event.opcode == "griddepcontrol.wait" and event.warp == PRODUCER:
                waited.setdefault(event.block, asked[event.block])
            elif event.what == "wait griddepcontrol" and event.opcode == "griddepcontrol.wait":
                return (f"warp {event.warp} of block {event.block} waits for the kernel in front as well: only the producer's thread waits, and the consumers learn "
                        "of it from its arrivals on `full`")
        if not waited:
            return ("the producer never has to wait for the kernel in front: let that one say griddepcontrol_launch_dependents() at its start, and wait in the "
                    "thread that loads x")
        block, found = next(((block, found) for block, found in sorted(waited.items()) if found != first), (0, first))
        return "" if found == first else (f"when the producer of block {block} waits for the kernel in front, it has asked for {found} tiles, and it "
                                          f"should be {first}: the weights of as many k-blocks as the ring has slots, which that kernel does not write")
    return custom(f"weights of {first} k-blocks before the wait", complaint, accesses=True)


def _asks_no_flag() -> Requirement:
    """`product` may not ask memory whether the kernel in front has written: no loads that acquire or are repeated, no atomics."""
    def complaint(run) -> str:
        asks = next((one.opcode for one in run.counters.by_instruction() if one.kernel == "product" and ASKS.match(one.opcode)), "")
        fetches = next((one.opcode for one in run.counters.by_instruction() if one.kernel == "product" and PREFETCHES.match(one.opcode)), "")
        if fetches:
            return (f"`product` runs {fetches}, which asks the L2 for what the kernel in front may not have written yet: above the wait the loads of the first weights "
                    "are on their way, and nothing else")
        return asks and (f"`product` runs {asks}, by which a thread asks memory itself whether the kernel in front has come so far: the consumers learn of it from the "
                         "arrivals on `full`, which come after the producer's wait, and load scale by ordinary loads")
    return custom("no flag between the kernels", complaint)


def _refilled(slots: int, k_blocks: int) -> Requirement:
    """When the products of a block's i-th k-block are over, all k-blocks that found a free slot must have been asked for, one fewer at the most."""
    def complaint(run) -> str:
        asked, over = Counter[int](), Counter[int]()
        for event in run.timeline:
            if event.what == "issue cp":
                asked[event.block] += 1
            elif event.what == "land wgmma" and event.warp == 0:
                over[event.block] += 1
                wanted = min(k_blocks, (over[event.block] - 1) // 4 + slots - 1)
                if asked[event.block] < 2 * wanted:
                    return (f"when k-block {(over[event.block] - 1) // 4} of block {event.block} has been multiplied, {asked[event.block] // 2} "
                            f"have been asked for, and it should be {wanted}: a slot is filled again as soon as it has been handed back")
        return ""
    return custom(f"{slots} slots are filled again at once", complaint)


def _lets_begin(blocks: int) -> Requirement:
    """Every block of the kernel in front must let the next one begin before it reads anything."""
    def complaint(run) -> str:
        told: set[int] = set()
        late: set[int] = set()
        for event in run.timeline:
            if event.what == "wait griddepcontrol" and event.opcode == "griddepcontrol.launch_dependents" and event.block not in late:
                told.add(event.block)
            elif event.what == "load global" and event.block not in told:
                late.add(event.block)
        missing = next((block for block in range(blocks) if block not in told), None)
        return "" if missing is None else (f"block {missing} of `signs` reads before it has let the next kernel begin: what that one does above its wait needs "
                                           f"nothing of this one")
    return custom("the kernel in front lets the next one begin at once", complaint, accesses=True)


def _overlap(rng: np.random.Generator, shape: tuple[int, int, int], STAGES: int) -> Case:
    """(m, n, k): y = scale * (x w^T), x and scale by a kernel in front of it."""
    m, n, k = shape
    raw, w = (rng.integers(-9, 10, (rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))
    x, scale, y = np.zeros((m, k), ml_dtypes.bfloat16), np.zeros(m, np.float32), np.empty((m, n), ml_dtypes.bfloat16)
    grid, k_blocks = (math.ceil(n / TILE), math.ceil(m / TILE)), math.ceil(k / TILE)
    steps = grid[0] * grid[1] * k_blocks

    def run(launch):
        maps = [hl.TensorMap.tiled(array, box=(TILE, TILE), swizzle="128B") for array in (x, w)]
        with hl.Stream(backend="emulator") as stream:
            launch("signs", (math.ceil(m / 4),), (128,), (raw, x, scale, np.int32(m), np.int32(k)))
            launch("product", grid, (160,), (*maps, scale, y, np.int32(m), np.int32(n), np.int32(k)), shared_mem=STAGES * (STAGE_BYTES + 16), dependent=True)
            stream.synchronize()

    values = raw.astype(np.float32)
    exact = np.abs(values).max(axis=1)[:, None] * (np.sign(values) @ w.astype(np.float32).T)
    return Case({"y": exact.astype(ml_dtypes.bfloat16)}, run, {"y": y}, carried=(Carried("tma", (w,), to="wgmma"), Carried("wgmma")), requires=(
        exactly("tma_loads", 2 * steps, "for each k-block a block issues two loads, a tile of x and one of w"),
        exactly("tma_load_bytes", steps * STAGE_BYTES, "tiles of 64 x 64"),
        exactly("wgmma", 4 * steps, "a k-block of 64 columns is four wgmma"),
        _lets_begin(math.ceil(m / 4)), _waits_late(min(STAGES, k_blocks)),
        _refilled(STAGES, k_blocks), _asks_no_flag()))


EXERCISES = (
    Exercise("13x.1", "When does each kernel begin?", PYTHON, "times", draw=_some_kernels, case=_times, constants={"GAP": (1000, 800, 1500)},
             shapes=(((900, 2000, True, True), (900, 2000, True, True), (500, 700, True, True)), ((900, 2000, False, True), (900, 2000, False, True)),
                     ((900, 2000, True, False), (900, 2000, True, False)), ((2500, 300, True, True), (2500, 300, True, True), (100, 100, False, False),
                                                                            (700, 100, True, True))),
             says=lambda shape: f"{len(shape)} kernels"),
    Exercise("13x.2", "The latest wait", CUDA, "overlap", shapes=((40, 72, 264), (9, 64, 64), (65, 8, 136)), draw=lambda rng: (
        int(rng.integers(1, 66)), 8 * int(rng.integers(1, 10)), 8 * int(rng.integers(9, 35))), case=_overlap, constants={"STAGES": (3, 2, 4)},
        says=lambda shape: "m, n, k = {}, {}, {}".format(*shape), seeds=2),
)
