# SPDX-License-Identifier: Apache-2.0
"""Exercises of lesson 13: the tiles a persistent CTA takes of a serpentine order, and consumers that take turns by named barriers."""
from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import numpy as np

from ...checking.carried import Carried
from ...checking.exercise import CUDA, PYTHON, Case, Exercise, Launch
from ...checking.concurrency import loaded_by, loads_ahead, nothing_else
from ...checking.requires import Requirement, custom, exactly, in_flight, none_of
from ...checking.speed import Speed, of_product
from ...emulator.observe.timeline import wgmma_turns
from ...hopper import limits
from ...runtime.tables import counted
from ..own_times import own_us

ARRIVES = ("bar.arrive", "barrier.arrive", "bar.cta.arrive", "barrier.cta.arrive")
TILE, STAGE_BYTES = 64, 2 * 64 * 128     # of 13.2: a tile's rows and columns, bytes of a stage
SIZE = 2048              # m, n and k of the product by which its speed is judged


def serpentine(rows: int, cols: int, group: int) -> list[list[int]]:
    """All tiles in groups of `group` columns: row by row, left to right; every second group from the last row to the first."""
    order = []
    for number, first in enumerate(range(0, cols, group)):
        down = range(rows) if number % 2 == 0 else range(rows - 1, -1, -1)
        order += [[row, col] for row in down for col in range(first, min(first + group, cols))]
    return order


def _tiles_of(_rng: np.random.Generator, shape: tuple[int, int, int, int], GROUP: int) -> Case:
    """(CTA, CTAs, rows, columns)."""
    cta, ctas, rows, cols = shape
    return Case(serpentine(rows, cols, GROUP)[cta::ctas], arguments=shape)


def _places(rng: np.random.Generator) -> tuple[int, int, int, int]:
    """A CTA of a few, and more columns than the narrowest groups have."""
    ctas = int(rng.integers(1, 6))
    return int(rng.integers(ctas)), ctas, int(rng.integers(3, 8)), int(rng.integers(9, 15))


def in_turn(consumers: int, tiles: list[int], each: int) -> Requirement:
    """In block b, tiles[b] tiles of `each` wgmma must be issued whole, one after the other, by consumers 1 .. in turn, whose four warps hand each turn
    over without waiting."""
    handed_over = 4 * sum(max(0, count - 1) for count in tiles)

    def complaint(run: Any) -> str:
        for block, count in enumerate(tiles):
            found = wgmma_turns(run.timeline, block)
            asked = [(1 + tile % consumers, each) for tile in range(count)]
            if found != asked:
                at = next((i for i, pair in enumerate(zip(found, asked)) if pair[0] != pair[1]), min(len(found), len(asked)))
                seen = f"consumer {found[at][0]} issues {found[at][1]} wgmma in a row" if at < len(found) else "nobody issues"
                due = f"it should be consumer {asked[at][0]} with the {each} of a whole tile" if at < len(asked) else "no turn is left"
                return (f"the consumers do not take turns: in block {block}, turn {at + 1}, {seen}, and {due} ({len(found)} turns for "
                        f"{count} tiles). Who begins must wait until the one before has issued its last k-block")
        arrived = sum(counted["warp_instructions"] for counted in run.counters.by_instruction() if counted.opcode.startswith(ARRIVES))
        return "" if arrived >= handed_over else (f"warps arrive on a named barrier without waiting {arrived} times, and should {handed_over}: who tells the next "
                                                  "consumer goes on at once (bar.arrive), who is told waits (bar.sync)")
    return custom(f"whole tiles by turns of {consumers} consumers", complaint)


def tells_in_time(each: int) -> Requirement:
    """Consumers must say whose turn it is between the last of a tile's `each` wgmma and the wait for them (or before their first tile), and every word on a
    named barrier must be heard. Who tells goes on at once."""
    def complaint(run: Any) -> str:
        issued, landed = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
        told, heard = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
        met: set[tuple[int, int, str]] = set()                  # since the warp's last product: lanes of a warp may come one after the other
        for event in run.timeline:
            warp, place = (event.block, event.warp), (event.block, event.warp, event.opcode + event.detail)
            if event.what == "issue wgmma":
                issued[warp] += 1
                met = {other for other in met if other[:2] != warp}
            landed[warp] += event.what == "land wgmma"
            if event.what != "meet bar" or place in met:
                continue
            met.add(place)
            (told if event.opcode.startswith(ARRIVES) else heard)[event.block, event.detail] += 1
            if event.opcode.startswith(ARRIVES) and (issued[warp] % each or issued[warp] and issued[warp] == landed[warp]):
                return (f"warp {event.warp} of block {event.block} tells by {event.opcode} ({event.detail}) when {issued[warp] % each or each} of "
                        f"the {each} wgmma of its tile are issued and {issued[warp] - landed[warp]} of them in flight: tell after the last k-block is "
                        "issued and before you wait for it, so that the next consumer's first product runs beside the end of your tile and your stores")
        for (block, barrier), count in told.items():
            if count != heard[block, barrier]:
                return (f"{count} warps of block {block} arrive on {barrier} and {heard[block, barrier]} wait there: "
                        "after the last tile there is nobody to tell, and every word needs one who waits for it")
        return _stops_in_flight(run) or _stores_before_its_turn(run)
    return custom("the next consumer is told in time", complaint, accesses=True)


