# SPDX-License-Identifier: Apache-2.0
"""Exercises of lesson 04: the phases of a barrier by hand, and a ring of STAGES slots with full and empty barriers."""
from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from ...checking.carried import Carried
from ...checking.exercise import CUDA, PYTHON, Case, Exercise
from ...checking.requires import Requirement, custom, exactly, in_flight, kept_full, needless, none_of
from ...hopper import mbarrier

WARPS = 5                    # of a block: the producer's, and four of consumers
TILE = 512                   # floats of one tile of the ring


def _phases(rng: np.random.Generator, shape: int, COUNT: int) -> Case:
    """`shape` events on a fresh barrier of COUNT arrivals, and the number of the phase that runs after each."""
    word, phase, events, phases = mbarrier.init(COUNT), 0, [], []
    while len(events) < shape:
        fields = mbarrier.unpack(word)
        kind = ("arrive", "arrive_expect_tx", "complete_tx")[int(rng.integers(3))]
        if kind != "complete_tx" and not fields.pending or kind == "complete_tx" and fields.tx <= 0:
            continue
        number = {"arrive": 1, "arrive_expect_tx": 16 * int(rng.integers(1, 5)), "complete_tx": int(min(fields.tx, 16 * rng.integers(1, 5)))}[kind]
        after = getattr(mbarrier, kind)(word, number)
        phase += mbarrier.unpack(after).phase != fields.phase
        word = after
        events.append([kind, number])
        phases.append(phase)
    return Case(phases, arguments=(events,))


def _fold(x: np.ndarray) -> np.ndarray:
    runs = x.reshape(-1, 128)
    return (runs + runs[:, ::-1]).reshape(-1)


def _ring(rng: np.random.Generator, shape: tuple[int, int], STAGES: int) -> Case:
    """(tiles, blocks): each block takes every blocks-th tile; the launch gives STAGES slots of one tile as dynamic shared memory."""
    tiles, blocks = shape
    x = rng.integers(-50, 50, TILE * tiles).astype(np.float32)
    y = np.empty_like(x)
    deepest = min(STAGES, -(-tiles // blocks))

    def run(launch):
        launch("fold", (blocks,), (160,), (x, y, np.int32(tiles)), shared_mem=STAGES * TILE * 4)

    return Case({"y": _fold(x)}, run, {"y": y}, carried=(Carried("bulk", (x,)),), requires=(
        exactly("bulk_load_bytes", tiles * TILE * 4, "each tile comes by one bulk copy"),
        none_of("global_load_requests", "the copy engine reads x, no thread does"),
        exactly("mbarrier_expected_bytes", tiles * TILE * 4, "the producer announces what it copies"),
        exactly("mbarrier_arrivals", 5 * tiles, "a tile costs one arrival on full and four on empty, one of each consumer warp"),
        _arrivals(tiles, blocks),
        needless("atom or red", "cp.async", instead="one bulk copy brings a tile, and the consumers read its slot"),
        in_flight("cp", deepest, f"a ring of {STAGES} slots keeps {STAGES} copies on their way"),
        kept_full(STAGES, "issue cp", "land cp", "copies")))


def _arrivals(tiles: int, blocks: int) -> Requirement:
    """The producer's warp and each consumer warp arrive once for each tile of their block."""
    def complaint(run: Any) -> str:
        found = Counter((event.block, event.warp) for event in run.timeline if event.what == "arrive mbarrier")
        for block in range(blocks):
            asked = len(range(block, tiles, blocks))
            for warp in range(WARPS):
                if found[block, warp] != asked:
                    return (f"warp {warp} of block {block} arrives {found[block, warp]} times, and should arrive {asked} times, once for each tile: the producer on full, "
                            "each consumer warp on empty, for itself and no other")
        return ""
    return custom("arrivals of each warp", complaint)


EXERCISES = (
    Exercise("04.1", "Which phase runs?", PYTHON, "phases", shapes=(3, 6, 12, 30), draw=lambda rng: int(rng.integers(5, 60)),
             case=_phases, constants={"COUNT": (2, 1, 3, 5)}, says=lambda events: f"{events} events"),
    Exercise("04.2", "A ring of slots", CUDA, "ring", shapes=((1, 1), (2, 1), (9, 2), (13, 3)),
             draw=lambda rng: (int(rng.integers(1, 30)), int(rng.integers(1, 5))), case=_ring,
             constants={"STAGES": (2, 3, 4)}, says=lambda shape: f"{shape[0]} tiles, {shape[1]} blocks"),
)
