# SPDX-License-Identifier: Apache-2.0
"""Exercises of lesson 16: the online softmax of one row, and attention with the softmax of one block under the product of the one before."""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import exp, inf
from typing import Any

import numpy as np

from ...checking import exponentials
from ...checking.carried import Carried
from ...checking.exercise import CUDA, PYTHON, Case, Exercise, Launch
from ...checking.concurrency import nothing_else
from ...checking.requires import Requirement, custom, exactly, none_of
from ..l08_wgmma.exercises import bf16_map, in_flight_at_once

QUERIES, PANEL = 64, 64      # of a CTA; columns of a box


def _online(rng: np.random.Generator, shape: tuple[int, int, str], SCALE: float) -> Case:
    """(keys met before, keys of the block, what the block brings): a row's running numbers, and what a block with its own scores and values makes of them.
    Scores lie about 9000, whose exponentials overflow; 'higher': the largest so far; 'lower': none larger; 'hidden': no key that the query sees."""
    before, keys, brings = shape
    most = -inf if not before else SCALE * float(9000 + rng.integers(-4, 5))
    weights = [1.0, *(exp(-SCALE * float(n)) for n in rng.integers(0, 9, before - 1))] if before else []
    total, out = float(sum(weights)), float(sum(w * float(v) for w, v in zip(weights, rng.integers(-5, 6, before), strict=True)))
    centre = (most / SCALE if before else 9000.0) + {"higher": 7, "lower": -7, "hidden": 0}[brings]
    scores = [-inf if brings == "hidden" or i and rng.random() < 0.25 else centre + float(rng.integers(-6, 7)) for i in range(keys)]
    values = [float(v) for v in rng.integers(-5, 6, keys)]
    high = max([most, *(SCALE * s for s in scores)])
    factor = 0.0 if most == -inf else exp(most - high)
    terms = [exp(SCALE * s - high) if s > -inf else 0.0 for s in scores]
    new, sums = total * factor + sum(terms), out * factor + sum(w * v for w, v in zip(terms, values, strict=True))
    return Case([high, factor, new, sums, sums / new if new else 0.0], arguments=(most, total, out, scores, values), tolerance=1e-9)


def _some_block(rng: np.random.Generator) -> tuple[int, int, str]:
    return int(rng.integers(0, 5)), int(rng.integers(1, 9)), ("higher", "lower", "hidden")[int(rng.integers(3))]


def softmax_under_product(blocks: int, keys: int) -> Requirement:
    """By events: all but the first block's exponentials of every warp must run while a product is in flight, and few others without one."""
    asked, beside = (blocks - 1) * (keys // 2), keys // 2 + 8 * blocks

    def complaint(run: Any) -> str:
        flying, under, idle = Counter[tuple[int, int]](), Counter[tuple[int, int]](), Counter[tuple[int, int]]()
        for event in run.timeline:
            warp = (event.block, event.warp)
            if event.what.endswith(" wgmma"):
                flying[warp] += 1 if event.kind == "issue" else -1
            elif event.what == "exponential":
                (under if flying[warp] else idle)[warp] += int(event.detail)
        for warp in sorted(flying):
            if under[warp] < asked or idle[warp] > beside:
                return (f"warp {warp[1]} of block {warp[0]} computes {under[warp]} exponentials a thread while a product is in flight, "
                        f"and at least {asked} should be; {idle[warp]} while none is, and at most {beside} should be: wait for the "
                        "scores of this block only, compute its softmax under the product with V of the block before, then wait for that")
        return ""
    return custom("the softmax of a block runs under the product of the block before", complaint, accesses=True)


Launched = Callable[[Launch, np.ndarray, np.ndarray, np.ndarray, np.ndarray], None]


def _halved_exponentials(launched: Launched, D: int, KEYS: int, SINK: int) -> Carried:
    """Two queries and two blocks of keys, for a run in which exponentials of anything but 0 are halved. All scores of query 0 are 0, below the sink, so that each weight
    is half of exp(-SINK). Query 1 meets one larger than the sink in its second block: what was summed up before is rescaled by half of the factor."""
    queries, keys, scale = 2, 2 * KEYS, D ** -0.5
    q, k, v = (np.zeros((rows, D), np.float32) for rows in (queries, keys, keys))
    q[1, 0], k[0, 0], k[1:KEYS, 0] = 4, np.ceil((SINK + 0.5) / (4 * scale)), -100
    v[KEYS:] = 2.0 ** (2 + round((SINK - 4) / np.log(2)))            # large enough that exp(-SINK) of it shows
    scores = scale * (q @ k.T).astype(np.float64)
    scores[np.arange(keys)[None] > np.arange(queries)[:, None] + keys - queries] = -np.inf

    def online(*blocks: slice, rescaled: bool = True) -> np.ndarray:
        most, total, out = np.full(queries, float(SINK)), np.ones(queries), np.zeros((queries, D))
        for block in blocks:
            high = np.maximum(most, scores[:, block].max(axis=1))
            factor, weights = _half_exp(most - high), _half_exp(scores[:, block] - high[:, None])
            total, out, most = total * factor + weights.sum(axis=1), out * (factor[:, None] if rescaled else 1) + weights @ v[block], high
        return (out / total[:, None]).astype(np.float32)
    first, last = slice(KEYS), slice(KEYS, keys)
    o, expected = np.empty((queries, D), np.float32), online(last, first)

    def judged(_run: Any) -> str:
        if np.allclose(o, expected, rtol=2 ** -7, atol=2 ** -7):
            return ""
        if np.allclose(o, online(first, last), rtol=2 ** -7, atol=2 ** -7):
            return "the result is that of blocks met from the first to the last. Go from the last block to the first, as they are loaded"
        if np.allclose(o, online(last, first, rescaled=False), rtol=2 ** -7, atol=2 ** -7):
            return ("the result is that of an output which is never rescaled: two blocks of keys were met, and the second brought a larger score. What `out` holds by "
                    "then belongs to the smaller maximum; multiply it by the factor (scale_rows) when its product is done")
        row, column = np.argwhere(~np.isclose(o, expected, rtol=2 ** -7, atol=2 ** -7))[0]
        return (f"o[{row}, {column}] is {o[row, column]:.5g}, expected {expected[row, column]:.5g}: it comes, in part or whole, from other arithmetic. Compute the "
                "weights, their sum and the factor of the rescale by ex2")
    return Carried("ex2", own=Case({}, lambda launch: launched(launch, q, k, v, o), {"o": o}), judged=judged, says=(
        "every exponential (ex2) of anything but 0 was halved, and the result did not follow"))


def _half_exp(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) > exponentials.NEAR, 0.5, 1) * np.exp(x)


