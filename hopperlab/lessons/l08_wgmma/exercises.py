# SPDX-License-Identifier: Apache-2.0
"""Exercises of lesson 08: the descriptor of any slice of a K-major tile, and a product by one warpgroup."""
from __future__ import annotations

from typing import Any

import numpy as np

import hopperlab as hl

from ...checking.carried import Carried
from ...checking.exercise import CUDA, PYTHON, Case, Exercise
from ...checking.requires import Requirement, custom, exactly, in_each_block, needless, none_of
from ...hopper import wgmma
from ...measure.launches.operands import bf16_bits

STEP_BYTES = 32              # of every row, that one wgmma takes
ROWS = 64                    # of D in one wgmma


def products_at_once(run: Any) -> int:
    """The most wgmma that one warp had between issue and landing."""
    now: dict[tuple[int, int], int] = {}
    most = 0
    for event in run.timeline:
        step = {"issue wgmma": 1, "land wgmma": -1}.get(event.what, 0)
        if step:
            warp = (event.block, event.warp)
            now[warp] = now.get(warp, 0) + step
            most = max(most, now[warp])
    return most


def in_flight_at_once(amount: int, why: str) -> Requirement:
    """Under the lazy schedule a warp must have `amount` wgmma in flight at its peak."""
    def complaint(run: Any) -> str:
        found = products_at_once(run)
        return "" if found == amount else f"at most {found} wgmma of a warp were in flight at once, and it should be {amount}: {why}"
    return custom(f"wgmma in flight: {amount}", complaint)


def integers(rng: np.random.Generator, rows: int, k: int) -> np.ndarray:
    """Small integers, of which every bf16 product and every fp32 sum is exact."""
    return rng.integers(-2, 3, (rows, k)).astype(np.float32)


def bf16_map(values: np.ndarray, rows: int, row_bytes: int) -> hl.TensorMap:
    """A tensor map of a K-major bf16 matrix with boxes of `rows` rows of `row_bytes`, in the swizzle of that width."""
    return hl.TensorMap.tiled(bf16_bits(values), box=(rows, row_bytes // 2), swizzle=f"{row_bytes}B", dtype="bfloat16")


def _descriptor(_rng: np.random.Generator, shape: tuple[int, int, int, int], ROW_BYTES: int) -> Case:
    """(address, rows, row, step): the operand that begins at `row` of a tile of `rows` rows, k-step `step`."""
    address, rows, row, step = shape
    panel, inside = divmod(STEP_BYTES * step, ROW_BYTES)
    word = wgmma.encode(address + panel * rows * ROW_BYTES + row * ROW_BYTES + inside, 16, 8 * ROW_BYTES, f"{ROW_BYTES}B")
    return Case([word & 0x3FFF, word >> 32 & 0x3FFF, word >> 62, hex(word)], arguments=shape)


def _draw_descriptor(rng: np.random.Generator) -> tuple[int, int, int, int]:
    rows = 64 * int(rng.integers(1, 4))
    return 1024 * int(rng.integers(1, 60)), rows, 8 * int(rng.integers(rows // 8)), int(rng.integers(1, 12))


def _product(rng: np.random.Generator, shape: tuple[int, int, int], N: int, ROW_BYTES: int) -> Case:
    """(m, n, k): a grid of tiles of 64 x N; all of k lies in shared memory, in blocks of ROW_BYTES."""
    m, n, k = shape
    a, b = integers(rng, m, k), integers(rng, n, k)
    c = np.empty((m, n), np.float32)
    grid, blocks = (-(-n // N), -(-m // ROWS)), -(-2 * k // ROW_BYTES)
    steps, tiles = blocks * ROW_BYTES // STEP_BYTES, grid[0] * grid[1]

    def run(launch) -> None:
        maps = bf16_map(a, ROWS, ROW_BYTES), bf16_map(b, N, ROW_BYTES)
        launch("product", grid, (128,), (*maps, c, np.int32(m), np.int32(n), np.int32(k)), shared_mem=blocks * (ROWS + N) * ROW_BYTES)

    return Case({"c": a @ b.T}, run, {"c": c}, carried=(Carried("tma", to="wgmma"),), requires=(
        exactly("wgmma", tiles * steps, "a k-step of every tile is one wgmma by four warps"),
        none_of("shared_load_requests", "the tensor core reads the tiles, no thread does"),
        needless("ld.global", "ldmatrix", "atom or red", "mma.sync", "cp.async", "cp.async.bulk loads", "loads of the tensor map's words",
                 instead="TMA brings the tiles, wgmma reads and multiplies them, and c gets its accumulators"),
        in_each_block(tiles, 4 * steps, "issue wgmma", "wgmma of warps"),
        exactly("tma_load_bytes", tiles * blocks * (ROWS + N) * ROW_BYTES, "each block of k is loaded once"),
        in_flight_at_once(steps, "all products of the tile are issued before one wait at the end")))


def _draw_product(rng: np.random.Generator) -> tuple[int, int, int]:
    return int(rng.integers(1, 90)), int(rng.integers(1, 80)), 8 * int(rng.integers(5, 21))


EXERCISES = (
    Exercise("08.1", "The descriptor of any slice", PYTHON, "descriptor",
             shapes=((0x400, 64, 0, 0), (0x400, 64, 0, 1), (0x2000, 64, 8, 3), (0x2000, 128, 64, 4), (0x8C00, 192, 128, 9)), draw=_draw_descriptor,
             case=_descriptor, constants={"ROW_BYTES": (128, 64, 32)}, says=lambda shape: f"address, rows, row, step = {', '.join(map(str, shape))}"),
    Exercise("08.2", "One warpgroup, one tile", CUDA, "product", shapes=((64, 64, 64), (1, 3, 40), (65, 70, 104)), draw=_draw_product,
             long=lambda rng: (int(rng.integers(1, 65)), int(rng.integers(1, 65)), 8 * int(rng.integers(41, 61))),
             case=_product, constants={"N": (64, 32, 16), "ROW_BYTES": (64, 128, 32)}, says=lambda shape: f"m, n, k = {shape[0]}, {shape[1]}, {shape[2]}"),
)
