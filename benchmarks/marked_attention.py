# SPDX-License-Identifier: Apache-2.0
"""Where the time of drawn attention goes: marks of the clock in attention/forward.cu, by what a consumer does in a tile (docs/estimates.md, Errors).

    python -m benchmarks.marked_attention h200_2026112954                      bf16 rows of a draw with sequences of 600 or less, a minute on a Hopper GPU
    python -m benchmarks.marked_attention h200_2026112954 --longest 1024       or of 1024

Of each launch: microseconds between events, then cycles of a tile, on average over consumers and their tiles but the first and the last: until it has q, waits for keys,
for its turn and for values, what is between those, the epilogue, until the slot of q is handed back, until the next tile is known; and in all. Launches are
interleaved, the L2 cold.
"""
from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from hopperlab.runtime import library

from . import drawn_attention, marks
from .counted_draws import rows_of

SOURCE, LONGEST, ROUNDS, KEPT = "attention/forward.cu", 600, 10, 3
MOST, CTAS = 2048, 396                                       # marks of a warpgroup; CTAs that are marked
TILE, HAS_Q, ASKS_K, HAS_K, TURN, ASKS_V, HAS_V, DONE, STORED, SETTLED = range(10)
NAMES = {HAS_Q: "q", HAS_K: "keys", TURN: "turn", HAS_V: "values", STORED: "epilogue", SETTLED: "settles", TILE: "next"}
DECLARED = f"""
__device__ long long mark_cycles[{CTAS} * 4 * {MOST}];
#define MARK(what) do {{ if (threadIdx.x % 128 == 0 && marked < {MOST}) {{ \
    int place = (blockIdx.x % {CTAS} * 4 + threadIdx.x / 128) * {MOST} + marked++; \
    mark_cycles[place] = clock64() * 16 + what; }} }} while (0)
"""
PLACES = (
    (r'extern "C" __global__ void', DECLARED.replace("\\", r"\\") + r'extern "C" __global__ void'),
    (r"(int warpgroup = threadIdx\.x / 128)", r"int marked = 0; \1"),
    (r"(Work work = work_at\(index\);\n\s+if \(!work\.blocks)", rf"MARK({TILE}); \1"),
    (r"(mbarrier_wait_parity\(&q_full\[[^;]*;)", rf"\1 MARK({HAS_Q});"),
    (r"(mbarrier_wait_parity\(&k_full\[ring\.slot\], ring\.phase\);)(\n\s+my_turn\(\);)(\n\s+trace)", rf"MARK({ASKS_K}); \1 MARK({HAS_K});\2 MARK({TURN});\3"),
    (r"(mbarrier_wait_parity\(&v_full\[[^;]*;)(\n\s+trace)", rf"MARK({ASKS_V}); \1 MARK({HAS_V});\2"),
    (r"(float whole\[2\])", rf"MARK({DONE}); \1"),
    (r"(owed = owed \|\| work\.blocks;)", rf"MARK({STORED}); \1"),
    (r"(if \(Q_SLOTS == 1\) settle\(\);[^\n]*)", rf"{{ \1\n MARK({SETTLED}); }}"))


def marked() -> str:
    """The kernel's source with its marks."""
    text = library.original(SOURCE)
    for before, after in PLACES:
        text, count = re.subn(before, after, text)
        if not count:
            raise LookupError(f"{SOURCE} has no {before!r} any more")
    return text


def timed(rows: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], list[float], list[np.ndarray]]]:
    """(row, us, cycles and kinds of marks) of the last rounds of each."""
    import cupy

    from hopperlab.measure.suites import attention as suite
    found = []
    for cell, group in itertools.groupby(rows, key=lambda row: drawn_attention.asked(row)[0]):
        lengths, heads = [cell.length] * (drawn_attention.TOKENS // cell.length), drawn_attention.HIDDEN // cell.d
        given, some, launches = suite.operands(lengths, lengths, heads, heads, cell.d), list(group), []
        for row in some:
            with library.standing_in(SOURCE, marked()):
                launch = suite.make(given, cell.causal, drawn_attention.asked(row)[1])
            launches.append((launch, [cupy.ndarray((CTAS * 4, MOST), cupy.int64, launch.kernel.module.get_global("mark_cycles"))]))
        found += [(row, us, cycles) for row, (us, (cycles,)) in zip(some, marks.timed(launches, ROUNDS, KEPT), strict=True)]
    return found


def phases(cycles: Sequence[np.ndarray]) -> dict[str, float]:
    """Cycles of a tile by what a consumer does in it, and of all of it."""
    sums, tiles = dict.fromkeys([*NAMES.values(), "between", "all"], 0.0), 0
    for line in np.concatenate(cycles):
        stood = line[line != 0]
        kinds, steps = stood % 16, stood // 16
        starts = np.flatnonzero(kinds == TILE)
        if len(starts) < 4:
            continue
        first, last = starts[1], starts[-1]
        tiles += len(starts) - 2
        sums["all"] += float(steps[last] - steps[first])
        for k in range(first + 1, last + 1):
            sums[NAMES.get(int(kinds[k]), "between")] += float(steps[k] - steps[k - 1])
    return {name: count / max(1, tiles) for name, count in sums.items()}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], prog="python -m benchmarks.marked_attention")
    parser.add_argument("draws", nargs="+", metavar="DRAW", help="of benchmarks/drawn/attention, as BOARD_SEED")
    parser.add_argument("--longest", type=int, default=LONGEST, help=f"sequences of so many or less (default {LONGEST})")
    asked = parser.parse_args()
    rows = []
    for name in asked.draws:
        path = drawn_attention.FOLDER / f"{name}.json"
        if not path.is_file():
            parser.error(f"no draw {name!r}: there are {', '.join(sorted(known.stem for known in drawn_attention.FOLDER.glob('*.json')))}")
        rows += [row for row in rows_of(path) if row["type"] == "bf16" and int(str(row["length"])) <= asked.longest]
    for row, us, cycles in timed(rows):
        said = ", ".join(f"{name} {count:.0f}" for name, count in phases(cycles).items())
        print(f"{row['d']} {'causal' if row['causal'] else 'full'} {row['length']} {np.median(us):6.1f} us (draw {row['us']})  {said}  {row['named']}", flush=True)


if __name__ == "__main__":
    main()
