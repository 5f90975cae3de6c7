# SPDX-License-Identifier: Apache-2.0
"""The searches of fp8 products and of attention over short sequences, the recordings `search_fp8` and `search_attention`: `hopperlab bench search`.

At random shapes, which are others than those that judge, the configurations that a choice is made from are checked and timed in turns beside the peer.
"""
from __future__ import annotations

import sys
from collections.abc import Callable

from ..launches.attention import LONG
from ..launches.random_cells import Cell, random_cells
from ..launches.random_shapes import fp8_shapes
from ..machine.peers import installed
from ..recordings import Record, Recording
from ...runtime.tables import text_table
from .. import summaries
from . import race, race_attention, race_fp8
from .report import Progress

SEED, COUNT, CELLS = 202611261, 40, 160 # products and cells of attention for fitting; a recording that judges has another seed
METHOD = race.METHOD + "; every configuration in turns with the choice (`final`) and the peer at each shape, the note names it"
Keep = Callable[[list[Record]], object]


def short_cells(count: int, seed: int) -> list[tuple[int, ...]]:
    """Cells of sequences shorter than LONG, all of one length, as peers take them."""
    cells = (cell for cell in map(Cell.of, random_cells(20 * count, seed)) if cell.even and cell.lengths[0] < LONG)
    return [cell.numbers for cell, _ in zip(cells, range(count), strict=False)]


def attention(rounds: int, keep: Keep = lambda records: None) -> list[Record]:
    """Configurations for short sequences beside cuDNN."""
    return _searched(race_attention.RACES, short_cells(CELLS, SEED), rounds, keep)


def fp8(rounds: int, keep: Keep = lambda records: None) -> list[Record]:
    """Configurations of fp8 products that their model ranks first beside cuBLASLt."""
    return _searched(race_fp8.RACES, fp8_shapes(COUNT, SEED), rounds, keep)


def _searched(races: race.Races, shapes: list[tuple[int, ...]], rounds: int, keep: Keep) -> list[Record]:
    import cupy
    kernels, peers = ("tried", "final"), tuple(installed(races.peers))[:1]
    plan, records = race.Plan(rounds, (race.COLD,), 0), []
    with Progress(len(shapes) + 1) as progress:
        progress.step(f"{races.name}: compiling for {len(shapes)} shapes")
        races.ahead(shapes, kernels)
        for shape in shapes:
            progress.step(races.title(shape))
            try:
                records += race.run(races.race(shape, kernels, peers), plan)
            except race.WrongResult as problem:
                print(problem, file=sys.stderr)
            keep(records)
            cupy.get_default_memory_pool().free_all_blocks()
    return records


def shown(recording: Recording) -> str:
    """A line a shape: the fastest configuration and the choice beside the peer, in us and as ratios; then their means."""
    rows, bests, picks = [], [], []
    for place in dict.fromkeys(where(record) for record in recording):
        found = [record for record in recording if where(record) == place]
        tried = sorted((record for record in found if record.kernel == "tried"), key=lambda record: record.ms or 0)
        final, best = next(record for record in found if record.kernel == "final"), tried[0]
        rows.append((place, round(1e3 * (best.ms or 0), 1), round(1e3 * (final.ms or 0), 1), best.ratio or 0.0, final.ratio or 0.0, best.note))
        if best.ratio is not None and final.ratio is not None:
            bests.append(best.ratio)
            picks.append(final.ratio)
    lines = text_table("  {:>44} {:8.1f} {:8.1f}  {:.3f}  {:.3f}  {}", rows, ("shape", "best us", "final us", "best", "final", "the best"))
    return "\n".join([*lines, f"of the peer: the best {summaries.summary(bests)}, the choice {summaries.summary(picks)}"])


def where(record: Record) -> str:
    """What tells a shape from others in a record of either search."""
    cell = [option for option in record.options if option in ("full", "causal") or option.startswith(("KV_HEADS=", "TOKENS="))]
    return " ".join(["x".join(map(str, record.shape)), *cell])
