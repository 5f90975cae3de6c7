"""compute-sanitizer's memcheck over the ladder and the capstones: `python -m hopperlab.measure.memcheck [STEP …] [--out DIR]`, on a Hopper machine.

Every step runs once on each of its SHAPES, with edges, in a process of its own under `compute-sanitizer --tool memcheck`. Exit code 0: nothing
was found; 1: something was, and is printed; 2: there is no GPU or no compute-sanitizer. What was found is the recording `memcheck`.
"""
from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import launches_gemm, recordings
from .board import header
from .recordings import Record

SHAPES = {step: (("264", "520", "136"), ("128", "256", "64")) for step in launches_gemm.LADDER} | {       # step: what profile_step takes after it
    "fp8": (("264", "520", "144"), ("128", "256", "128")), "attention": (("64", "causal", "1024"), ("128", "full", "2048"), ("256", "causal", "512"))}
SECONDS = 240.0             # for one launch, under the tool
SUMMARY = re.compile(r"ERROR SUMMARY: (\d+) errors?")


@dataclass(frozen=True)
class Checked:
    """What memcheck said of one launch: how many errors (None: it did not come to its summary), and its lines."""

    errors: int | None
    text: str

    @property
    def clean(self) -> bool:
        """It came to its end and found nothing."""
        return self.errors == 0


def check(arguments: Sequence[str], tool: str, seconds: float = SECONDS) -> Checked:
    """Run `python -m hopperlab.measure.profile_step ARGUMENTS` under memcheck."""
    line = [tool, "--tool", "memcheck", "--report-api-errors", "no", "--error-exitcode", "9", sys.executable, "-m", "hopperlab.measure.profile_step", *arguments]
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return Checked(None, f"not done in {seconds:.0f} s")
    text = done.stdout + done.stderr
    found = SUMMARY.search(text)
    errors = int(found[1]) if found else None
    if errors == 0 and done.returncode:                     # the program failed for a reason that memcheck does not count
        errors = None
    return Checked(errors, text)


def main(arguments: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m hopperlab.measure.memcheck", description=__doc__.split("\n")[0])
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"which (default: all): {', '.join(SHAPES)}")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write the recording there (default: only print)")
    given = parser.parse_args(arguments)
    steps = given.steps or list(SHAPES)
    if unknown := [step for step in steps if step not in SHAPES]:
        parser.error(f"no step {', '.join(unknown)}; there are {', '.join(SHAPES)}")
    from .bench import no_gpu
    tool = shutil.which("compute-sanitizer")
    why = no_gpu() or (None if tool else "compute-sanitizer is not on the PATH: it comes with the CUDA toolkit")
    if why is not None:
        print(why, file=sys.stderr)
        return 2
    targets = [(step, sizes) for step in steps for sizes in SHAPES[step]]
    records = []
    for number, (step, sizes) in enumerate(targets, 1):
        found = check([step, *sizes], tool)
        said = "clean" if found.clean else "did not finish" if found.errors is None else f"{found.errors} error{'' if found.errors == 1 else 's'}"
        print(f"[{number}/{len(targets)}] {step} {' '.join(sizes)}: {said}", flush=True)
        if not found.clean:
            print(found.text[-4000:], flush=True)
        records.append(Record("memcheck", step, sizes, outcome=said))
    bad = sum(record.outcome != "clean" for record in records)
    print(f"{len(records) - bad} launches clean, {bad} not")
    if given.out:
        print(f"written: {recordings.save('memcheck', header(), records, given.out)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
