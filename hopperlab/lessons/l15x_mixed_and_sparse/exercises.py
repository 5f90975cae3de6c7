# SPDX-License-Identifier: Apache-2.0
"""Exercises of lesson 15x: a warp's words of metadata, and weights prepared so that every load of a thread is whole."""
from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import ml_dtypes
import numpy as np

import hopperlab as hl

from ...checking.carried import Carried
from ...checking.exercise import CUDA, PYTHON, Case, Exercise
from ...checking.requires import Requirement, custom, exactly, needless, together

ROWS, BLOCK_ROWS, LANES = 32, 64, 32                # rows of x in a tile; rows of w in a block; lanes of a warp
PASSING = ("shfl", "movmatrix", "ldmatrix", "redux", "match", "vote.sync.ballot", "vote.ballot")
"""What brings a lane the bytes of others; a vote of any or all may be part of a wait."""
PLACES = tuple(combinations(range(4), 2))           # of the two of four that are kept, in order


def _words(rng: np.random.Generator, varied: int, FIRST: int) -> Case:
    """The words of a warp's lanes for 16 rows x 32 stored numbers; `varied` rows have any places, the others those of two and two alike."""
    picked = [[PLACES[int(i)] for i in rng.integers(0, 6, 16)] if row < varied else [PLACES[row % 6]] * 16 for row in range(16)]
    places = [[int(place) for pair in row for place in pair] for row in picked]
    return Case(metadata_words(places, FIRST), arguments=([list(row) for row in places],))


def metadata_words(places: Sequence[Sequence[int]], FIRST: int) -> list[int]:
    """The word of each lane. places: those of 16 rows x 32 stored numbers; FIRST: the selector of the first k-step."""
    found = []
    for lane in range(LANES):
        g, q = lane // 4, lane % 4
        step = q // 2 ^ FIRST
        first = 8 * (2 * step + q % 2)
        low, high = (sum(places[row][first + j] << 2 * j for j in range(8)) for row in (g, g + 8))
        found.append(low | high << 16)
    return found


def _whole_loads(threads: int, words: int) -> Requirement:
    """threads: those of all blocks, once for each k-block. `product` reads its weights from shared memory in pieces of 16 bytes, each once, without
    conflicts, without global loads and without passing bytes from lane to lane."""
    def complaint(run) -> str:
        mine = [one for one in run.counters.by_instruction() if one.kernel == "product"]
        found = sum(one["shared_load_requests"] for one in mine)
        if found != threads // LANES * words:
            return (f"`product` runs {found:,} shared loads, and should run {threads // LANES * words:,}: for each k-block a thread's share of the weights is "
                    f"{words} times 16 bytes, and each "
                    "of them is one load")
        if sum(one["shared_load_conflicts"] for one in mine):
            return (f"{sum(one['shared_load_conflicts'] for one in mine):,} bank conflicts of `product`'s shared loads, and there should be none: lanes that "
                    f"follow each other read 16 bytes that follow each other")
        if sum(one["global_load_requests"] for one in mine):
            return "`product` loads from global memory itself; the bulk copy brings the weights"
        passed = next((one.opcode for one in mine if one.opcode.startswith(PASSING)), "")
        return f"`product` uses {passed}: with a prepared layout a thread loads its own bytes, and no lane has to pass any on" if passed else ""
    return custom(f"{words} loads of 16 bytes per thread", complaint)


def _prepared_by_each(blocks: int) -> Requirement:
    """Every block of `prepare` must store to global memory before `product` issues its first copy."""
    def complaint(run) -> str:
        stored: set[int] = set()
        for event in run.timeline:
            if event.what == "issue cp":
                break
            if event.what == "store global":
                stored.add(event.block)
        missing = next((block for block in range(blocks) if block not in stored), None)
        return "" if missing is None else (f"block {missing} of {blocks} of `prepare` stores nothing: each block prepares its own block of the weights, no other does "
                                           "it for it")
    return custom(f"{blocks} blocks of prepare", complaint, accesses=True)


def _whole(rng: np.random.Generator, shape: tuple[int, int, int], WORDS: int) -> Case:
    """(m, n, k): y = x w^T with 8-bit weights, which a first kernel has prepared."""
    m, n, k = shape
    columns = 32 * WORDS
    k = columns * math.ceil(k / columns)
    x, q = rng.integers(-4, 5, (m, k)).astype(ml_dtypes.bfloat16), rng.integers(-128, 128, (n, k)).astype(np.int8).view(np.uint8)
    prepared, y = np.zeros((n, k), np.uint8), np.empty((m, n), np.float32)
    blocks, tiles = (k // columns, n // BLOCK_ROWS), (n // BLOCK_ROWS, math.ceil(m / ROWS))
    numbers = np.int32(n), np.int32(k)

    def run(launch):
        box = hl.TensorMap.tiled(x, box=(ROWS, columns), swizzle="128B" if WORDS == 2 else "64B")
        launch("prepare", blocks, (128,), (q, prepared, *numbers))
        launch("product", tiles, (128,), (box, prepared, y, np.int32(m), *numbers), shared_mem=(ROWS * 2 + BLOCK_ROWS) * columns + 8)

    exact = x.astype(np.float32) @ q.view(np.int8).astype(np.float32).T
    steps = tiles[0] * tiles[1] * blocks[0]
    return Case({"y": exact}, run, {"y": y}, carried=(Carried("tma", (x,), to="wgmma"), Carried("bulk", (prepared,), kernel="product"), Carried("wgmma")),
                requires=(
        exactly("bulk_loads", steps, "a block of 64 rows is one bulk copy a k-block"), exactly("tma_loads", steps, "a tile of x a k-block"),
        exactly("wgmma", steps * 2 * WORDS, "a k-block is two k-steps for each 16-byte piece of a thread"),
        needless("atom or red", "cp.async", instead="a thread reads its bytes by ld, 16 at once, where the bulk copy brought them"),
        together(_whole_loads(128 * steps, WORDS), _prepared_by_each(blocks[0] * blocks[1]))))


EXERCISES = (
    Exercise("15x.1", "Whose metadata?", PYTHON, "words", draw=lambda rng: int(rng.integers(3, 17)), case=_words, constants={"FIRST": (0, 1)}, shapes=(1, 9, 16),
             says=lambda varied: f"{varied} rows of any places"),
    Exercise("15x.2", "Whole loads", CUDA, "whole", shapes=((20, 64, 128), (1, 128, 64), (40, 64, 192)),
             draw=lambda rng: (int(rng.integers(1, 50)), 64 * int(rng.integers(1, 3)), 64 * int(rng.integers(1, 5))), case=_whole, constants={"WORDS": (2, 1)},
             says=lambda shape: "m, n, k = {}, {}, {}".format(*shape), seeds=2),
)
