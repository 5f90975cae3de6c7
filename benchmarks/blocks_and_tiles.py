# SPDX-License-Identifier: Apache-2.0
"""What a block of keys takes in attention, and what a tile takes beside its blocks: cycles of launches that differ in their length alone (docs/estimates.md, Errors).

    python -m benchmarks.blocks_and_tiles h200          those counted on an H200, beside the model's: ten minutes and more, no GPU
    python -m benchmarks.blocks_and_tiles --count       count them on this machine's Hopper GPU with ncu, a minute and a half

Sequences of 512 and of 2048 have nearly as many tiles, so two launches say what a block and what a tile takes. One consumer meets no other: what is wrong with it is the
price of what it computes or waits for; what is wrong with two and three alone, how they hold each other up.
"""
from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hopperlab.estimates import boards
from hopperlab.estimates.chip import simulate
from hopperlab.hopper.limits import SMS
from hopperlab.runtime.errors import HopperlabError

from . import drawn_attention as attention
from .counted_draws import COUNTED, counted, rows_of
from .drawn_estimates import FOLDER, write

PAIRS = "pairs"
LENGTHS = (512, 2048)
BEGUN = 5000                # cycles of a launch until its first tiles have begun, about
Row = Mapping[str, Any]


def wanted() -> Iterator[tuple[str, int, bool, dict[str, int]]]:
    """Types, head sizes, whether causal, and what is asked of a configuration."""
    for d, blocks in ((64, (64, 128, 192)), (128, (64, 128)), (256, (80,))):
        for bn in blocks:
            for consumers, overlap in ((1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)):
                yield "bf16", d, False, {"bn": bn, "consumers": consumers, "overlap": overlap, "turns": 0, "q_slots": 1, "chains": 1}
    for d, bn in ((64, 128), (128, 64)):
        yield "bf16", d, False, {"bn": bn, "consumers": 1, "overlap": 0, "q_slots": 1, "chains": 2}
        yield "bf16", d, False, {"bn": bn, "consumers": 2, "overlap": 1, "turns": 1, "q_slots": 2, "chains": 1}
        yield "bf16", d, True, {"bn": bn, "consumers": 1, "overlap": 0, "q_slots": 1, "chains": 1}
        yield "bf16", d, True, {"bn": bn, "consumers": 2, "overlap": 1, "turns": 1, "q_slots": 1, "chains": 1}
    for d, blocks in ((64, (64, 192)), (128, (64, 160)), (256, (64,))):
        for bn in blocks:
            for consumers, overlap, held in ((1, 0, 0), (1, 1, 0), (1, 1, 1), (2, 0, 0), (2, 1, 0), (2, 1, 1), (3, 0, 0), (3, 1, 0)):
                yield "e4m3", d, False, {"bn": bn, "consumers": consumers, "stages": 2, "overlap": overlap, "turns": 0, "promoted": 0, "held": held}
    yield "e4m3", 128, False, {"bn": 64, "consumers": 2, "stages": 2, "overlap": 0, "turns": 0, "promoted": 1, "wide": 0}
    yield "e4m3", 128, False, {"bn": 128, "consumers": 2, "stages": 2, "overlap": 1, "turns": 1, "promoted": 1, "wide": 64}


def rows() -> Iterator[dict[str, object]]:
    """Both lengths of all that fit and compile without a note and without spilling."""
    for kind, d, causal, asked in wanted():
        for length in LENGTHS:
            cell = attention.Cell(d, causal, length, kind)
            choice = next((one for one in attention.possible(cell) if all(getattr(one, name) == value for name, value in asked.items())), None)
            try:
                if choice is not None and not attention.launched(cell, choice).kernel.use.spill_stores:
                    yield {"d": d, "causal": causal, "length": length, "type": kind, "named": " ".join(choice.named)}
            except HopperlabError:
                continue


def configuration(row: Row) -> tuple[Any, ...]:
    """What both lengths have alike."""
    return row["type"], row["d"], row["causal"], row["named"]


def parts(found: list[Row], cycles: Callable[[Row], float | None]) -> dict[tuple[Any, ...], tuple[float, float]]:
    """(cycles of a block, cycles of a tile beside its blocks) of what has both lengths. cycles: of a launch; None: not known."""
    known: dict[tuple[Any, ...], list[tuple[float, float]]] = {}
    for row in found:
        (cell, choice), took = attention.asked(dict(row)), cycles(row)
        tiles = math.ceil(cell.length / (64 * choice.consumers))
        ends = [min(cell.length, (tile + 1) * 64 * choice.consumers) if cell.causal else cell.length for tile in range(tiles)]
        each = sum(math.ceil(end / choice.bn) for end in ends) / tiles
        on_an_sm = attention.TOKENS // cell.length * (attention.HIDDEN // cell.d) * tiles / SMS
        if took is not None:
            known.setdefault(configuration(row), []).append((each, (took - BEGUN) / on_an_sm))
    both = {name: sorted(two) for name, two in known.items() if len(two) == len(LENGTHS)}
    block = {name: (long[1] - short[1]) / (long[0] - short[0]) for name, (short, long) in both.items()}
    return {name: (block[name], short[1] - block[name] * short[0]) for name, (short, _) in both.items()}


def estimated(row: Row, board: boards.Board) -> float | None:
    """The model's cycles of a launch; None where there is no estimate."""
    try:
        return simulate(attention.sampled(dict(row)), board).cycles
    except HopperlabError:
        return None


def main() -> None:
    """Count, or print both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], prog="python -m benchmarks.blocks_and_tiles")
    parser.add_argument("board", nargs="?", choices=tuple(boards.TITLES), help="whose counts are held against the model")
    parser.add_argument("--count", action="store_true", help="count on this machine's GPU with ncu")
    told = parser.parse_args()
    if told.count:
        draw = f"{PAIRS}/{boards.default()}"
        write(FOLDER / f"{draw}.json", list(rows()))
        write(COUNTED / f"{draw}.json", counted(draw))
        print(COUNTED / f"{draw}.json")
        return
    path = COUNTED / PAIRS / f"{told.board}.json"
    if told.board is None or not path.is_file():
        parser.error(f"no counts of an {told.board.upper()}: --count takes them on one" if told.board else "name a board whose counts are stored, or --count")
    found: list[Row] = list(rows_of(path))
    for name, (block, tile) in parts(found, lambda row: float(row["cycles"])).items():
        for other, beside in parts([row for row in found if configuration(row) == name], lambda row: estimated(row, boards.board(told.board))).values():
            where = f"{name[0]} D={name[1]} {'causal' if name[2] else 'full'} {name[3]}"
            print(f"block {block:6.0f} {other - block:+6.0f}  tile {tile:6.0f} {beside - tile:+6.0f}  {where}", flush=True)


if __name__ == "__main__":
    main()
