"""Kernels that are checked before they are timed, each in a process of its own with a time limit: one that hangs or crashes costs itself and nothing else.

Modules that measure (ladder.py, fp8.py, attention.py) take `--check NAME` on their command line, and `right` runs it for every name.
"""
from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import recordings
from .board import header
from .recordings import Record

AT_ONCE = 12


def passes(module: str, name: str, limit: float) -> bool:
    """Whether `python -m module --check name` ends with 0 within `limit` seconds; prints what it said."""
    try:
        done = subprocess.run([sys.executable, "-m", module, "--check", name], timeout=limit, check=False, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        print(f"{name}: not done in {limit:.0f} s (a hang?)", flush=True)
        return False
    print(done.stdout.strip() or f"{name}: " + done.stderr.strip().rpartition("\n")[2], flush=True)
    return done.returncode == 0


def right(module: str, names: Iterable[str], limit: float = 60) -> set[str]:
    """Those names whose check passes."""
    names = list(names)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return {name for name, passed in zip(names, pool.map(lambda name: passes(module, name, limit), names)) if passed}


def command(suite: str, about: str, check: Callable[[str], int], names: Callable[[], Iterable[str]], measure: Callable[..., list[Record]],
            table: Callable[[list[Record]], str], arguments: list[str] | None = None) -> int:
    """The command line of a module `measure.<suite>` that writes the recording `suite`: --check NAME, --out, --rounds. 1 when nothing is right.

    measure(rounds, right names, keep) returns the records, and gives `keep` those found so far, so that a run cut short leaves something.
    """
    parser = argparse.ArgumentParser(prog=f"python -m hopperlab.measure.{suite}", description=about.split("\n")[0])
    parser.add_argument("--check", metavar="NAME", help="only check this step or configuration, in this process")
    parser.add_argument("--out", type=Path, default=recordings.FOLDER, help="where to write (the package's recordings)")
    parser.add_argument("--rounds", type=int, default=9, help="launches of each variant that count (9)")
    chosen = parser.parse_args(arguments)
    if chosen.check:
        return check(chosen.check)
    sound = right(f"hopperlab.measure.{suite}", names())
    if not sound:
        print("nothing is right here: nothing to time")
        return 1
    head = header()
    print(table(measure(chosen.rounds, sound, lambda found: recordings.save(suite, head, found, chosen.out))), flush=True)
    return 0
