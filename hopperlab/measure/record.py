"""Measure on this machine and write recordings: `python -m hopperlab.measure.record [--suites gemm copy …] [--out DIR]`.

Needs a Hopper GPU. About two minutes for everything. Prints one line a record.
"""
from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from . import bugs, recordings, suites, suites_roles
from .board import header
from .recordings import Record

FILES = {"ceilings": "ceilings", "gemm": "gemm", "stages": "stages", "copy": "copy", "boxes": "tma_vs_cp_async",
         "timing": "timing", "bugs": "bugs", "roles": "roles"}


def summary(record: Record) -> str:
    """One line of a record for a terminal."""
    words = [f"{record.kernel:18s}", " ".join(record.options), "x".join(map(str, record.shape)), record.dtype]
    if record.tflops is not None:
        words.append(f"{record.tflops:.0f} TFLOP/s")
    if record.gb_s is not None:
        words.append(f"{record.gb_s:.0f} GB/s")
    if record.ratio is not None:
        words.append(f"{record.ratio:.3f} ({record.ratio_min:.3f} to {record.ratio_max:.3f}) of {record.peer}")
    if record.watts is not None:
        words.append(f"{record.watts:.0f} W")
    if record.outcome is not None:
        words.append(f"{record.outcome}: {record.wrong} of {record.runs}" if record.wrong is not None else record.outcome)
    return "  ".join(word for word in words if word)


def measure(name: str, rounds: int) -> list[Record]:
    """The records of one suite: a name of FILES."""
    if name == "bugs":
        return bugs.records(bugs.CASES)
    if name == "roles":
        return suites_roles.roles(rounds)
    return suites.SUITES[name](rounds)


def with_missing_bugs(known: Sequence[Record]) -> list[Record]:
    """The records of all bugs.CASES, in that order: those known, and the others measured now."""
    found = {_bug_key(record): record for record in known}
    new = bugs.records([case for case in bugs.CASES if case.key not in found])
    found |= {_bug_key(record): record for record in new}
    return [found[case.key] for case in bugs.CASES]


def _bug_key(record: Record) -> tuple:
    return record.kernel, record.options, record.shape


def main(arguments: list[str] | None = None) -> int:
    """Command line: measure the chosen suites and write one JSON file for each."""
    parser = argparse.ArgumentParser(prog="python -m hopperlab.measure.record", description=__doc__.split("\n")[0])
    parser.add_argument("--suites", nargs="*", choices=sorted(FILES), default=list(FILES), help="which to measure (all)")
    parser.add_argument("--out", type=Path, default=recordings.FOLDER, help="where to write (the package's recordings)")
    parser.add_argument("--rounds", type=int, default=9, help="launches of each variant that count (9)")
    parser.add_argument("--missing", action="store_true", help="bugs: keep what is recorded and run only the cases that are not")
    chosen = parser.parse_args(arguments)
    head = header()
    for name in chosen.suites:
        start = time.perf_counter()
        if name == "bugs" and chosen.missing and "bugs" in recordings.names(chosen.out):
            records = with_missing_bugs(list(recordings.load("bugs", chosen.out)))
        else:
            records = measure(name, chosen.rounds)
        for record in records:
            print(summary(record), flush=True)
        path = recordings.save(FILES[name], head, records, chosen.out)
        print(f"-- {path.name}: {len(records)} records in {time.perf_counter() - start:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
