# SPDX-License-Identifier: Apache-2.0
"""Exercises of lesson 04: the phases of a barrier by hand, and a ring of STAGES slots with full and empty barriers."""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from ...checking.carried import Carried, released_ahead, shared_out
from ...checking.concurrency import teams_apart
from ...checking.exercise import CUDA, PYTHON, Case, Exercise
from ...checking.requires import LANDS, Requirement, custom, exactly, in_flight, in_slots, kept_full, needless, none_of
from ...hopper import mbarrier

TEAMS = {0: (1, 2), 1: (3, 4)}   # warps of a block that consume: team i takes tiles i, i + 2 ... of the block's; warp 0 produces
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

    return Case({"y": _fold(x)}, run, {"y": y}, carried=(
        Carried("bulk", (x,)), *_each_its_own(_fold(x), tiles, blocks), shared_out(y, _fold(x), [slice(TILE * t, TILE * (t + 1)) for t in range(tiles)],
        [warps[0] for warps in TEAMS.values()], "both warps of a team fold a half of its tile each"), *_alone_ahead(tiles, blocks, STAGES)), requires=(
        exactly("bulk_load_bytes", tiles * TILE * 4, "each tile comes by one bulk copy"),
        none_of("global_load_requests", "the copy engine reads x, no thread does"),
        exactly("mbarrier_expected_bytes", tiles * TILE * 4, "the producer announces what it copies"),
        exactly("mbarrier_arrivals", 3 * tiles, "a tile costs one arrival on full and two on empty, one of each warp of its team"),
        _arrivals(tiles, blocks),
        teams_apart(lambda warp: (warp + 1) // 2, "between its tiles",
                    "where others than its team stop too: the teams wait for the producer's copies, and for nobody else"),
        needless("atom or red", "cp.async", instead="one bulk copy brings a tile, and the consumers read its slot"),
        in_flight("cp", deepest, f"a ring of {STAGES} slots keeps {STAGES} copies on their way"),
        kept_full(STAGES, "issue cp", "land cp", "copies")),
        also=(in_slots(LANDS, STAGES, "a slot is filled again once it has been handed back", range(STAGES * TILE * 4)),))


def _each_its_own(folded: np.ndarray, tiles: int, blocks: int) -> tuple[Carried, ...]:
    """For each team a run in which it alone reads doubled numbers, so that its tiles alone are doubled."""
    team_of = np.arange(tiles) // blocks % len(TEAMS)
    return tuple(Carried("ld.shared", warps=warps, expected={"y": folded * (1 + (team_of == team)).astype(np.float32).repeat(TILE)}, says=(
        f"team {team} (warps {warps[0]} and {warps[1]}) alone read doubled numbers from shared memory, "
        "and the result did not follow: its tiles of y, and they alone, must come from what it reads itself")) for team, warps in TEAMS.items())


def _alone_ahead(tiles: int, blocks: int, STAGES: int) -> tuple[Carried, ...]:
    """For each team a run in which it is slow, and the other one goes on as far as its own slots let it."""
    of_block = [len(range(block, tiles, blocks)) for block in range(blocks)]

    def ahead(team: int) -> Callable[[int], int]:
        return lambda block: min(len(range(team, of_block[block], len(TEAMS))), STAGES // len(TEAMS))
    return tuple(released_ahead(warps, {warp: ahead(other) for other, of_other in TEAMS.items() if other != team for warp in of_other}, f"team {team}")
                 for team, warps in TEAMS.items() if max(of_block) > 1)


def _arrivals(tiles: int, blocks: int) -> Requirement:
    """The producer's warp arrives once for each tile of its block, each consumer warp once for each of its team's."""
    def complaint(run: Any) -> str:
        found = Counter((event.block, event.warp) for event in run.timeline if event.what == "arrive mbarrier")
        for block in range(blocks):
            of_block = len(range(block, tiles, blocks))
            asked = {0: of_block, **{warp: len(range(team, of_block, len(TEAMS))) for team, warps in TEAMS.items() for warp in warps}}
            for warp, count in asked.items():
                if found[block, warp] != count:
                    return (f"arrivals of warp {warp} of block {block}: {found[block, warp]}, and it should be {count}: the producer "
                            "on full, once for each tile; a consumer warp on empty, once for each tile of its team, for itself and no other")
        return ""
    return custom("arrivals of each warp", complaint)


EXERCISES = (
    Exercise("04.1", "Which phase runs?", PYTHON, "phases", shapes=(3, 6, 12, 30), draw=lambda rng: int(rng.integers(5, 60)),
             case=_phases, constants={"COUNT": (2, 1, 3, 5)}, says=lambda events: f"{events} events"),
    Exercise("04.2", "A ring of slots", CUDA, "ring", shapes=((1, 1), (2, 1), (9, 2), (13, 3)),
             draw=lambda rng: (int(rng.integers(1, 30)), int(rng.integers(1, 5))), case=_ring,
             constants={"STAGES": (4, 2, 6)}, says=lambda shape: "tiles, blocks = {}, {}".format(*shape)),
)
