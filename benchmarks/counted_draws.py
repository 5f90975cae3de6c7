# SPDX-License-Identifier: Apache-2.0
"""Bytes of memory, cycles and clocks that Nsight Compute counts of drawn launches, beside those that estimates say (docs/estimates.md, Errors).

    python -m benchmarks.counted_draws                                  the counts beside the model's: ten minutes a draw, no GPU
    python -m benchmarks.counted_draws --count attention/h100_2026112803 h100_2026112712
                                                                        count those of draws (benchmarks/drawn_attention.py, drawn_estimates.py) on this machine's
                                                                        Hopper GPU with ncu, half a minute each

Every launch begins with an empty L2 and is counted once, in one pass: in the draw it took 1.00 times as long (the middle one of attention's), or 1.02 times (of
products). The clock's weights (estimates/boards.py: power_*) were fitted on attention/h200_2026112811 and _12, attention/h100_2026112801 to _03, h100_2026112712 and
h200_2026112712, and on profiles.json.
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
from typing import Any

from hopperlab.estimates import boards, estimating, sample
from hopperlab.estimates.chip import simulate
from hopperlab.estimates.clock import megahertz
from hopperlab.measure.launches import gemm
from hopperlab.measure.launches.gemm_configurations import choice_named
from hopperlab.runtime.errors import HopperlabError

from . import drawn_attention as attention, drawn_estimates as products
from .drawn_estimates import FOLDER, write

COUNTED = FOLDER / "counted"
METRICS = {"dram__bytes_read.sum": "read", "sm__cycles_elapsed.max": "cycles", "gpu__time_duration.sum": "ns"}
OF_ATTENTION = ("attention/", "pairs/")


def rows_of(path: Path) -> list[dict[str, object]]:
    """What a draw, or counts of it, stores."""
    found: list[dict[str, object]] = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return found


def launch_all(draw: str) -> None:
    """Each launch of a draw once, in order: what ncu watches."""
    import cupy

    from hopperlab.measure.launches.operands import normal_bf16
    from hopperlab.measure.suites import attention as suite
    from hopperlab.measure.suites import attention_fp8 as suite_fp8
    before: object = None
    given: Any = {}
    for row in rows_of(FOLDER / f"{draw}.json"):
        if draw.startswith(OF_ATTENTION):
            cell, choice = attention.asked(row)
            make = suite if cell.kind == "bf16" else suite_fp8
            if cell != before:
                lengths, heads = [cell.length] * (attention.TOKENS // cell.length), attention.HIDDEN // cell.d
                before, given = cell, make.operands(lengths, lengths, heads, heads, cell.d)
            make.make(given, cell.causal, choice)()
        else:
            size, final = int(str(row["size"])), choice_named(str(row["named"]).split())
            if size != before:
                before, given = size, (normal_bf16(cupy, (size, size), 1), normal_bf16(cupy, (size, size), 2), cupy.empty((size, size), cupy.uint16))
            a, b, c = given
            gemm.final(a, b.T if final.b_mn else b, c, final)()
        cupy.cuda.runtime.deviceSynchronize()


def counted(draw: str) -> list[dict[str, object]]:
    """A draw's rows, with the bytes read from memory, SM cycles and nanoseconds instead of its times."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        subprocess.run(["ncu", "--cache-control", "all", "--clock-control", "none", "-k", "regex:^(attention|gemm)$", "--metrics", ",".join(METRICS), "--print-units",
                        "base", "--csv", "--log-file", str(log), sys.executable, "-m", "benchmarks.counted_draws", "--launch", draw], check=True,
                       stdout=subprocess.DEVNULL)
        head, *lines = [line for line in csv.reader(log.open(encoding="utf-8")) if len(line) > 10]
    number, name, value = map(head.index, ("ID", "Metric Name", "Metric Value"))
    found: dict[int, dict[str, object]] = {}
    for line in lines:
        found.setdefault(int(line[number]), {})[METRICS[line[name]]] = int(float(line[value].replace(",", "")))
    rows = rows_of(FOLDER / f"{draw}.json")
    if len(found) != len(rows):
        raise RuntimeError(f"ncu saw {len(found)} launches of {len(rows)}")
    return [{**{name: what for name, what in row.items() if name != "us"}, **found[at]} for row, at in zip(rows, sorted(found), strict=True)]


def judge(draw: str) -> None:
    """Print what the model is off."""
    board, of_attention = boards.board(Path(draw).stem.split("_")[0]), draw.startswith(OF_ATTENTION)
    errors: list[tuple[float, ...]] = []
    for row in rows_of(COUNTED / f"{draw}.json"):
        launch = attention.launched(*attention.asked(row)) if of_attention else products.launched(int(str(row["size"])), choice_named(str(row["named"]).split()))
        what = " ".join(str(row[name]) for name in row if name not in METRICS.values())
        planned, _kept = sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)
        try:
            run = simulate(estimating.sampled(planned, launch.kernel.name), board)
        except HopperlabError as why:
            print(f"{what}: {why}", flush=True)
            continue
        read, cycles, ns = (int(str(row[name])) for name in METRICS.values())
        errors.append((run.traffic.unique / max(1, read) - 1, run.cycles / cycles - 1, megahertz(run.busy, board, run.cycles) / (1e3 * cycles / ns) - 1))
        print(f"bytes {errors[-1][0]:+6.1%} cycles {errors[-1][1]:+6.1%} clock {errors[-1][2]:+6.1%} of {read / 1e6:6.0f} MB, {cycles / 1e6:5.2f} million, "
              f"{1e3 * cycles / ns:4.0f} MHz: {what}", flush=True)
    if not errors:
        print(f"{draw}: no estimates")
        return
    said = ", ".join(f"{name} {mean(map(abs, column)):.1%} off on average, {max(map(abs, column)):.1%} at most"
                     for name, column in zip(("bytes", "cycles", "clock"), zip(*errors, strict=True)))
    print(f"{draw}: {len(errors)} launches, {said}")


def stored() -> list[str]:
    """Draws of which there are counts."""
    return sorted(path.relative_to(COUNTED).with_suffix("").as_posix() for path in COUNTED.rglob("*.json"))


def main(given: Iterable[str] | None = None) -> None:
    """Count, or judge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], prog="python -m benchmarks.counted_draws")
    parser.add_argument("names", nargs="*", metavar="DRAW", help="as BOARD_SEED or attention/BOARD_SEED (benchmarks/drawn); all that were counted if none is named")
    parser.add_argument("--count", action="store_true", help="count those of these draws with ncu on this machine's GPU")
    parser.add_argument("--launch", metavar="DRAW", help=argparse.SUPPRESS)
    told = parser.parse_args(None if given is None else list(given))
    if told.launch:
        launch_all(told.launch)
        return
    for name in told.names or stored():
        if not ((FOLDER if told.count else COUNTED) / f"{name}.json").is_file():
            parser.error(f"no draw {name!r}: there are {', '.join(stored())}")
        if told.count:
            write(COUNTED / f"{name}.json", counted(name))
            print(COUNTED / f"{name}.json", flush=True)
        else:
            judge(name)


if __name__ == "__main__":
    main()
