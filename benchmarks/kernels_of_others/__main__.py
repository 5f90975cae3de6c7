# SPDX-License-Identifier: Apache-2.0
"""Measure, estimate and check the sets."""
from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import hopperlab as hl
from hopperlab.emulator import EmulatorError
from hopperlab.estimates import accuracy, boards, estimating, sample

from hopperlab.runtime.errors import HopperlabError

from . import __doc__ as about
from .case_set import CaseSet, on_host

SETS = ("first", "second", "third")
MEASURED = Path(__file__).with_name("measured_h200.json")
STORED = accuracy.JUDGED / "lanes.json"
SEED, SECONDS, ROUNDS = 20261130, 60, 25


def cases(names: list[str]) -> Iterator[tuple[str, CaseSet, dict[str, Any]]]:
    """(set, its cases, a case) of these sets, or cases."""
    for name in SETS:
        found = import_module(f".{name}", __package__).SET
        for case in found.cases:
            if not names or name in names or case["name"] in names:
                yield name, found, case


def measured(found: CaseSet, case: dict[str, Any]) -> dict[str, Any]:
    """Microseconds of single launches, each after a write of 512 MiB; the result is looked at first."""
    import cupy

    flush, kernel, args = cupy.zeros(1 << 27, cupy.uint32), found.load(case, "gpu"), case["make_args"](cupy, cupy.random.default_rng(SEED))
    kernel(case["grid"], case["block"], args, shared_mem=case["shared"])
    with np.errstate(all="ignore"):
        error = float(case["check"](on_host(args)))
    times = []
    for _ in range(ROUNDS + 3):
        flush.fill(1)
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        kernel(case["grid"], case["block"], args, shared_mem=case["shared"])
        end.record()
        end.synchronize()
        times.append(1e3 * cupy.cuda.get_elapsed_time(begin, end))
    return {"us": median(times[3:]), "least": min(times[3:]), "most": max(times[3:]), "right": error <= case["tolerance"]}


def measure(names: list[str]) -> None:
    """Each case in a process of its own, with a time limit."""
    stored = json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.is_file() else {}
    for _, _, case in cases(names):
        try:
            ran = subprocess.run([sys.executable, "-m", __package__, "--one", case["name"]], capture_output=True, text=True, timeout=SECONDS, check=False)
            line = next((line for line in ran.stdout.splitlines() if line.startswith("{")), None)
            row = json.loads(line) if line else {"error": ran.stderr[-300:]}
        except subprocess.TimeoutExpired:
            row = {"error": f"not over after {SECONDS} s"}
        print(case["name"], row, flush=True)
        if "us" in row:
            stored[case["name"]] = {name: round(value, 2) for name, value in row.items()} if row["right"] else {**row, "us": None}
        MEASURED.write_text(json.dumps(stored, indent=0) + "\n", encoding="utf-8")


def estimate(names: list[str], store: bool) -> None:
    """Estimates beside measurements; store: write what `accuracy` reads of those whose lanes move all data."""
    known, board, rows = json.loads(MEASURED.read_text(encoding="utf-8")), boards.board("h200"), []
    for name, found, case in cases(names):
        us, begin = known.get(case["name"], {}).get("us"), time.perf_counter()
        if not us:
            continue
        args = case["make_args"](hl.array_module("emulator"), np.random.default_rng(SEED))
        begin = time.perf_counter()
        try:
            planned, _kept = sample.planned(found.load(case, "emulator"), case["grid"], case["block"], args, case["shared"])
            seen = estimating.sampled(planned, case["name"])
            guess = estimating.of_sample(seen, case["name"], board)
        except (HopperlabError, EmulatorError) as problem:
            print(f"{case['name']:20} {us:8.1f} us, no estimate: {problem}", flush=True)
            continue
        alone = seen.lanes is not None and seen.lanes.alone
        rows.append((alone, accuracy.Row(f"{name}: {case['name']}", "kernels_of_others", accuracy.LANES, name, False, us, round(guess.us, 2))))
        print(f"{case['name']:20} {us:8.1f} us, estimated {guess.us:8.1f}, {rows[-1][1].error:+.0%}{'' if alone else ' (with copies)'}  "
              f"{time.perf_counter() - begin:.1f} s", flush=True)
    for title, some in ((name, [row for _, row in rows if row.group == name]) for name in SETS):
        if some:
            told = accuracy.summary(title, some)
            print(f"{title}: {told.count} kernels, mean error {told.mean:.1%}, nine of ten within {told.most:.1%}")
    if store:
        accuracy.write([row for alone, row in rows if alone], STORED)


def check(names: list[str]) -> int:
    """Each at its small size in the emulator: how many are wrong."""
    wrong = 0
    for _, found, case in cases(names):
        small = case["small"]
        args = small["make_args"](hl.array_module("emulator"), np.random.default_rng(1))
        found.load(case, "emulator")(small["grid"], small["block"], args, shared_mem=small["shared"])
        error = float(small["check"](on_host(args)))
        wrong += error > case["tolerance"]
        print(f"{case['name']:20} {error:.2g}", flush=True)
    return wrong


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels_of_others", description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="sets (first, second, third) or cases; all of them without")
    for option in ("--measure", "--store", "--check"):
        parser.add_argument(option, action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        _, found, case = next(cases([asked.one]))
        print(json.dumps(measured(found, case)))
    elif asked.measure:
        measure(asked.names)
    elif asked.check:
        return int(check(asked.names) > 0)
    else:
        estimate(asked.names, asked.store)
    return 0


if __name__ == "__main__":
    sys.exit(main())