def _stops_in_flight(run: Any) -> str:
    """Who has products in flight must stop at no barrier of threads at which the other consumer stops too: what is said where one does."""
    in_flight, stops = Counter[tuple[int, int]](), dict[tuple[int, str], set[int]]()
    for event in run.timeline:
        if event.what == "meet bar" and not event.opcode.startswith(ARRIVES):
            stops.setdefault((event.block, event.detail), set()).add(event.warp // 4)
    for event in run.timeline:
        warp = (event.block, event.warp)
        in_flight[warp] += (event.what == "issue wgmma") - (event.what == "land wgmma")
        if event.what == "meet bar" and in_flight[warp] and not event.opcode.startswith(ARRIVES) and len(stops[event.block, event.detail]) > 1:
            return (f"warp {event.warp} of block {event.block} stops at {event.opcode} ({event.detail}) with products in flight, where "
                    "another warpgroup stops too: who tells the next consumer goes on at once (bar.arrive), only who is told waits (bar.sync)")
    return ""


def _stores_before_its_turn(run: Any) -> str:
    """A warp stores a tile before it waits for its consumer's next turn: what is said where one does not."""
    told_by: dict[tuple[int, str], set[int]] = {}
    for event in run.timeline:
        if event.what == "meet bar" and event.opcode.startswith(ARRIVES):
            told_by.setdefault((event.block, event.detail), set()).add(event.warp // 4)
    holding: set[tuple[int, int]] = set()                       # warps that have stored nothing since their last product
    waited: set[tuple[int, int]] = set()                        # ... and have been told that it is their turn; lanes of a warp may come one after the other
    for event in run.timeline:
        warp = (event.block, event.warp)
        if event.what == "issue wgmma":
            holding.add(warp)
            waited.discard(warp)
        elif event.what == "meet bar" and warp in holding and not event.opcode.startswith(ARRIVES):
            waited |= {warp} if told_by.get((event.block, event.detail), set()) - {event.warp // 4} else set()
        elif event.what in ("store global", "issue store cp"):
            holding.discard(warp)
            if warp not in waited:
                continue
            return (f"warp {event.warp} of block {event.block} waits for its next turn, and then stores the tile that it had multiplied before: a consumer stores its "
                    "tile while the next one multiplies, and before it waits for its own turn, or the tensor core rests during the stores")
    return ""


def _stores_under_products(tiles: list[int], each: int) -> Carried:
    """In a run in which stores come last, the first product of block b's tile i + 1 (of tiles[b], `each` wgmma of a tile) must have been issued
    before tile i is stored."""
    def judged(run: Any) -> str:
        issued, begun = Counter[int](), dict[tuple[int, int], int]()
        for event in run.timeline:
            who = (event.block, event.warp // 4)
            if event.what == "issue wgmma" and event.warp % 4 == 0:
                begun[who] = issued[event.block] // each
                issued[event.block] += 1
            elif event.what in ("store global", "issue store cp") and who in begun:
                following = begun[who] + 1
                if following < tiles[event.block] and issued[event.block] <= following * each:
                    return (f"consumer {who[1]} of block {event.block} stored tile {following - 1} of the block, and no product of tile {following} had been issued")
        return "; ".join(f"{hazard.kind}" for hazard in run.hazards)
    return Carried("late stores", judged=judged, says=(
        "whoever stores to global memory had to wait until nobody else could go on, and the next tile waited with it. The next consumer "
        "must need nothing of the one before but the word on the named barrier, so that its first product runs beside those stores"))


def _begins_before_the_wait(me: int, consumers: int, tiles: list[int], each: int) -> Carried:
    """In a run in which consumer `me` is slow, the first product of the tile behind each of its tiles must have been issued before the last of its own (`each` a tile)
    has been waited for."""
    warps = range(4 * me + 4, 4 * me + 8)

    def judged(run: Any) -> str:
        issued, landed = Counter[int](), Counter[tuple[int, int]]()
        for event in run.timeline:
            if event.what == "issue wgmma" and event.warp % 4 == 0:
                issued[event.block] += 1
            elif event.what == "land wgmma" and event.warp in warps:
                landed[event.block, event.warp] += 1
                turns, left = divmod(landed[event.block, event.warp], each)
                following = issued[event.block] // each + (issued[event.block] % each > 0) - 1       # the last tile begun
                own = [tile for tile in range(tiles[event.block]) if tile % consumers == me]
                if turns and not left and own[turns - 1] + 1 < tiles[event.block] and following <= own[turns - 1]:
                    return (f"consumer {me + 1} of block {event.block} had waited for all products of tile {own[turns - 1]} of the block, and no product of tile "
                            f"{own[turns - 1] + 1} had been issued")
        return ""
    return Carried("slow warps", warps=warps, judged=judged, says=(
        f"consumer {me + 1} went on only when nobody else could, and the next tile waited for more than its word. The word on the named barrier, after the last "
        "k-block of a tile was issued and before anybody waits for the product, is all that the next consumer may wait for"))


def _gemm(rng: np.random.Generator, shape: tuple[int, int, int, int], CONSUMERS: int, STAGES: int) -> Case:
    """(m, n, k, blocks): tiles of 64 x 64, every blocks-th by a block; small integers, so that every fp32 sum is exact."""
    from ml_dtypes import bfloat16

    m, n, k, blocks = shape
    a, b = (rng.integers(-2, 3, (rows, k)).astype(bfloat16) for rows in (m, n))
    c, k_tiles = np.empty((m, n), bfloat16), -(-k // 64)
    tiles = -(-m // TILE) * -(-n // TILE)
    of_block = [len(range(block, tiles, blocks)) for block in range(blocks)]

    def run(launch: Launch) -> None:
        _launched(launch, a, b, c, blocks, CONSUMERS, STAGES)

    expected = (a.astype(np.float32) @ b.astype(np.float32).T).astype(bfloat16)
    return Case({"c": expected}, run, {"c": c}, carried=(Carried("tma"), Carried("wgmma"), _stores_under_products(of_block, 4 * k_tiles), *(
        _begins_before_the_wait(me, CONSUMERS, of_block, 4 * k_tiles) for me in range(CONSUMERS) if max(of_block) > me + 1)), requires=(
        in_turn(CONSUMERS, of_block, 4 * k_tiles),
        exactly("wgmma", tiles * 4 * k_tiles, "each tile is multiplied once, a k-block in four k-steps"),
        exactly("mbarrier_arrivals", 2 * tiles * k_tiles, "a k-block takes one arrival by the producer and one by the consumer whose tile it belongs "
                "to; the turns are told by named barriers"),
        exactly("tma_load_bytes", tiles * k_tiles * STAGE_BYTES, "each k-block of each tile comes once"),
        none_of("global_load_requests", "TMA reads A and B, no thread does"),
        in_flight("cp", 2 * min(STAGES, of_block[0] * k_tiles), "the producer runs ahead, into the tiles to come, as far as there are stages"),
        tells_in_time(4 * k_tiles),
        nothing_else("A and B come by tensor copies, and wgmma reads them where they landed"),
        loads_ahead(2, STAGES, "the producer waits for nothing else than the stage that it fills, between tiles too"),
        loaded_by(range(4), "the producer's warpgroup, number 0")))


def _launched(launch: Launch, a: np.ndarray, b: np.ndarray, c: np.ndarray, blocks: int, CONSUMERS: int, STAGES: int) -> None:
    """The launch of an answer to 13.2. a: m x k, b: n x k, c: m x n, in bf16."""
    import hopperlab as hl

    maps = (hl.TensorMap.tiled(matrix, box=(TILE, 64), swizzle="128B") for matrix in (a, b))
    sizes = tuple(np.int32(size) for size in (*c.shape, a.shape[1]))
    launch("gemm", (blocks,), (128 * (1 + CONSUMERS),), (*maps, c, *sizes), shared_mem=STAGES * STAGE_BYTES + 64)


def _speed(CONSUMERS: int, STAGES: int) -> Speed:
    """Of 13.2: many tiles by each of as many blocks as there are SMs."""
    from ml_dtypes import bfloat16

    return of_product(SIZE, bfloat16, lambda *given: _launched(*given, limits.SMS, CONSUMERS, STAGES),
                      partial(own_us, "13.2", CONSUMERS=CONSUMERS, STAGES=STAGES))


def _sizes(rng: np.random.Generator) -> tuple[int, int, int, int]:
    """Two to six tiles of two k-blocks on one block or two; k a multiple of 8 (a row's bytes are a multiple of 16)."""
    return int(rng.integers(1, 129)), int(rng.integers(65, 193)), 8 * int(rng.integers(9, 17)), int(rng.integers(1, 3))


EXERCISES = (
    Exercise("13.1", "The tiles of one CTA", PYTHON, "tiles_of", draw=_places, case=_tiles_of, constants={"GROUP": (4, 2, 3, 8)},
             shapes=((0, 1, 3, 4), (0, 1, 3, 10), (2, 5, 4, 12), (3, 4, 1, 1), (0, 3, 5, 14), (1, 2, 2, 9)),
             says=lambda shape: "CTA {} of {}, {} x {} tiles".format(*shape)),
    Exercise("13.2", "Taking turns", CUDA, "gemm", shapes=((128, 128, 128, 1), (1, 1, 8, 1), (70, 130, 64, 2), (64, 330, 72, 1)), draw=_sizes, case=_gemm,
             long=lambda rng: (int(rng.integers(1, 65)), int(rng.integers(11 * TILE + 1, 13 * TILE)), 8 * int(rng.integers(9, 17)), 1),
             constants={"CONSUMERS": (2, 3), "STAGES": (4, 3)}, seeds=1, says=lambda shape: "m, n, k = {}, {}, {}; ".format(*shape) + counted(shape[3], "block"),
             speed=_speed),
)
