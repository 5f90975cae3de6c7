# SPDX-License-Identifier: Apache-2.0
"""PYTHONPATH=tests python -m emulator.fuzz --mutants 2000 --seed 1: malformed PTX in the emulator, and what became of it."""
from __future__ import annotations

import argparse
import collections
import contextlib
import io
import sys
import time

from .judge import draw, judge


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m emulator.fuzz", description=__doc__)
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--show", type=int, default=3, help="examples to print of each error that is not ours")
    options = parser.parse_args()
    outcomes, examples, slowest, start = collections.Counter(), collections.defaultdict(list), (0.0, -1), time.time()
    for number in range(options.first, options.first + options.mutants):
        case, text = draw(options.seed, number)
        with contextlib.redirect_stdout(io.StringIO()):
            verdict = judge(case, text)
        outcomes[verdict.outcome or "ran"] += 1
        slowest = max(slowest, (verdict.seconds, number))
        if verdict.bad:
            examples[verdict.outcome or "too slow"].append((number, case, verdict))
    for outcome, found in examples.items():
        print(f"\n=== {outcome}: {len(found)}")
        for number, case, verdict in found[:options.show]:
            changed = [line for line in verdict.text.split("\n") if line not in set((case.text + case.rest).split("\n"))]
            print(f"--- mutant {number} ({case.name}), {verdict.seconds:.1f} s: {changed[:3]}")
        print(found[0][2].detail[-900:])
    print("\n" + ", ".join(f"{name}: {count}" for name, count in outcomes.most_common()))
    bad = sum(len(found) for found in examples.values())
    print(f"{options.mutants} mutants (seed {options.seed}) in {time.time() - start:.0f} s, the slowest {slowest[0]:.1f} s (mutant {slowest[1]}): {bad} not "
          f"ours or too slow")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
