# SPDX-License-Identifier: Apache-2.0
"""What the estimated clock costs the emulator where nobody asks for one: nothing. `python -m benchmarks.without_clock [--before COMMIT] [--rounds N]`.

The cases of benchmarks/emulator.py (--quick), in processes that take turns: of this tree, and of the commit before there were estimates, in a work tree
of its own that is taken away again. A line a case: seconds of both, and the ratio round by round, this tree's over the other's.
"""
from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from hopperlab.runtime.tables import text_table

ROOT = Path(__file__).resolve().parents[1]
BEFORE = "bbb1e215^"         # before hl.estimate
EACH = 3                     # runs of a case in a process
RUN = f"""
import json
from benchmarks.emulator import cases, seconds
print(json.dumps({{name: seconds(make(), {EACH})[1] for name, _, make in cases(True)}}))
"""


def measured(tree: Path) -> dict[str, float]:
    """Least seconds of each case, in a process of its own. Raises SystemExit with what it said where it fails."""
    run = subprocess.run([sys.executable, "-c", RUN], cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(run.stderr)
    return {str(name): float(value) for name, value in json.loads(run.stdout.splitlines()[-1]).items()}


def in_turn(trees: dict[str, Path], rounds: int) -> dict[str, list[dict[str, float]]]:
    """Rounds of each tree, after one of each that does not count."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
    for turn in range(rounds + 1):
        for name in list(trees)[::(-1) ** turn]:
            print(f"round {turn} of {rounds}: {name}", file=sys.stderr, flush=True)
            times = measured(trees[name])
            found[name] += [times] if turn else []
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], prog="python -m benchmarks.without_clock")
    parser.add_argument("--before", default=BEFORE, metavar="COMMIT", help=f"what this tree is compared with (default {BEFORE})")
    parser.add_argument("--rounds", type=int, default=7, help="processes of each tree (default 7)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "before"
        subprocess.run(["git", "-C", str(ROOT), "worktree", "add", "--quiet", "--detach", str(other), asked.before], check=True)
        try:
            found = in_turn({"now": ROOT, "before": other}, asked.rounds)
        finally:
            subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(other)], check=True)
    rows = []
    for case in found["now"][0]:
        now, before = ([times[case] for times in found[name]] for name in ("now", "before"))
        ratios = [mine / theirs for mine, theirs in zip(now, before, strict=True)]
        rows.append((case, statistics.median(now), statistics.median(before), statistics.median(ratios), f"{min(ratios):.3f} to {max(ratios):.3f}"))
    print("\n".join(text_table("{:<*}  {:7.3f} s  {:7.3f} s  {:6.3f}  {}", rows, ("case", "now", "before", "ratio", "range"))))


if __name__ == "__main__":
    main()
