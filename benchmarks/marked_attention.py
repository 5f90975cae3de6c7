# SPDX-License-Identifier: Apache-2.0
"""Where the time of drawn attention goes: marks of the clock in attention/forward*.cu, by what a consumer does in a tile (docs/estimates.md, Errors).

    python -m benchmarks.marked_attention h200_2026112954                      rows of a draw with sequences of 600 or less, a minute on a Hopper GPU
    python -m benchmarks.marked_attention h200_2026112954 --longest 1024       or of 1024
    python -m benchmarks.marked_attention h200_2026112966 --only e4m3 D=256    rows whose type, head size (D=) and macros are these
    python -m benchmarks.marked_attention h200_2026112966 --tiles              by the blocks that a tile has, with four marks a tile, which cost 1 per cent
    python -m benchmarks.marked_attention h200_2026113025 --alike --last       the CTAs that end last, tile after tile
    python -m benchmarks.marked_attention h200_2026112999 --alike --tiles      launches of any size (benchmarks/drawn/sequences_alike) that take less than 60 us

Of each launch: microseconds between events, then cycles of a tile, on average over consumers and their tiles but the first and the last: until it has q, waits for keys,
for its turn and for values, what is between those, the epilogue, until the slot of q is handed back, until the next tile is known; and in all. In e4m3 also, and not
in `between`: until it has scores, their softmax, until values are multiplied. Launches are interleaved, the L2 cold. A mark takes 60 to 100 cycles.
"""
from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hopperlab.runtime import library

from . import drawn_attention, drawn_sequences, marks
from .counted_draws import rows_of

SOURCES = {"bf16": "attention/forward.cu", "e4m3": "attention/forward_fp8.cu"}
LONGEST, ROUNDS, KEPT = 600, 10, 3
SHORT = 60.0                                                 # us, of launches of any size
MOST, CTAS = 2048, 396                                       # marks of a warpgroup; CTAs that are marked
TILE, HAS_Q, ASKS_K, HAS_K, TURN, ASKS_V, HAS_V, DONE, STORED, SETTLED, SCORED, WORKED, VALUED = range(1, 14)
NAMES = {HAS_Q: "q", HAS_K: "keys", TURN: "turn", SCORED: "scores", WORKED: "softmax", HAS_V: "values", VALUED: "multiplied", STORED: "epilogue", SETTLED: "settles",
         TILE: "next"}
KIND = 16                                                    # a mark: the clock in 32 bits, then blocks of the tile and what it marks
DECLARED = f"""
__device__ uint2 mark_cycles[{CTAS} * 4 * {MOST}];
#define MARK_OF(what, blocks) do {{ if (mark_here && marked < {MOST}) mark_at[marked++] = make_uint2(clock(), (blocks) * {KIND} + (what)); }} while (0)
#define MARK(what) MARK_OF(what, 0)
"""
BEGUN = rf"""int marked = 0, mark_here = threadIdx.x % 128 == 0;
    uint2* mark_at = mark_cycles + (blockIdx.x % {CTAS} * 4 + threadIdx.x / 128) * {MOST};
    \1"""
TILES = (
    (r'extern "C" __global__ void', DECLARED.replace("\\", r"\\") + r'extern "C" __global__ void'),
    (r"(int warpgroup = threadIdx\.x / 128)", BEGUN),
    (r"(Work work = work_at\(index\);\n\s+)(if \([^\n]*continue)", rf"\1 MARK_OF({TILE}, work.blocks); \2"),
    (r"(mbarrier_wait_parity\(&?q_full[^;]*;)(?=\n\s+q)", rf"\1 MARK({HAS_Q});"),
    (r"(float whole\[2\])", rf"MARK({DONE}); \1"))
BLOCK_BY_BLOCK = (
    (r"(mbarrier_wait_parity\(&k_full\[ring\.slot\], ring\.phase\);)(\n\s+my_turn\(\);)(\n\s+(?:trace|scores))", rf"MARK({ASKS_K}); \1 MARK({HAS_K});\2 MARK({TURN});\3"),
    (r"(mbarrier_wait_parity\(&vt?_full\[[^;]*;)(\n\s+(?:trace|values))", rf"MARK({ASKS_V}); \1 MARK({HAS_V});\2"))
WHAT_BF16 = (r"(if \(Q_SLOTS == 1\) settle\(\);[^\n]*)", rf"{{ \1\n MARK({SETTLED}); }}")
WHAT_E4M3 = (
    (r"(wgmma_wait_group<[01]>\(\);)(\n\s+release\(&k_empty)", rf"\1 MARK({SCORED});\2"),
    (r"(finish_values\((?:before|ring\.slot), \w+\);)", rf"MARK({WORKED}); \1 MARK({VALUED});"))
