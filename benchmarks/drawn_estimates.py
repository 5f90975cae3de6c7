# SPDX-License-Identifier: Apache-2.0
"""Configurations of gemm/final.cu that nobody picked: drawn, timed on a GPU, and what their estimates are off (docs/estimates.md, Errors).

    python -m benchmarks.drawn_estimates                      judge the draws in benchmarks/drawn: ten minutes a draw, no GPU
    python -m benchmarks.drawn_estimates h100_2026112704      one of them
    python -m benchmarks.drawn_estimates --draw SEED          draw sixty, time them on this machine's Hopper GPU and store them there, two minutes
    python -m benchmarks.drawn_estimates --seconds SEED       how long this machine takes over an estimate at 8192 cubed: of each step of the ladder, and of thirty draws

A draw: a size, an order of B, and one of all configurations that the choice knows for these, each with the same chance. It can be drawn anew from its seed as long as
these are the same ones. Of seed 2026112701 on both boards constants were fitted; the others were timed when the model stood.
"""
from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hopperlab.emulator import EmulatorError
from hopperlab.estimates import accuracy, boards, estimating, sample
from hopperlab.measure.launches import gemm
from hopperlab.measure.launches.gemm_configurations import Final, candidates, choice_named
from hopperlab.measure.launches.launch import Launch
from hopperlab.runtime.errors import LaunchError

FOLDER = Path(__file__).with_name("drawn")
SIZES, COUNT, ROUNDS = (2048, 3072, 4096, 6144, 8192), 60, 15


def drawn(seed: int, count: int = COUNT) -> list[tuple[int, Final]]:
    """(m = n = k, configuration), none twice, by size."""
    rng, found, known = np.random.default_rng(seed), {}, {}
    while len(found) < count:
        size, b_mn = SIZES[int(rng.integers(len(SIZES)))], bool(rng.integers(2))
        if (size, b_mn) not in known:
            known[size, b_mn] = list(candidates(size, size, size, b_mn))
        found[size, known[size, b_mn][int(rng.integers(len(known[size, b_mn])))]] = True
    return sorted(found, key=lambda item: item[0])


def launched(size: int, choice: Final) -> Launch:
    """In the emulator, of zeros."""
    a, b, c = (np.zeros((size, size), np.uint16) for _ in range(3))
    return gemm.final(a, b.T if choice.b_mn else b, c, choice, backend="emulator")


def timed(seed: int) -> list[dict[str, object]]:
    """The rows of a draw on this machine's GPU, interleaved at each size, the L2 cold, every result checked."""
    import cupy

    from hopperlab.measure.launches.operands import normal_bf16
    from hopperlab.measure.machine import peers
    from hopperlab.measure.machine.timing import interleaved
    from hopperlab.measure.suites.products import check_product

    rows = []
    for size, group in itertools.groupby(drawn(seed), key=lambda item: item[0]):
        a, b = normal_bf16(cupy, (size, size), 1), normal_bf16(cupy, (size, size), 2)
        turned = cupy.ascontiguousarray(b.T).T
        c, expected = cupy.empty((size, size), cupy.uint16), cupy.empty((size, size), cupy.uint16)
        peers.cublas(a, b, expected)()
        runs = {}
        for _, choice in group:
            name = " ".join(choice.named)
            runs[name] = gemm.final(a, turned if choice.b_mn else b, c, choice).bound()
            check_product(name, runs[name], c, expected)
        rows += [{"size": size, "named": name, "us": round(1e3 * one.ms, 3)} for name, one in interleaved(runs, ROUNDS, warmups=2).items()]
        print(f"{size}: {len(runs)} timed", flush=True)
    return rows


def estimated(row: dict[str, object], board: boards.Board) -> accuracy.Row | None:
    """A row with its estimate; None where there is none."""
    choice = choice_named(str(row["named"]).split())
    launch = launched(int(str(row["size"])), choice)
    planned, _kept = sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)
    try:
        us = estimating.of_sample(estimating.sampled(planned, "final"), "final", board).us
    except LaunchError as why:
        print(f"{row['size']} {row['named']}: {why}", flush=True)
        return None
    return accuracy.Row(str(row["named"]), "drawn", accuracy.FAMILIES[0], str(row["size"]), False, float(str(row["us"])), us)


