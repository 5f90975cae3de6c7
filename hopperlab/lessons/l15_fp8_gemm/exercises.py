# SPDX-License-Identifier: Apache-2.0
"""Exercises of lesson 15: quantising blocks to e4m3, and a product that promotes one k-block while the next is multiplied."""
from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

import hopperlab as hl

from ...checking.carried import Carried
from ...checking.exercise import CUDA, PYTHON, Case, Exercise
from ...checking.concurrency import next_issued, nothing_else
from ...checking.requires import Requirement, custom, exactly, no_local_memory, none_of, together
from ..l08_wgmma.exercises import in_flight_at_once

ROWS, SCALED_ROWS = 64, 128  # of C in one wgmma; of B that share a scale
STEP = 32                    # columns of k of one fp8 wgmma


def e4m3_codes(scaled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(codes, values) of numbers up to 448 in magnitude, rounded to the nearest e4m3."""
    from ml_dtypes import float8_e4m3fn
    rounded = scaled.astype(float8_e4m3fn)
    return rounded.view(np.uint8), rounded.astype(np.float64)


def clear_of_ties(scaled: np.ndarray) -> bool:
    """True when no number lies so near to the middle between two e4m3 values that the order of a division decides."""
    return all(np.array_equal(e4m3_codes(scaled * (1 + nudge))[0], e4m3_codes(scaled)[0]) for nudge in (-1e-9, 1e-9))


def has_subnormal(scaled: np.ndarray) -> bool:
    """True when some number becomes a subnormal e4m3 number other than 0."""
    magnitudes = e4m3_codes(scaled)[0] & 0x7F
    return bool(((magnitudes > 0) & (magnitudes < 8)).any())


def has_lost_negative(scaled: np.ndarray) -> bool:
    """True when some negative number becomes 0, and its code is the sign bit alone."""
    return bool(((e4m3_codes(scaled)[0] == 0x80) & (scaled < 0)).any())


def spread(rng: np.random.Generator, count: int) -> list[float]:
    """Numbers of very different size with three digits, some of them 0."""
    sizes = 10.0 ** np.where(rng.random(count) < 0.4, rng.uniform(-4, -2, count), rng.uniform(-2, 2, count))
    signs = rng.choice([-1.0, 1.0], count)
    return [0.0 if rng.random() < 0.1 else float(f"{x:.3g}") for x in sizes * signs]


def _quantise(rng: np.random.Generator, count: int, BLOCK: int, LARGEST: int) -> Case:
    """`count` numbers in blocks of BLOCK; for each its scale, its codes and its largest error. The first block of eight numbers or more is zero."""
    while True:
        values = spread(rng, count)
        if count >= 8:
            values[:BLOCK] = [0.0] * BLOCK
        blocks = [np.array(values[i:i + BLOCK]) for i in range(0, count, BLOCK)]
        scales = [float(np.abs(block).max()) / LARGEST or 1.0 for block in blocks]
        scaled = [block / scale for block, scale in zip(blocks, scales, strict=True)]
        if max(np.abs(block).max() for block in scaled) > LARGEST:           # by the rounding of the division
            continue
        if all(map(clear_of_ties, scaled)) and (count < 3 or any(map(has_subnormal, scaled))) and (count < 8 or any(map(has_lost_negative, scaled))):
            break
    rows = []
    for block, scale in zip(blocks, scales, strict=True):
        codes, rounded = e4m3_codes(block / scale)
        rows.append([scale, codes.tolist(), float(np.abs(rounded * scale - block).max())])
    return Case(rows, arguments=(values,), tolerance=1e-7)


def always_multiplying(steps: int) -> Requirement:
    """Once its first product is issued, a warp's wgmma in flight must not fall to 0 before its last k-block (of `steps` wgmma) is the only one left."""
    def complaint(run: Any) -> str:
        now: dict[tuple[int, int], int] = {}
        issued: dict[tuple[int, int], int] = {}
        for event in run.timeline:
            if event.what not in ("issue wgmma", "land wgmma"):
                continue
            warp, issue = (event.block, event.warp), event.what == "issue wgmma"
            if issue and now.get(warp) == 0:
                return (f"the tensor core ran dry after {issued[warp] // steps} k-block(s): before a k-block is promoted, the next one must "
                        "have been started, and only the older one waited for")
            now[warp] = now.get(warp, 0) + (1 if issue else -1)
            issued[warp] = issued.get(warp, 0) + issue
        return ""
    return custom("a k-block is multiplied while the one before is promoted", complaint)


def from_zero(blocks: int) -> Requirement:
    """Every warp must begin exactly `blocks` sums of wgmma from zero."""
    def complaint(run: Any) -> str:
        began = Counter((event.block, event.warp) for event in run.timeline if event.what == "begin from zero")
        for warp in sorted({(event.block, event.warp) for event in run.timeline if event.what == "issue wgmma"}):
            if began[warp] != blocks:
                return (f"warp {warp[1]} of block {warp[0]} begins {began[warp]} times from zero, and should {blocks} times: the tensor core "
                        "sums up one k-block only (the first wgmma of each has accumulate 0), and its sums are promoted by ordinary instructions")
        return ""
    return custom(f"{blocks} k-blocks begin from zero", complaint, accesses=True)


def _scales(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    """Powers of two, and one and a half times such."""
    return (rng.choice([1, 1.5], size) * 2.0 ** rng.integers(-2, 3, size)).astype(np.float32)


def _last_steps(left: np.ndarray, BLOCK: int) -> np.ndarray:
    return np.where(np.arange(left.shape[1]) % BLOCK >= BLOCK - STEP, left, 0)


def _promoted(rng: np.random.Generator, shape: tuple[int, int, int], BLOCK: int, N: int) -> Case:
    """(m, n, k): a grid of tiles of 64 x N; small integers and scales of two bits, so that every fp32 sum is exact."""
    from ml_dtypes import float8_e4m3fn

    m, n, k = shape
    blocks, columns = -(-k // BLOCK), -(-n // SCALED_ROWS)
    a, b = (rng.integers(-3, 4, (rows, k)).astype(np.float32) for rows in (m, n))
    a_scales, b_scales = (_scales(rng, size) for size in ((blocks, m), (columns, blocks)))
    left, of_b = a * a_scales.T.repeat(BLOCK, 1)[:, :k], b_scales.repeat(SCALED_ROWS, 0)[:n]
    right = b * of_b.repeat(BLOCK, 1)[:, :k]
    c, grid = np.empty((m, n), np.float32), (-(-n // N), -(-m // ROWS))
    ctas, steps = grid[0] * grid[1], BLOCK // STEP

    def run(launch) -> None:
        maps = [hl.TensorMap.tiled(x.astype(float8_e4m3fn).view(np.uint8), box=(rows, BLOCK), swizzle=f"{BLOCK}B") for x, rows in ((a, ROWS), (b, N))]
        sizes = tuple(np.int32(size) for size in shape)
        launch("promoted", grid, (128,), (*maps, a_scales, b_scales, c, *sizes), shared_mem=blocks * (ROWS + N) * BLOCK)

    upper = np.arange(m) - np.arange(m) // 8 % 2 * 8            # the row whose scale a thread reads first
    mistaken = {"The scale of the upper row was taken for the row 8 below it, too": (a * a_scales.T[upper].repeat(BLOCK, 1)[:, :k]) @ right.T,
                "The scale of B was taken from the first k-block for all of them": left @ (b * of_b[:, :1]).T,
                f"Of each k-block only the last {STEP} columns count: the others were overwritten": _last_steps(left, BLOCK) @ right.T}
    return Case({"c": left @ right.T}, run, {"c": c}, mistaken={cause: {"c": made} for cause, made in mistaken.items()},
                carried=(Carried("tma"), Carried("wgmma")), requires=(
        exactly("wgmma", ctas * blocks * steps, "a k-step of 32 columns is one wgmma by four warps"),
        together(none_of("shared_load_requests", "the tensor core reads the tiles, no thread does"), no_local_memory("what the tensor core and the threads sum up"),
                 none_of("shared_store_requests", "partial sums are promoted out of the registers of the accumulator, under the next product")),
        exactly("tma_load_bytes", ctas * blocks * (ROWS + N) * BLOCK, "each k-block is loaded once"),
        in_flight_at_once(steps * min(2, blocks), f"two k-blocks of {steps} wgmma, one in each partial accumulator"),
        always_multiplying(steps),
        next_issued(steps),
        from_zero(blocks),
        nothing_else("A and B come by tensor copies, and wgmma reads them where they landed; only the scales are loaded by threads", ("global_load_requests",))))


def _draw_promoted(rng: np.random.Generator) -> tuple[int, int, int]:
    return int(rng.integers(1, 68)), int(rng.integers(1, 132)), 16 * int(rng.integers(17, 26))


EXERCISES = (
    Exercise("15.1", "A scale for each block", PYTHON, "quantised", shapes=(1, 3, 4, 7, 9, 13), draw=lambda rng: int(rng.integers(9, 24)),
             case=_quantise, constants={"BLOCK": (4, 3, 5), "LARGEST": (448, 240, 224)}, says=lambda count: f"{count} numbers"),
    Exercise("15.2", "Promote under the next product", CUDA, "promoted", shapes=((64, 64, 128), (65, 3, 208), (1, 130, 400)), draw=_draw_promoted,
             long=lambda rng: (int(rng.integers(1, 65)), int(rng.integers(1, 65)), 16 * int(rng.integers(57, 65))),
             case=_promoted, constants={"BLOCK": (128, 64, 32), "N": (64, 128)}, seeds=1, says=lambda shape: "m, n, k = {}, {}, {}".format(*shape)),
)