def _attention(rng: np.random.Generator, shape: tuple[int, int], D: int, KEYS: int, SINK: int) -> Case:
    """(queries, keys) of one head, causal, the ends of both aligned; small integers in bf16.

    The tolerance is that of the weights in bf16: relative 2^-9 each, of a sum of values of at most 2.
    """
    queries, keys = shape
    q, k, v = (rng.integers(-2, 3, (rows, D)).astype(np.float32) for rows in (queries, keys, keys))
    scale, o = np.float32(D ** -0.5), np.empty((queries, D), np.float32)
    ctas, blocks, steps = -(-queries // QUERIES), -(-keys // KEYS), (D // 16, KEYS // 16)

    def weighted(sign: int, sinks: int = 1) -> np.ndarray:
        """The result, or that of both products negated; sinks: how often the sink counts."""
        scores = sign * scale * (q @ k.T).astype(np.float64)
        scores[np.arange(keys)[None] > np.arange(queries)[:, None] + keys - queries] = -np.inf
        most = np.maximum(scores.max(axis=1, keepdims=True), SINK)
        terms = np.exp(scores - most)
        with np.errstate(invalid="ignore"):                     # a row that sees no key, without a sink
            return (sign * terms @ v / (terms.sum(axis=1, keepdims=True) + sinks * np.exp(SINK - most))).astype(np.float32)

    def launched(launch: Launch, q: np.ndarray, k: np.ndarray, v: np.ndarray, o: np.ndarray) -> None:
        maps = [bf16_map(x, rows, 2 * PANEL) for x, rows in ((q, QUERIES), (k, KEYS), (v, KEYS))]
        launch("attention", (-(-len(q) // QUERIES),), (128,), (*maps, o, np.int32(len(q)), np.int32(len(k)), scale),
               shared_mem=2 * D * (QUERIES + 2 * -(-len(k) // KEYS) * KEYS))

    mistaken = {"The sink counts four times: each of the four lanes that share a row has its weight in `sum`": {"o": weighted(1, sinks=4)},
                "The sink's weight is missing in the sum": {"o": weighted(1, sinks=0)}}
    return Case({"o": weighted(1)}, lambda launch: launched(launch, q, k, v, o), {"o": o}, tolerance=2 ** -7, mistaken=mistaken, carried=(
        Carried("tma"), Carried("wgmma", expected={"o": weighted(-1)}), _halved_exponentials(launched, D, KEYS, SINK)), requires=(
        exactly("wgmma", ctas * blocks * sum(steps), f"a block takes {steps[0]} for the scores and {steps[1]} for the product with V"),
        none_of("shared_store_requests", "the weights stay in registers: they are the A operand of the product with V as they lie"),
        none_of("matrix_store_requests", "the weights stay in registers"),
        none_of("shared_load_requests", "the tensor core reads Q, K and V, no thread does"),
        none_of("matrix_load_requests", "the tensor core reads Q, K and V, no thread does"),
        exactly("tma_load_bytes", ctas * 2 * D * (QUERIES + 2 * blocks * KEYS), "each tile is loaded once"),
        in_flight_at_once(sum(steps) if blocks > 1 else max(steps), "the scores of a block are multiplied beside the product with V of the block before"),
        softmax_under_product(blocks, KEYS),
        nothing_else("Q, K and V come by tensor copies, and wgmma reads them where they landed")))


EXERCISES = (
    Exercise("16.1", "A softmax that never sees its row", PYTHON, "online", draw=_some_block, case=_online, constants={"SCALE": (0.5, 0.25, 0.125)},
             shapes=((0, 4, "hidden"), (0, 3, "higher"), (4, 4, "higher"), (5, 4, "lower"), (2, 1, "hidden")),
             says=lambda shape: f"{shape[1]} keys behind {shape[0]}"),
    Exercise("16.2", "The rescale, under a product", CUDA, "attention", shapes=((64, 64), (3, 1), (70, 136)),
             draw=lambda rng: (int(rng.integers(1, 68)), int(rng.integers(130, 193))), case=_attention,
             long=lambda rng: (int(rng.integers(1, 65)), int(rng.integers(370, 385))),           # with D = 128 no more fit into shared memory
             constants={"D": (64, 128), "KEYS": (64, 128), "SINK": (4, 6, 8)}, seeds=0, says=lambda shape: f"{shape[0]} queries, {shape[1]} keys"),
)
