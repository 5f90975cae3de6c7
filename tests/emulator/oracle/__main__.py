# SPDX-License-Identifier: Apache-2.0
"""python -m tests.emulator.oracle --programs 2000 --seed 1: draw programs, ask the model and the emulator, and print where they differ."""
from __future__ import annotations

import argparse
import collections
import sys
import time

from hopperlab.runtime import installing
from hopperlab.runtime.progress import Bar

try:
    from hypothesis import HealthCheck, Phase, given, seed, settings
except ImportError:
    sys.exit(f"The oracle draws its programs with Hypothesis, which is not installed. Install what the tests need with:\n    {installing.course('test')}")

from .compare import disagreements, shrink
from .generate import FAMILIES, programs
from .model import Oracle, TooManyStates
from .mutants import mutants


def arguments(given_arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.emulator.oracle", description=__doc__)
    parser.add_argument("--programs", type=int, default=200, help="how many to draw (mutants come on top)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--no-mutants", action="store_true", help="only the programs as drawn")
    parser.add_argument("--strict-reads", action="store_true",
                        help="a generic read before an asynchronous write of the same bytes needs a proxy fence (unfenced-overwrite)")
    parser.add_argument("--limit", type=int, default=4000, help="states of the model a program may have")
    parser.add_argument("--show", type=int, default=2, help="examples to print of each kind of disagreement, shrunk")
    return parser.parse_args(given_arguments)


class Tally:
    """What was run, and the disagreements by kind."""

    def __init__(self, options):
        self.options, self.counts, self.examples = options, collections.Counter(), collections.defaultdict(list)

    def compare(self, program, origin: str) -> bool:
        """Returns whether the model calls the program correct."""
        try:
            verdict = Oracle(program, strict_reads=self.options.strict_reads, limit=self.options.limit).verdict()
        except TooManyStates:
            self.counts["too many states"] += 1
            return False
        self.counts["correct" if verdict.correct else "wrong in every execution" if not verdict.clean else "wrong in some executions"] += 1
        for d in disagreements(program, verdict, strict_reads=self.options.strict_reads):
            self.counts[f"{d.kind} {d.what.kind}"] += 1
            self.examples[d.signature].append((program, origin, d))
        return verdict.correct

    def program(self, program) -> None:
        if self.compare(program, "as drawn") and not self.options.no_mutants:
            for what, _, mutant in mutants(program):
                self.compare(mutant, what)


def main(given_arguments=None) -> int:
    options = arguments(given_arguments)
    tally, begun = Tally(options), time.process_time()

    @seed(options.seed)
    @settings(max_examples=options.programs, phases=[Phase.generate], database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(programs(options.families))
    def draw(program):
        tally.counts["drawn"] += 1
        if bar.terminal or tally.counts["drawn"] % max(1, options.programs // 20) == 0:
            bar.tell(tally.counts["drawn"], f"{sum(map(len, tally.examples.values()))} disagreements")
        tally.program(program)

    bar = Bar("{desc}: program {n_fmt} of {total_fmt}, {remaining} left", options.programs)
    draw()
    bar.close()
    for signature, examples in sorted(tally.examples.items(), key=str):
        print(f"\n=== {signature}: {len(examples)}")
        for program, origin, _ in sorted(examples, key=lambda e: sum(1 for _ in e[0].steps()))[:options.show]:
            small = shrink(program, signature, options.strict_reads)
            print(origin, small, sep="\n")
            print("  model: ", sorted(Oracle(small, options.strict_reads).verdict().may))
            for d in disagreements(small, strict_reads=options.strict_reads):
                print("  ", d.kind, d.schedule, str(d.what)[:240])
    print("\n" + "\n".join(f"{count:7d}  {name}" for name, count in tally.counts.most_common()))
    print(f"{time.process_time() - begun:.1f} CPU seconds")
    return bool(tally.examples)


if __name__ == "__main__":
    sys.exit(main())
