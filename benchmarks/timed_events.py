# SPDX-License-Identifier: Apache-2.0
"""What a block does when: a few marks in gemm/warp_specialized.cu on a Hopper GPU beside the estimated times of the kernel (docs/estimates.md, Errors).

    python -m benchmarks.timed_events --draw SEED             draw eight shapes, time them on this machine's Hopper GPU and store them: half a minute
    python -m benchmarks.timed_events h200_2026113095 ...     judge what was drawn: no GPU

Of each launch, in nanoseconds, as the middle one of its first blocks (one for each SM): from the first load's issue to the first product, a k-block (the loop over k by
their number), the stores of a tile, and the block from the first issue on. Four marks a warp: those that the kernel has in its loops would make a k-block much longer
(lesson 10 says by how much).
"""
from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hopperlab.estimates import boards, emulating
from hopperlab.measure import timelines
from hopperlab.measure.launches.launch import Launch, warp_specialized
from hopperlab.runtime import library
from hopperlab.runtime.tables import text_table

FOLDER, COUNT, BEFORE, SMS = Path(__file__).parent / "drawn" / "events", 8, 2, 132
EVENTS = "first product", "k-block", "stores", "block"
SOURCE = "gemm/warp_specialized.cu"
FEWER = (("trace.begin(TRACE_WAIT, i);", ""), ("trace.end(TRACE_WAIT, i);", ""), ("trace.mark(TRACE_ISSUE, i);", "if (i == 0) trace.mark(TRACE_ISSUE);"),
         ("trace.begin(TRACE_MMA, i);", "if (i == 0) trace.begin(TRACE_MMA);"), ("trace.end(TRACE_MMA, i);", "if (i == k_tiles - 1) trace.end(TRACE_MMA);"))


def drawn(seed: int) -> Iterator[tuple[int, int, int]]:
    """m, n, k: one wave of tiles or several, four k-blocks or many."""
    rng = np.random.default_rng(seed)
    for _ in range(COUNT):
        yield 8 * int(rng.integers(64, 400)), 8 * int(rng.integers(64, 400)), 8 * int(rng.integers(32, 400))


def events(rows: timelines.KernelTimeline, k_blocks: int, scale: float = 1.0) -> dict[str, float]:
    """The middle one of all consumers, by EVENTS. scale: nanoseconds of the timeline's unit."""
    found: dict[str, list[float]] = {event: [] for event in EVENTS}
    for block in sorted({row.block for row in rows}):
        own = [row for row in rows if row.block == block]
        issued = min(row.start for row in own if row.event == "issue")
        for warp in (4, 8):
            mma, store = ([row for row in own if row.warp == warp and row.event == event] for event in ("mma", "store"))
            found["first product"].append(mma[0].start - issued)
            found["k-block"].append((mma[-1].end - mma[0].start) / k_blocks)
            found["stores"].append(store[-1].end - store[0].start)
            found["block"].append(store[-1].end - issued)
    return {event: scale * float(np.median(some)) for event, some in found.items()}


def marked() -> str:
    """The kernel's source with fewer marks."""
    text = library.original(SOURCE)
    for before, after in FEWER:
        if before not in text:
            raise LookupError(f"{SOURCE} has no {before!r} any more")
        text = text.replace(before, after)
    return text


def made(shape: Sequence[int], xp: Any, backend: str | None = None) -> Launch:
    """The product, of random numbers on a GPU and of zeros in the emulator."""
    m, n, k = shape
    from hopperlab.measure.launches.operands import normal_bf16
    sizes = (m, k), (n, k)
    a, b = (xp.zeros(size, np.uint16) if xp is np else normal_bf16(xp, size, seed) for seed, size in enumerate(sizes))
    return warp_specialized(a, b, xp.zeros((m, n), np.uint16), backend=backend)


def measured(shape: Sequence[int]) -> dict[str, float]:
    """On this GPU, the L2 cold."""
    import cupy
    with library.standing_in(SOURCE, marked()):
        launch, flush = made(shape, cupy), cupy.empty(1 << 27, cupy.uint32)
    for turn in range(BEFORE + 1):
        flush.fill(turn)
        found = timelines.timeline(launch.kernel, launch.grid, launch.block, launch.args, shared_mem=launch.shared_mem)
    return events(found.only(sorted({row.block for row in found})[:SMS]), -(-shape[2] // 64))


def estimated(shape: Sequence[int], board: str) -> dict[str, float]:
    """By the estimate, without marks."""
    return events(emulating.times_of(made(shape, np, "emulator"), board).timeline("us"), -(-shape[2] // 64), 1e3)


def judged(names: Sequence[str]) -> list[str]:
    """Lines: of each launch and event measured, estimated and by how many per cent it is off, and the mean of each event."""
    lines, errors = [], {event: list[float]() for event in EVENTS}
    for name in names:
        rows = []
        for row in json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["rows"]:
            guess = estimated(row["shape"], name.partition("_")[0])
            for event in EVENTS:
                errors[event].append(guess[event] / row["ns"][event] - 1 if row["ns"][event] else 0.0)
            rows.append(("x".join(map(str, row["shape"])), *(f"{row['ns'][event]:.0f} {guess[event]:.0f}" for event in EVENTS)))
        lines += [name, *text_table("{:<*}" + "  {:>*}" * len(EVENTS), rows, ("m x n x k", *(f"{event}, ns" for event in EVENTS)))]
    return [*lines, *(f"{event}: {np.mean(some):+.0%} on average, {np.mean(np.abs(some)):.0%} off" for event, some in errors.items())]


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], prog="python -m benchmarks.timed_events")
    parser.add_argument("draws", nargs="*", help="of benchmarks/drawn/events, as BOARD_SEED (default: all)")
    parser.add_argument("--draw", type=int, metavar="SEED", help="draw and time eight on this machine's GPU, and store them")
    asked = parser.parse_args()
    if asked.draw is None:
        names = asked.draws or sorted(path.stem for path in FOLDER.glob("*.json"))
        missing = [name for name in names if not (FOLDER / f"{name}.json").is_file()]
        if missing:
            parser.error(f"no draw {missing[0]!r}: there are {', '.join(sorted(path.stem for path in FOLDER.glob('*.json'))) or 'none'}")
        print("\n".join(judged(names)))
        return 0
    from hopperlab.measure.machine import here
    if (why := here.no_gpu()) is not None:
        print(why, file=sys.stderr)
        return 2
    rows = [{"shape": shape, "ns": {event: round(ns, 1) for event, ns in measured(shape).items()}} for shape in drawn(asked.draw)]
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{boards.board(None).name}_{asked.draw}.json"
    path.write_text('{"rows": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]}\n", encoding="utf-8")
    print(f"{len(rows)} launches in {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
