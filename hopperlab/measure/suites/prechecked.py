# SPDX-License-Identifier: Apache-2.0
"""Kernels that are checked before they are timed, each in a process of its own with a time limit: one that hangs or crashes costs itself and nothing else.

Suites that measure many configurations (ladder.py, fp8.py, attention.py, attention_fp8.py) have a function check(name); `right` runs it for every
name by `python -m hopperlab.measure.suites.prechecked MODULE NAME`.
"""
from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

from .race import WrongResult

AT_ONCE = 12


def passes(module: str, name: str, limit: float) -> bool:
    """Whether check(name) of a module (dotted) is 0 within `limit` seconds, in a process of its own; tells what it said on standard error."""
    line = [sys.executable, "-m", "hopperlab.measure.suites.prechecked", module, name]
    try:
        done = subprocess.run(line, timeout=limit, check=False, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        print(f"{name}: not done in {limit:.0f} s (a hang?)", file=sys.stderr, flush=True)
        return False
    print(done.stdout.strip() or f"{name}: " + done.stderr.strip().rpartition("\n")[2], file=sys.stderr, flush=True)
    return done.returncode == 0


def right(module: str, names: Iterable[str], limit: float = 60) -> set[str]:
    """Those names whose check passes. Raises WrongResult when none does: then there is nothing to time."""
    names = list(names)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = {name for name, passed in zip(names, pool.map(lambda name: passes(module, name, limit), names)) if passed}
    if not found:
        raise WrongResult(f"{module.rpartition('.')[2]}: nothing is right on this GPU, so nothing was timed")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Command line: one check, in this process."""
    parser = argparse.ArgumentParser(prog="python -m hopperlab.measure.suites.prechecked", description="Check one kernel of a suite on this GPU.")
    parser.add_argument("module", metavar="MODULE", help="a suite's module, such as hopperlab.measure.suites.fp8")
    parser.add_argument("name", metavar="NAME", help="one of its steps or configurations")
    given = parser.parse_args(arguments)
    return import_module(given.module).check(given.name)


if __name__ == "__main__":
    sys.exit(main())
