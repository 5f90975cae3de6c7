# SPDX-License-Identifier: Apache-2.0
"""Exercises of lesson 19: an order of tiles in which nobody waits, and a message to another device with its two flags."""
from __future__ import annotations

import numpy as np

import hopperlab as hl

from ...checking.carried import Carried
from ...checking.exercise import CUDA, PYTHON, Case, Exercise
from ...checking.requires import Requirement, custom, exactly, in_each_block, needless, together
from ...measure.launches.across import MOST_DEVICES

Plan = tuple[int, int, int, int]         # rank, devices, pieces of a shard, tiles of a piece


def _plan(_rng: np.random.Generator, shape: Plan, PIECE: int, TILE: int) -> Case:
    """[tiles in order, when the last ends], for (rank, devices, pieces, tiles)."""
    rank, devices, pieces, tiles = shape
    order: list[int] = []
    time = pulled = 0
    for other in range(devices):
        for piece in range(pieces):
            number = (rank + other) % devices * pieces + piece
            pulled += PIECE if other else 0
            time = max(time, pulled) + tiles * TILE
            order += range(number * tiles, (number + 1) * tiles)
    return Case([order, time], arguments=(rank, devices, pieces, tiles))


def _some_plan(rng: np.random.Generator) -> Plan:
    devices = int(rng.integers(2, MOST_DEVICES + 1))
    return int(rng.integers(devices)), devices, int(rng.integers(1, 4)), int(rng.integers(1, 4))


def _as_doubled(mail: np.ndarray, doubled: np.ndarray) -> Requirement:
    """At the end the mail must hold the last step's tiles as `give` is to send them."""
    def complaint(_run) -> str:
        wrong = np.flatnonzero(mail != doubled)
        return "" if not len(wrong) else (f"mail[{wrong[0]}] is {mail[wrong[0]]:g} at the end, and it should be {doubled[wrong[0]]:g}: `give` doubles the numbers and "
                                          "sends them in their order, and `take` writes them backwards")
    return custom("the mail holds doubled tiles", complaint)


def _only_bulk_copies(mail: np.ndarray) -> Requirement:
    """No thread may store to the mail, the one array of floats in one dimension."""
    def complaint(run) -> str:
        stored = next((event for event in run.timeline if event.what == "store global" and event.detail.endswith(f"(float32, shape {mail.shape})")), None)
        return "" if stored is None else (f"warp {stored.warp} of block {stored.block} stores to `mail` itself (line {stored.line}): the bulk copy pushes the tile, "
                                          "and no thread writes there")
    return custom("nobody else writes into the mail", complaint, accesses=True)


def _nobody_else(rng: np.random.Generator, TILE: int) -> Carried:
    """A run of two steps in which `give` must end before `take` is launched, and block 0 must have sent both tiles before anybody reads block 1's first."""
    x, out = rng.integers(-999, 1000, (2, 2 * TILE)).astype(np.float32), np.empty((2, 2 * TILE), np.float32)
    mail, full, read = np.full(2 * TILE, -1, np.float32), np.zeros(2, np.uint32), np.zeros(2, np.uint32)

    def run(launch):
        streams = []
        for device in hl.devices(2, backend="emulator"):
            with device:
                streams.append(hl.Stream(backend="emulator"))

        def give(step: int) -> None:
            with streams[0]:
                launch("give", (2,), (TILE,), (x[step], mail, full, read, np.uint32(step + 1)))

        def take(step: int, b: int) -> None:
            mine, tile = slice(b, b + 1), slice(TILE * b, TILE * (b + 1))
            with streams[1]:
                launch("take", (1,), (TILE,), (mail[tile], full[mine], read[mine], out[step, tile], np.uint32(step + 1)))
        give(0)
        streams[0].synchronize()
        for step, b in ((0, 0), (1, 0), (0, 1), (1, 1)):
            if (step, b) == (1, 0):
                give(1)
            take(step, b)
        for stream in streams:
            stream.synchronize()
    return Carried("slow warps", warps=(), own=Case({}, run, {"out": out}), judged=lambda _run: "", says=(
        "`give` had to end before `take` began, and block 0 of `take` took both its tiles before block 1 took its first, and somebody waited for ever. A block of `give` "
        "asks only whether its own tile of the step before has been read, and that before it sends the next one"))


def _message(rng: np.random.Generator, shape: tuple[int, int], TILE: int) -> Case:
    """(tiles, steps): out = 2 x, each tile backwards, on another device, step after step."""
    blocks, steps = shape
    x = rng.integers(-999, 1000, (steps, blocks * TILE)).astype(np.float32)
    mail, out = np.full(blocks * TILE, -1, np.float32), np.empty((steps, blocks * TILE), np.float32)
    full, read = np.zeros(blocks, np.uint32), np.zeros(blocks, np.uint32)

    def run(launch):
        full[:], read[:] = 0, 0
        streams = []
        for device in hl.devices(2, backend="emulator"):
            with device:
                streams.append(hl.Stream(backend="emulator"))
        for step in range(steps):
            with streams[0]:
                launch("give", (blocks,), (TILE,), (x[step], mail, full, read, np.uint32(step + 1)))
            with streams[1]:
                launch("take", (blocks,), (TILE,), (mail, full, read, out[step], np.uint32(step + 1)))
        for stream in streams:
            stream.synchronize()

    expected = 2 * x.reshape(steps, blocks, TILE)[:, :, ::-1].reshape(steps, -1)
    moved = 4 * TILE * blocks * steps
    return Case({"out": expected}, run, {"out": out}, carried=(_nobody_else(rng, TILE), Carried("bulk", (mail,), kernel="take"), Carried("store")), requires=(
        exactly("bulk_load_bytes", moved, "one bulk copy a tile and step brings the mail into shared memory"),
        exactly("bulk_store_bytes", moved, "one bulk copy a tile and step pushes the tile into the mail"),
        exactly("bulk_loads", blocks * steps, "a tile is fetched by one bulk copy, whole"),
        exactly("bulk_stores", blocks * steps, "a tile is sent by one bulk copy, whole"),
        together(needless("bulk reductions", instead="a bulk store sends the tile"), _as_doubled(mail, 2 * x[-1]),
                 in_each_block(blocks, steps, "issue store cp", "bulk stores"), in_each_block(blocks, steps, "issue cp", "bulk loads"))),
        also=(_only_bulk_copies(mail),))


EXERCISES = (
    Exercise("19.1", "Nobody waits", PYTHON, "plan", draw=_some_plan, case=_plan, constants={"PIECE": (300, 500, 100), "TILE": (200, 70, 400)},
             shapes=((0, 2, 2, 2), (1, 2, 2, 1), (2, 4, 1, 3), (7, 8, 2, 1)), says=lambda shape: "device {} of {}, {} pieces a shard, {} tiles a piece".format(*shape)),
    Exercise("19.2", "A message to another device", CUDA, "message", shapes=((1, 3), (3, 2), (2, 4)), draw=lambda rng: (int(rng.integers(1, 4)),
            int(rng.integers(2, 5))), case=_message, long=lambda rng: (1, int(rng.integers(9, 13))),
             constants={"TILE": (256, 128, 512)}, says=lambda shape: "{} tiles, {} steps".format(*shape), seeds=2),
)