TILES_OF = {"bf16": (*TILES, (r"(owed = owed \|\| work\.blocks;)", rf"MARK({STORED}); \1")),
            "e4m3": (*TILES, (r"(if \(y < work\.queries\) [^\n]*\n\s+\})", rf"\1\n MARK({STORED});"))}
PLACES = {"bf16": (*TILES_OF["bf16"], *BLOCK_BY_BLOCK, WHAT_BF16), "e4m3": (*TILES_OF["e4m3"], *BLOCK_BY_BLOCK, *WHAT_E4M3)}


def marked(kind: str, tiles_only: bool = False) -> str:
    """A kernel's source with its marks."""
    text = library.original(SOURCES[kind])
    for before, after in (TILES_OF if tiles_only else PLACES)[kind]:
        text, count = re.subn(before, after, text)
        if not count:
            raise LookupError(f"{SOURCES[kind]} has no {before!r} any more")
    return text


def taken(path: Path, longest: int, only: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Rows of a draw with sequences of `longest` or less that are all of `only`: a type, D=head size, names of macros with their values."""
    return [row for row in rows_of(path) if int(str(row["length"])) <= longest
            and set(only) <= {str(row["type"]), f"D={row['d']}", *str(row["named"]).split()}]


def marks_of(launch: Any) -> list[Any]:
    """Where the marks of a launch are written."""
    import cupy

    return [cupy.ndarray((CTAS * 4, MOST), cupy.int64, launch.kernel.module.get_global("mark_cycles"))]


def timed_alike(rows: Sequence[dict[str, Any]], tiles_only: bool = False) -> list[tuple[dict[str, Any], list[float], list[np.ndarray]]]:
    """The same as `timed` of rows of drawn_sequences, one after the other."""
    found = []
    for row in rows:
        with library.standing_in(SOURCES[row["type"]], marked(row["type"], tiles_only)):
            launch = drawn_sequences.on_gpu(row)
        (us, (cycles,)), = marks.timed([(launch, marks_of(launch))], ROUNDS, KEPT)
        told = {"d": row["d"], "causal": row["causal"], "type": row["type"], "us": row["us"], "named": f"{row['heads']} heads of {row['lengths']}"}
        found.append(({**told, "length": row["lengths"][0]}, us, cycles))
    return found


def timed(rows: Sequence[dict[str, Any]], tiles_only: bool = False) -> list[tuple[dict[str, Any], list[float], list[np.ndarray]]]:
    """(row, us, cycles and kinds of marks) of the last rounds of each."""
    from hopperlab.measure.suites import attention, attention_fp8
    found = []
    for cell, group in itertools.groupby(rows, key=lambda row: drawn_attention.asked(row)[0]):
        lengths, heads = [cell.length] * (drawn_attention.TOKENS // cell.length), drawn_attention.HIDDEN // cell.d
        suite = attention if cell.kind == "bf16" else attention_fp8
        given, some, launches = suite.operands(lengths, lengths, heads, heads, cell.d), list(group), []
        for row in some:
            with library.standing_in(SOURCES[cell.kind], marked(cell.kind, tiles_only)):
                launch = suite.make(given, cell.causal, drawn_attention.asked(row)[1])
            launches.append((launch, marks_of(launch)))
        found += [(row, us, cycles) for row, (us, (cycles,)) in zip(some, marks.timed(launches, ROUNDS, KEPT), strict=True)]
    return found


def read(line: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of a warpgroup's marks: what they mark, blocks of the tile (where it begins), and cycles since the first."""
    stood = line[line != 0]
    clock = (stood & 0xFFFFFFFF).astype(np.uint32)
    steps = np.cumsum(np.diff(clock, prepend=clock[:1]).astype(np.int64))          # the clock begins anew after 2 ** 32
    return (stood >> 32) % KIND, (stood >> 32) // KIND, steps


def phases(cycles: Sequence[np.ndarray]) -> dict[str, float]:
    """Cycles of a tile by what a consumer does in it, and of all of it."""
    sums, tiles = dict.fromkeys([*NAMES.values(), "between", "all"], 0.0), 0
    for line in np.concatenate(cycles):
        kinds, _, steps = read(line)
        starts = np.flatnonzero(kinds == TILE)
        if len(starts) < 4:
            continue
        first, last = starts[1], starts[-1]
        tiles += len(starts) - 2
        sums["all"] += float(steps[last] - steps[first])
        for k in range(first + 1, last + 1):
            sums[NAMES.get(int(kinds[k]), "between")] += float(steps[k] - steps[k - 1])
    return {name: count / max(1, tiles) for name, count in sums.items()}


def tiles(cycles: Sequence[np.ndarray]) -> list[tuple[bool, int, int, float, float, float]]:
    """Alike tiles: whether a warpgroup's first ones, their blocks, their count, and cycles until it has q, until the last block is done and until the next tile; where
    a warpgroup has one alone, until that is stored."""
    found: dict[tuple[bool, int], list[tuple[float, float, float]]] = {}
    for line in np.concatenate(cycles):
        kinds, blocks, steps = read(line)
        starts = np.flatnonzero(kinds == TILE)
        for number, (start, end) in enumerate(itertools.pairwise(starts if len(starts) > 1 else [*starts, len(kinds) - 1])):
            at = dict(zip(kinds[start:end].tolist(), steps[start:end].tolist(), strict=True))
            if HAS_Q in at and DONE in at:
                found.setdefault((number == 0, int(blocks[start])), []).append((at[HAS_Q] - steps[start], at[DONE] - at[HAS_Q], steps[end] - at[DONE]))
    return [(*key, len(each), *np.mean(each, axis=0).tolist()) for key, each in sorted(found.items(), key=lambda one: (not one[0][0], one[0][1]))]


def last(cycles: Sequence[np.ndarray]) -> list[tuple[int, int, list[tuple[int, list[int]]]]]:
    """Of the last round, the CTA that ends last and the middle one: (CTA, warpgroup, tiles), of each tile its blocks and, in cycles since the warpgroup knew its first
    one, when it begins, has q, is done with the last block and is stored; 0 for what it had not."""
    found: dict[int, list[tuple[int, int, list[tuple[int, list[int]]]]]] = {}
    ends: dict[int, int] = {}
    for number, line in enumerate(cycles[-1]):
        kinds, blocks, steps = read(line)
        starts = np.flatnonzero(kinds == TILE)
        if not len(starts):
            continue
        told = []
        for start, end in itertools.pairwise([*starts, len(kinds)]):
            at = dict(zip(kinds[start:end].tolist(), steps[start:end].tolist(), strict=True))
            told.append((int(blocks[start]), [int(at.get(kind, 0)) for kind in (TILE, HAS_Q, DONE, STORED)]))
        found.setdefault(number // 4, []).append((number // 4, number % 4, told))
        ends[number // 4] = max(ends.get(number // 4, 0), int(steps[-1]))
    order = sorted(ends, key=lambda cta: -ends[cta])
    return [one for cta in dict.fromkeys((order[0], order[len(order) // 2])) for one in found[cta]] if order else []


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], prog="python -m benchmarks.marked_attention")
    parser.add_argument("draws", nargs="+", metavar="DRAW", help="of benchmarks/drawn/attention, as BOARD_SEED")
    parser.add_argument("--longest", type=int, default=LONGEST, help=f"sequences of so many or less (default {LONGEST})")
    parser.add_argument("--only", nargs="+", default=(), metavar="WHAT", help="rows of this type (bf16, e4m3), head size (D=256) and macros (BN=64)")
    parser.add_argument("--alike", action="store_true", help=f"draws of benchmarks/drawn/sequences_alike, launches of less than {SHORT:.0f} us")
    parser.add_argument("--tiles", action="store_true", help="by the blocks that a tile has")
    parser.add_argument("--last", action="store_true", help="of the CTA that ends last, and of the middle one, each tile")
    asked = parser.parse_args()
    rows, folder = [], drawn_sequences.ALIKE if asked.alike else drawn_attention.FOLDER
    for name in asked.draws:
        path = folder / f"{name}.json"
        if not path.is_file():
            parser.error(f"no draw {name!r}: there are {', '.join(sorted(known.stem for known in folder.glob('*.json')))}")
        rows += [row for row in rows_of(path) if float(str(row["us"])) < SHORT] if asked.alike else taken(path, asked.longest, asked.only)
    for row, us, cycles in (timed_alike if asked.alike else timed)(rows, asked.tiles or asked.last):
        said = "" if asked.tiles or asked.last else "  " + ", ".join(f"{name} {count:.0f}" for name, count in phases(cycles).items())
        what = f"{row['type']} {row['d']} {'causal' if row['causal'] else 'full'} {row['length']}"
        print(f"{what} {np.median(us):6.1f} us (draw {row['us']}){said}  {row['named']}", flush=True)
        for first, blocks, count, q, loop, end in tiles(cycles) if asked.tiles else ():
            print(f"    {'first' if first else 'later'} tiles of {blocks:3} blocks ({count}): q {q:.0f}, blocks {loop:.0f}, end and next {end:.0f}", flush=True)
        for cta, warpgroup, each in last(cycles) if asked.last else ():
            told = "; ".join(f"{blocks} blocks from {at[0]}, q {at[1]}, done {at[2]}, stored {at[3]}" for blocks, at in each)
            print(f"    CTA {cta}, warpgroup {warpgroup}: {told}", flush=True)


if __name__ == "__main__":
    main()
