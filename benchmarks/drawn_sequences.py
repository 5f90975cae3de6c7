# SPDX-License-Identifier: Apache-2.0
"""Attention over packed sequences, of unequal lengths or all of one, in the configuration that is chosen: drawn, timed on a GPU, and what estimates are off
(docs/estimates.md, Errors).

    python -m benchmarks.drawn_sequences                      judge the draws in benchmarks/drawn/sequences: two minutes, no GPU
    python -m benchmarks.drawn_sequences --draw SEED          draw 28, time them twice on this machine's Hopper GPU and store them there, half a minute
    python -m benchmarks.drawn_sequences --alike ...          the same of sequences that are as long as each other: 70 launches of any size (drawn/sequences_alike)

One to nine sequences of 1 to 3499 tokens, heads of 64, 128 or 256, four to sixteen of them, three of four causal, in bf16 or e4m3.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from hopperlab.estimates import accuracy, boards, estimating
from hopperlab.measure.launches import attention, attention_fp8
from hopperlab.measure.launches.launch import Launch
from hopperlab.measure.launches.random_cells import Cell
from hopperlab.measure.suites.race_attention import picked
from hopperlab.runtime.errors import LaunchError

from .drawn_attention import as_launched
from .drawn_estimates import FOLDER as PRODUCTS
from .drawn_estimates import ROUNDS, draw_or_judge, options

FOLDER, COUNT = PRODUCTS / "sequences", 28
APART = 0.05                 # by which one pass over a draw may be off: one launch of 1,600 took 150.5 us in a draw, and 125.2 when it was timed again
ALIKE, MANY, TOKENS, NUMBERS = PRODUCTS / "sequences_alike", 70, 40_000, 2 ** 27      # tokens, and numbers of each operand, of a launch at most


def drawn(seed: int) -> Iterator[dict[str, Any]]:
    """Rows without their times."""
    rng = np.random.default_rng(seed)
    for _ in range(COUNT):
        lengths = rng.integers(1, 3500, int(rng.integers(1, 10))).tolist()
        yield {"lengths": lengths, "d": int(rng.choice((64, 128, 256))), "heads": int(rng.choice((4, 8, 16))), "causal": bool(rng.integers(4)),
               "type": ("bf16", "e4m3")[int(rng.integers(2))]}


def alike(seed: int) -> Iterator[dict[str, Any]]:
    """The same of one to sixteen sequences of one length, half of them powers of two, of two to 32 heads: also launches of fewer CTAs than there are SMs."""
    rng, count = np.random.default_rng(seed), 0
    while count < MANY:
        many = int(rng.choice((1, 1, 2, 2, 4, 8, 16)))
        length = int(rng.choice((256, 512, 1024, 2048, 4096, 8192))) if rng.integers(2) else int(rng.integers(200, 9000))
        heads, d = int(rng.choice((2, 4, 8, 12, 16, 24, 32))), int(rng.choice((64, 128, 256)))
        if many * length <= TOKENS and many * length * heads * d <= NUMBERS:
            count += 1
            yield {"lengths": [length] * many, "d": d, "heads": heads, "causal": bool(rng.integers(2)), "type": ("bf16", "e4m3")[int(rng.integers(2))]}


def choice_of(row: dict[str, Any]) -> attention.Forward | attention_fp8.ForwardFp8:
    """The configuration that a row names, or the one that is chosen for it."""
    lengths, bf16 = row["lengths"], row["type"] == "bf16"
    if "named" in row:
        return attention.parsed(row["named"].split(), attention.Forward) if bf16 else attention.parsed(row["named"].split(), attention_fp8.ForwardFp8)
    return picked(Cell(row["d"], row["causal"], row["heads"], row["heads"], tuple(lengths))) if bf16 else attention_fp8.choose(row["d"], row["causal"], max(lengths))


def launched(row: dict[str, Any]) -> Launch:
    """In the emulator, of zeros."""
    starts, heads = np.cumsum([0, *row["lengths"]]).astype(np.int32), row["heads"]
    q, k, v = (np.zeros((int(starts[-1]), heads, row["d"]), np.uint16 if row["type"] == "bf16" else np.uint8) for _ in range(3))
    o, lse, ones = np.zeros(q.shape, np.uint16), np.zeros((heads, int(starts[-1])), np.float32), np.ones(heads, np.float32)
    if row["type"] == "bf16":
        return attention.forward(q, k, v, o, lse, starts, starts, row["causal"], choice=choice_of(row), backend="emulator")
    return attention_fp8.forward_fp8(q, k, v, o, lse, ones, ones, ones, starts, starts, row["causal"], choice=choice_of(row), backend="emulator")


def on_gpu(row: dict[str, Any]) -> Launch:
    """On this machine's GPU, of random numbers."""
    from hopperlab.measure.suites import attention as suite
    from hopperlab.measure.suites import attention_fp8 as suite_fp8

    given = (suite if row["type"] == "bf16" else suite_fp8).operands(row["lengths"], row["lengths"], row["heads"], row["heads"], row["d"])
    if row["type"] == "bf16":
        return attention.forward(*(given[name] for name in ("q", "k", "v", "o", "lse", "q_starts", "k_starts")), row["causal"], choice=choice_of(row))
    return attention_fp8.forward_fp8(*(given[name] for name in suite_fp8.ARRAYS), row["causal"], choice=choice_of(row))


def timed(drawn_rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with their times on this machine's GPU, the L2 cold: the mean of two passes over all of them, or the median of three where these differ by more than APART."""
    from hopperlab.measure.machine.timing import interleaved

    def once(row: dict[str, Any]) -> float:
        return 1e3 * interleaved({"": on_gpu(row).bound()}, ROUNDS, warmups=2)[""].ms
    rows = [{**row, "named": as_launched(choice_of(row), launched(row))} for row in drawn_rows]
    passes = [[once(row) for row in rows] for _ in range(2)]
    found = []
    for row, first, second in zip(rows, *passes, strict=True):
        took = [first, second] if abs(first - second) <= APART * min(first, second) else [first, second, once(row)]
        found.append({**row, "us": round(float(np.median(took)), 3)})
        print(found[-1], *(f"{us:.1f}" for us in took), flush=True)
    return found


def estimated(row: dict[str, Any], board: boards.Board) -> accuracy.Row | None:
    """A row with its estimate; None where there is none."""
    told = f"{row['type']} D={row['d']} {'causal' if row['causal'] else 'full'}, {row['heads']} heads of {row['lengths']}"
    try:
        us = estimating.estimate_launch(launched(row), board=board.name).us
    except LaunchError as why:
        print(f"{told}: {why}", flush=True)
        return None
    return accuracy.Row("", "drawn", "attention", told, False, float(row["us"]), us)


def main() -> None:
    """Draw and time, or judge."""
    parser = options(__doc__, "benchmarks.drawn_sequences", "benchmarks/drawn/sequences")
    parser.add_argument("--alike", action="store_true", help="sequences that are as long as each other: benchmarks/drawn/sequences_alike")
    asked = parser.parse_args()
    rows, folder = (alike, ALIKE) if asked.alike else (drawn, FOLDER)
    draw_or_judge(parser, asked, folder, lambda seed: timed(rows(seed)), estimated)


if __name__ == "__main__":
    main()
