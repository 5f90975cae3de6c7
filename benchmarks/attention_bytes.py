# SPDX-License-Identifier: Apache-2.0
"""Bytes that memory brings for attention, counted by Nsight Compute, beside those that estimates say (docs/estimates.md, Errors).

    python -m benchmarks.attention_bytes                         the counts in benchmarks/drawn/attention/bytes beside the model's: two minutes a draw, no GPU
    python -m benchmarks.attention_bytes --count h100_2026112803 count those of a draw's launches (benchmarks/drawn_attention.py) on this machine's Hopper GPU with ncu

A draw's launches: its cells and configurations; every launch begins with an empty L2.
"""
from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from statistics import mean

from hopperlab.estimates import boards, estimating, sample
from hopperlab.estimates.chip import simulate
from hopperlab.runtime.errors import HopperlabError

from .drawn_attention import FOLDER as DRAWS
from .drawn_attention import HIDDEN, TOKENS, asked, launched
from .drawn_estimates import write

FOLDER = DRAWS / "bytes"
METRIC = "dram__bytes_read.sum"


def rows_of(path: Path) -> list[dict[str, object]]:
    """What a draw, or counts of it, stores."""
    found: list[dict[str, object]] = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return found


def launch_all(draw: str) -> None:
    """Each launch of a draw once, in order: what ncu watches."""
    import cupy

    from hopperlab.measure.suites import attention as suite
    from hopperlab.measure.suites import attention_fp8 as suite_fp8
    before, given = None, {}
    for row in rows_of(DRAWS / f"{draw}.json"):
        cell, choice = asked(row)
        make = suite if cell.kind == "bf16" else suite_fp8
        if cell != before:
            lengths, heads = [cell.length] * (TOKENS // cell.length), HIDDEN // cell.d
            before, given = cell, make.operands(lengths, lengths, heads, heads, cell.d)
        make.make(given, cell.causal, choice)()
        cupy.cuda.runtime.deviceSynchronize()


def counted(draw: str) -> list[dict[str, object]]:
    """A draw's rows, with the bytes read from memory."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        subprocess.run(["ncu", "--cache-control", "all", "--clock-control", "none", "-k", "regex:attention", "--metrics", METRIC, "--print-units", "base", "--csv",
                        "--log-file", str(log), sys.executable, "-m", "benchmarks.attention_bytes", "--launch", draw], check=True, stdout=subprocess.DEVNULL)
        table = [line for line in csv.reader(log.open(encoding="utf-8")) if len(line) > 10]
    column = table[0].index("Metric Value")
    rows = rows_of(DRAWS / f"{draw}.json")
    if len(table) - 1 != len(rows):
        raise RuntimeError(f"ncu saw {len(table) - 1} launches of {len(rows)}")
    return [{**{name: row[name] for name in ("d", "causal", "length", "type", "named")}, "read": int(line[column].replace(",", ""))}
            for row, line in zip(rows, table[1:], strict=True)]


def judge(draw: str) -> None:
    """Print what the model is off."""
    board, errors = boards.board(draw.split("_")[0]), []
    for row in rows_of(FOLDER / f"{draw}.json"):
        cell, choice = asked(row)
        launch = launched(cell, choice)
        planned, _kept = sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)
        try:
            found = simulate(estimating.sampled(planned, "attention"), board).traffic.unique
        except HopperlabError as why:
            print(f"{cell} {row['named']}: {why}", flush=True)
            continue
        read = int(str(row["read"]))
        errors.append(found / read - 1)
        print(f"{errors[-1]:+6.1%} {read / 1e6:7.0f} MB {cell.kind} D={cell.d} {'causal' if cell.causal else 'full'} {cell.length} {row['named']}", flush=True)
    print(f"{draw}: {len(errors)} launches, {mean(map(abs, errors)):.1%} off on average, {max(map(abs, errors)):.1%} at most")


def main(given: Iterable[str] | None = None) -> None:
    """Count, or judge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], prog="python -m benchmarks.attention_bytes")
    parser.add_argument("names", nargs="*", metavar="DRAW", help="which of benchmarks/drawn/attention/bytes, as BOARD_SEED; all if none is named")
    parser.add_argument("--count", metavar="DRAW", help="count those of this draw with ncu on this machine's GPU")
    parser.add_argument("--launch", metavar="DRAW", help=argparse.SUPPRESS)
    told = parser.parse_args(None if given is None else list(given))
    if told.launch:
        launch_all(told.launch)
    elif told.count:
        write(FOLDER / f"{told.count}.json", counted(told.count))
        print(FOLDER / f"{told.count}.json")
    else:
        for name in told.names or sorted(path.stem for path in FOLDER.glob("*.json")):
            judge(name)


if __name__ == "__main__":
    main()
