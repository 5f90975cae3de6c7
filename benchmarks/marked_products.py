# SPDX-License-Identifier: Apache-2.0
"""Where the time of a drawn product goes: marks of the clock in gemm/final.cu, by phase, and the clock itself (docs/estimates.md, Errors).

    python -m benchmarks.marked_products h200_2026112947               rows of a draw at 2048 and 3072 cubed, a minute on a Hopper GPU
    python -m benchmarks.marked_products h200_2026112945 --rows 3 12   some of them, by their numbers from 0

Of each launch: microseconds between events; cycles from a consumer's first instruction to its first k-block (mean over all, and the last one's), in k loops, for a
tile's sums that it sends, for those that it adds, and for a tile that it stores (mean of each); cycles in all (mean, and the last one's); the clock in the launch's
first 56 us and after them. Launches of a size are interleaved, the L2 cold. Launches with marks take
1.5 per cent longer than without (the middle one of 22 beside h200_2026112953, at most 8.5).
"""
from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from hopperlab.measure.launches import gemm
from hopperlab.measure.launches.gemm_configurations import choice_named
from hopperlab.runtime import library

from . import marks
from .counted_draws import rows_of
from .drawn_estimates import FOLDER

SOURCE, SIZES, ROUNDS, KEPT = "gemm/final.cu", (2048, 3072), 12, 4
MOST, EARLY = 96, 56_000                     # marks of a warpgroup; ns until power is looked at
BEGINS, FIRST, MULTIPLIED, SENT, ASKS, ADDED, STORED, ENDS = range(8)
DECLARED = f"""
__device__ long long mark_cycles[132 * 4 * {MOST}], mark_ns[132 * 4 * {MOST}];
#define MARK(what) do {{ if (threadIdx.x % 128 == 0 && marked < {MOST}) {{ \\
    int place = ((blockIdx.y * gridDim.x + blockIdx.x) % 132 * 4 + threadIdx.x / 128) * {MOST} + marked++; \\
    mark_cycles[place] = clock64() * 8 + what; \\
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(mark_ns[place])); }} }} while (0)
"""
PLACES = (
    ('extern "C" __global__ void', DECLARED + 'extern "C" __global__ void'),
    ("int warpgroup = threadIdx.x / 128, rank", f"int marked = 0; MARK({BEGINS}); int warpgroup = threadIdx.x / 128, rank"),
    ("mbarrier_wait_parity(&full[ring.slot], ring.phase);", f"mbarrier_wait_parity(&full[ring.slot], ring.phase); if (i == 0) MARK({FIRST});"),
    ("if (IN_FLIGHT) wgmma_wait_group<0>();", f"if (IN_FLIGHT) wgmma_wait_group<0>(); MARK({MULTIPLIED});"),
    ("d, 1 + me);\n                continue;", f"d, 1 + me); MARK({SENT});\n                continue;"),
    ("mail_add(mail +", f"MARK({ASKS}); mail_add(mail +"),
    ("done = schedule.begin_of(other + 1)", f"MARK({ADDED}); done = schedule.begin_of(other + 1)"),
    ("row0, col0, high, wide);\n            } else", f"row0, col0, high, wide); MARK({STORED});\n            }} else"),
    ("// shared memory outlives its readers", f"\n        MARK({ENDS});"))


def marked() -> str:
    """The kernel's source with its marks."""
    text = library.original(SOURCE)
    for before, after in PLACES:
        if text.count(before) < 1:
            raise LookupError(f"{SOURCE} has no {before!r} any more")
        text = text.replace(before, after, 1)
    return text


def timed(rows: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], list[float], list[np.ndarray], list[np.ndarray]]]:
    """(row, us, cycles and kinds of marks, their ns) of the last rounds of each."""
    import cupy

    from hopperlab.measure.launches.operands import normal_bf16
    found = []
    for size, group in itertools.groupby(rows, key=lambda row: int(row["size"])):
        some, launches = list(group), []
        a, b, c = normal_bf16(cupy, (size, size), 1), normal_bf16(cupy, (size, size), 2), cupy.empty((size, size), cupy.uint16)
        turned = cupy.ascontiguousarray(b.T).T
        for row in some:
            choice = choice_named(row["named"].split())
            with library.standing_in(SOURCE, marked()):
                launch = gemm.final(a, turned if choice.b_mn else b, c, choice)
            launches.append((launch, [cupy.ndarray((132, 4, MOST), cupy.int64, launch.kernel.module.get_global(name)) for name in ("mark_cycles", "mark_ns")]))
        found += [(row, us, cycles, ns) for row, (us, (cycles, ns)) in zip(some, marks.timed(launches, ROUNDS, KEPT), strict=True)]
    return found


def told(row: dict[str, Any], us: Sequence[float], cycles: Sequence[np.ndarray], ns: Sequence[np.ndarray]) -> str:
    """A launch's line."""
    phases: dict[int, list[float]] = {kind: [] for kind in range(8)}
    total, early, late = [], [], []
    for at, when in zip(np.concatenate(cycles).reshape(-1, MOST), np.concatenate(ns).reshape(-1, MOST), strict=True):
        count = int((at != 0).sum())
        kinds, steps = at[:count] % 8, at[:count] // 8
        if ENDS not in kinds:                                     # a producer, or an SM without work
            continue
        phases[BEGINS].append(steps[1] - steps[0])
        total.append(steps[-1] - steps[0])
        phases[MULTIPLIED].append(sum(steps[k] - steps[k - 1] for k in range(1, count) if kinds[k] == MULTIPLIED))
        for k in range(1, count):
            if kinds[k] in (SENT, ADDED, STORED):
                phases[int(kinds[k])].append(steps[k] - steps[k - 1])
            if when[k] - when[k - 1] > 4000:                      # ns: long enough for a clock
                (early if when[k] - when[0] < EARLY else late).append((steps[k] - steps[k - 1]) / (when[k] - when[k - 1]) * 1e3)
    first, multiplied, sent, added, stored = (float(np.mean(phases[kind] or [0])) for kind in (BEGINS, MULTIPLIED, SENT, ADDED, STORED))
    clocks = " then ".join(f"{np.mean(some):.0f}" for some in (early, late) if some)
    return (f"{row['size']} {np.median(us):6.1f} us  first {first:5.0f} ({max(phases[BEGINS]):.0f}), k {multiplied:6.0f}, sent {sent:5.0f}, added {added:5.0f}, "
            f"stored {stored:5.0f}, all {np.mean(total):6.0f} ({max(total):.0f})  {clocks} MHz  {row['named']}")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], prog="python -m benchmarks.marked_products")
    parser.add_argument("draw", help="one of benchmarks/drawn, as BOARD_SEED")
    parser.add_argument("--rows", nargs="+", type=int, metavar="N", help="rows of it (default: all of 2048 and 3072 cubed)")
    asked = parser.parse_args()
    path = FOLDER / f"{asked.draw}.json"
    if not path.is_file():
        parser.error(f"no draw {asked.draw!r}: there are {', '.join(sorted(known.stem for known in FOLDER.glob('*.json')))}")
    rows = rows_of(path)
    if asked.rows and not all(0 <= number < len(rows) for number in asked.rows):
        parser.error(f"rows are 0 to {len(rows) - 1}")
    some: list[dict[str, Any]] = [rows[number] for number in sorted(asked.rows)] if asked.rows else [row for row in rows if row["size"] in SIZES]
    for row, us, cycles, ns in timed(some):
        print(told(row, us, cycles, ns), flush=True)


if __name__ == "__main__":
    main()
