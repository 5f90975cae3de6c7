# SPDX-License-Identifier: Apache-2.0
"""Exercises of lesson 05: what one box brings in, and a stencil whose tile comes with its halo by one TMA copy."""
from __future__ import annotations

import numpy as np

import hopperlab as hl

from ...checking.carried import Carried
from ...checking.exercise import CUDA, PYTHON, Case, Exercise
from ...checking.requires import exactly, in_each_block, needless, none_of

LEAD = 4                     # floats before (and after) the tile in a row of the halo's box: 16 bytes


def _landing(rng: np.random.Generator, shape: tuple[int, int, int, int], BOX_ROWS: int, BOX_COLUMNS: int, ELEMENT_BYTES: int) -> Case:
    """(rows, columns, first row, first 16 bytes): the box that starts there, as [bytes, the index of each element or None where filled]."""
    rows, columns, first_row, piece = shape
    first_column = piece * 16 // ELEMENT_BYTES

    def element(row: int, column: int) -> int | None:
        return row * columns + column if 0 <= row < rows and 0 <= column < columns else None

    tile = [[element(first_row + r, first_column + c) for c in range(BOX_COLUMNS)] for r in range(BOX_ROWS)]
    return Case([BOX_ROWS * BOX_COLUMNS * ELEMENT_BYTES, tile], arguments=(rows, columns, first_row, first_column))


def _landing_shape(rng: np.random.Generator) -> tuple[int, int, int, int]:
    return int(rng.integers(1, 12)), int(rng.integers(4, 30)), int(rng.integers(-5, 12)), int(rng.integers(-3, 6))


def _star(x: np.ndarray, halo: int) -> np.ndarray:
    """The neighbours of each element at distances 1 to halo along the three axes, summed; what lies outside counts as 0."""
    depth, height, width = x.shape
    padded = np.pad(x, halo)
    total = np.zeros_like(x)
    for step in [*range(-halo, 0), *range(1, halo + 1)]:
        for axis in range(3):
            first = [halo + step * (axis == a) for a in range(3)]
            total += padded[first[0]:first[0] + depth, first[1]:first[1] + height, first[2]:first[2] + width]
    return total


def _mistakes(x: np.ndarray, HALO: int) -> dict[str, dict[str, np.ndarray]]:
    """What y holds where one thing is wrong, by the sentence that says which."""
    reach = 2 * (HALO + LEAD)
    around = _star(np.pad(x, reach), HALO)

    def further(*steps: int) -> np.ndarray:
        """For each element the sum of another one, so many elements further along each axis."""
        return around[tuple(slice(reach + step, reach + step + extent) for step, extent in zip(steps, x.shape, strict=True))]

    found = {"The element itself was added, and only its neighbours count": _star(x, HALO) + x,
             "The box was loaded from the tile's first element on, and it begins before it: HALO elements in depth and height, LEAD along the width":
                 further(HALO, HALO, LEAD)}
    if HALO != LEAD:
        found["Along the width the tile was looked for HALO elements into the box, and it lies LEAD elements into it"] = further(0, 0, HALO - LEAD)
    return {cause: {"y": y} for cause, y in found.items()}


def _stencil(rng: np.random.Generator, shape: tuple[int, int, int], TILE: int, HALO: int) -> Case:
    """(depth, height, width): rows of x lie `pitch` floats apart, width rounded up to 16 bytes; a block makes TILE³ elements of y."""
    depth, height, width = shape
    pitch = -(-width // 4) * 4
    whole = rng.integers(-50, 50, (depth, height, pitch)).astype(np.float32)
    x, y = whole[:, :, :width], np.empty(shape, np.float32)
    edge, row = TILE + 2 * HALO, TILE + 2 * LEAD
    grid = tuple(-(-extent // TILE) for extent in (width, height, depth))
    blocks, box_bytes = grid[0] * grid[1] * grid[2], 4 * edge * edge * row

    def run(launch):
        source = hl.TensorMap.tiled(x, box=(edge, edge, row))
        sizes = [np.int32(n) for n in (depth, height, width, pitch)]
        launch("stencil", grid, (TILE * TILE,), (source, whole, y, *sizes))

    return Case({"y": _star(x, HALO)}, run, {"y": y}, carried=(Carried("tma"),), mistaken=_mistakes(x, HALO), requires=(
        exactly("tma_loads", blocks, "one copy brings a block's tile with its halo"),
        in_each_block(blocks, 1, "issue cp", "tensor copies"),
        exactly("tma_load_bytes", blocks * box_bytes, "each block loads one box, the part outside the volume included"),
        exactly("mbarrier_expected_bytes", blocks * box_bytes, "the bytes of the whole box are announced, whatever hangs over an edge"),
        needless("atom or red", "cp.async", "cp.async.bulk loads", "loads of the tensor map's words",
                 instead="the box brings the tile and its halo, and the map is the engine's to read"),
        none_of("global_load_requests", "the copy engine reads x, no thread does")))


EXERCISES = (
    Exercise("05.1", "What does the box bring?", PYTHON, "landing",
             shapes=((8, 12, 2, 1), (8, 12, -1, -1), (8, 12, 6, 2), (5, 9, 4, 1), (1, 7, -2, 0), (3, 4, 7, -3)),
             draw=_landing_shape, case=_landing, constants={"BOX_ROWS": (4, 3, 6), "BOX_COLUMNS": (8, 16, 24), "ELEMENT_BYTES": (4, 2, 8)},
             says=lambda shape: f"a matrix of {shape[0]} x {shape[1]}"),
    Exercise("05.2", "A stencil with a halo", CUDA, "halo", shapes=((8, 8, 8), (5, 9, 12), (1, 1, 1), (3, 10, 21)),
             draw=lambda rng: tuple(int(n) for n in rng.integers(1, (10, 18, 22))), case=_stencil,
             constants={"TILE": (8, 4, 12), "HALO": (1, 2, 3)},
             says=lambda shape: "depth, height, width = {}, {}, {}".format(*shape)),
)