def seconds(seed: int, count: int, size: int = SIZES[-1]) -> None:
    """Print what estimates of a size take, compiled before: of the ladder's steps, and of so many drawn configurations, half of which share tiles along k."""
    a, b, c = (np.zeros((size, size), np.uint16) for _ in range(3))
    made = {step: gemm.launch(step, a, b, c, backend="emulator") for step in gemm.LADDER}
    rng = np.random.default_rng(seed)
    known = [choice for b_mn in (False, True) for choice in candidates(size, size, size, b_mn)]
    for shares in (0, 1):
        some = [choice for choice in known if choice.stream == shares]
        made |= {" ".join(some[k].named): gemm.final(a, b.T if some[k].b_mn else b, c, some[k], backend="emulator") for k in rng.permutation(len(some))[:count // 2]}
    took = []
    for name, launch in made.items():
        sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)
        start = time.perf_counter()
        try:
            told = f"{estimating.estimate_launch(launch).us:9.1f} us"
        except (LaunchError, EmulatorError) as why:
            told = str(why).partition(":")[2][:60]
        took.append(time.perf_counter() - start)
        print(f"{took[-1]:6.1f} s  {told}  {name}", flush=True)
    print(f"{len(took)} at {size} cubed: median {np.median(took):.1f} s, nine of ten within {np.quantile(took, 0.9):.1f} s, at most {max(took):.1f} s")


def told(name: str, rows: Sequence[accuracy.Row]) -> str:
    """Errors in a line."""
    found = accuracy.summary(name, rows)
    right, pairs = accuracy.ranking(rows)
    return (f"{name}: {found.count}, mean error {found.mean:.1%}, nine of ten within {found.most:.1%}, {round(found.within * found.count)} within 12 %, "
            f"pairs ranked rightly {right} of {pairs}")


def main() -> None:
    """Draw and time, or judge."""
    parser = options(__doc__, "benchmarks.drawn_estimates", "benchmarks/drawn")
    parser.add_argument("--seconds", type=int, metavar="SEED", help="time estimates of the ladder's steps and of configurations drawn with this seed, at 8192 cubed")
    asked = parser.parse_args()
    if asked.seconds is not None:
        seconds(asked.seconds, 30)
        return
    draw_or_judge(parser, asked, FOLDER, timed, estimated)


def options(doc: str | None, module: str, folder: str) -> argparse.ArgumentParser:
    """What all draws are asked for."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0], prog=f"python -m {module}")
    parser.add_argument("names", nargs="*", metavar="DRAW", help=f"which of {folder}, as BOARD_SEED; all if none is named")
    parser.add_argument("--draw", type=int, metavar="SEED", help="draw with this seed and time on this machine's GPU")
    return parser


def draw_or_judge(parser: argparse.ArgumentParser, asked: argparse.Namespace, folder: Path, time_all: Callable[[int], Sequence[dict[str, Any]]],
                  estimate: Callable[[dict[str, Any], boards.Board], accuracy.Row | None]) -> None:
    """What `options` asked for: rows of a seed, timed and stored in a folder, or those of its draws judged."""
    if asked.draw is None:
        judge(parser, folder, asked.names, estimate)
        return
    path = folder / f"{boards.default()}_{asked.draw}.json"
    write(path, time_all(asked.draw))
    print(path)


def judge(parser: argparse.ArgumentParser, folder: Path, names: Sequence[str], estimate: Callable[[dict[str, Any], boards.Board], accuracy.Row | None]) -> None:
    """Print the errors of these draws of a folder, of all if none is named."""
    for path in [folder / f"{name}.json" for name in names] or sorted(folder.glob("*.json")):
        if not path.is_file():
            parser.error(f"no draw {path.stem!r}: there are {', '.join(sorted(known.stem for known in folder.glob('*.json')))}")
        board = boards.board(path.stem.partition("_")[0])
        found = []
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
            one = estimate(row, board)
            if one is not None:
                found.append(one)
                print(f"  {one.error:+6.1%} {one.measured:8.1f} us {one.group} {one.name}", flush=True)
        print(f"{told(path.stem, found)}, at most {max((abs(one.error) for one in found), default=0.0):.1%} off", flush=True)


def write(path: Path, rows: Sequence[dict[str, object]]) -> None:
    """Store rows, one per line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"rows": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
