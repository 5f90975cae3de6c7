# SPDX-License-Identifier: Apache-2.0
"""Exercises of lesson 06: addresses in a swizzled tile, and reading one down its columns without bank conflicts."""
from __future__ import annotations

import numpy as np

import hopperlab as hl

from ...checking.carried import Carried, own_share
from ...checking.concurrency import by_each_warp
from ...checking.exercise import CUDA, PYTHON, Case, Exercise
from ...checking.requires import LANDS, at_least, at_most, exactly, in_each_block, in_slots, needless, none_of
from ...hopper import swizzle

WARP = 32


def _addresses(rng: np.random.Generator, shape: tuple[int, int], SPAN: int, ELEMENT_BYTES: int) -> Case:
    """(elements asked for, shared address of the tile): the address of each, in a tile whose rows are as long as the span."""
    count, base = shape
    rows, columns = rng.integers(0, 64, count), rng.integers(0, SPAN // ELEMENT_BYTES, count)
    landed = swizzle.apply(base + rows * SPAN + columns * ELEMENT_BYTES, f"{SPAN}B")
    return Case(landed.tolist(), arguments=(base, np.stack([rows, columns], axis=1).tolist()))


def _weigh(rng: np.random.Generator, shape: tuple[int, int, int], SPAN: int, ROWS: int) -> Case:
    """(rows, columns, at): the matrix's rows lie padded to 16 bytes; the tile begins `at` bytes into the dynamic shared memory."""
    rows, columns, at = shape
    whole = rng.integers(-50, 50, (rows, -(-columns // 4) * 4)).astype(np.int32)
    a, y = whole[:, :columns], np.empty(rows, np.int32)
    blocks, boxes = -(-rows // ROWS), -(-columns // (SPAN // 4))
    copied = blocks * boxes * ROWS * SPAN

    def run(launch):
        source = hl.TensorMap.tiled(a, box=(ROWS, SPAN // 4), swizzle=f"{SPAN}B")
        launch("weigh", (blocks,), (ROWS,), (source, y, np.int32(rows), np.int32(columns), np.int32(at)), shared_mem=at + ROWS * SPAN)

    expected = a @ np.arange(1, columns + 1, dtype=np.int32)
    return Case({"y": expected}, run, {"y": y}, carried=(Carried("tma"), *_own_rows(a, y, expected, ROWS)),
                mistaken=_mistakes(a, at, SPAN, ROWS), requires=(
        exactly("tma_load_bytes", copied, "each box comes once, by TMA"),
        in_each_block(blocks, boxes, "issue cp", "tensor copies"),
        at_most("shared_load_requests", copied // 16 // WARP, "a thread reads its row in pieces of 16 bytes, each once"),
        by_each_warp([[boxes * (block * ROWS + WARP * warp < rows) for warp in range(ROWS // WARP)] for block in range(blocks)], "load shared",
                     "reads shared memory", "a thread reads its own row of every box, 16 bytes at a time"),
        needless("ld.global", "atom or red", "ldmatrix", "cp.async", "cp.async.bulk loads", "loads of the tensor map's words",
                 instead="the boxes bring the rows, and ld reads them, 16 bytes per lane"),
        at_least("shared_load_bytes", 4 * rows * columns, "the threads read the tile from shared memory"),
        none_of("shared_load_conflicts", "eight lanes that read 16 bytes each of eight rows find them in eight groups of banks")),
        also=(in_slots(LANDS, 1, "each box lands where the one before was", range(at, at + 1), f"the tile begins at byte {at} of the dynamic shared memory"),))


def _mistakes(a: np.ndarray, at: int, SPAN: int, ROWS: int) -> dict[str, dict[str, np.ndarray]]:
    """What y holds where each thread looks for its pieces in other places, by the sentence that says which. at: bytes from a multiple of 1024 to the tile."""
    width, mode = SPAN // 4, f"{SPAN}B"
    whole = np.zeros([-(-extent // edge) * edge for extent, edge in zip(a.shape, (ROWS, width), strict=True)], np.int32)
    whole[:a.shape[0], :a.shape[1]] = a
    boxes = whole.reshape(-1, ROWS, whole.shape[1] // width, width).swapaxes(1, 2)
    plain, found = 4 * np.arange(ROWS * width), {}
    for cause, looked in (("The XOR was taken of the offset in the tile, and the copy engine takes it of the whole address", swizzle.apply(plain, mode)),
                          ("The pieces were looked for where they would lie without a swizzle", plain)):
        holds = (swizzle.apply(at + looked, mode) - at) // 4                # which number of the box lies there
        seen = boxes.reshape(*boxes.shape[:2], -1)[..., holds].reshape(boxes.shape).swapaxes(1, 2).reshape(whole.shape)
        found[cause] = {"y": (seen @ np.arange(1, whole.shape[1] + 1, dtype=np.int32))[:len(a)]}
    return found


def _own_rows(a: np.ndarray, y: np.ndarray, expected: np.ndarray, ROWS: int) -> list[Carried]:
    """For each warp of a block a run in which it alone reads other numbers (of whole numbers those above 0 are doubled, as floats are): its rows alone must follow."""
    runs, shows = [], (a > 0).any(axis=1)
    for warp in range(ROWS // WARP):
        own = [row for row in range(len(a)) if row % ROWS // WARP == warp]
        if own:
            runs.append(own_share(lambda: y != expected, [row for row in own if shows[row]], len(own), warp,
                                  "each thread reads its own row of every box, 16 bytes at a time"))
    return runs


EXERCISES = (
    Exercise("06.1", "Where does it lie?", PYTHON, "addresses", shapes=((8, 0x2400), (16, 0x2580), (24, 0x1080), (1, 0x700)),
             draw=lambda rng: (int(rng.integers(10, 40)), 128 * int(rng.integers(0, 400))), case=_addresses,
             constants={"SPAN": (128, 64, 32), "ELEMENT_BYTES": (2, 4, 1)}, says=lambda shape: f"tile at {shape[1]:#x}"),
    Exercise("06.2", "Down the columns", CUDA, "down", shapes=((64, 32, 0), (40, 70, 128), (1, 1, 384), (97, 33, 896)),
             draw=lambda rng: (int(rng.integers(1, 130)), int(rng.integers(1, 100)), 128 * int(rng.integers(0, 8))), case=_weigh,
             constants={"SPAN": (128, 64, 32), "ROWS": (64, 32, 96)}, seeds=2,
             says=lambda shape: "rows, columns = {}, {}; tile at {}".format(*shape)),
)
