# SPDX-License-Identifier: Apache-2.0
"""compute-sanitizer's memcheck over the kernels of the course: `python -m hopperlab.measure.profile.memcheck [STEP …] [--out DIR]`, on a Hopper machine.

Every step of the ladder and both capstones run once on each of their SHAPES, with edges; `--tests` and `--differential` add what files of tests
launch. Each runs in a process of its own under `compute-sanitizer --tool memcheck`, with every array in an allocation of its own; one that does not
come to its end without an error of memcheck's runs once more, alone. Before, copies that write past their target's end (`overrun`) show what
memcheck sees. Exit code 0: it found what an ordinary store overran, and nothing in the kernels; 1: it did not, or did, which is printed; 2: there
is no GPU or no compute-sanitizer. What was found is the recording `memcheck`, with the kernels that each process launched.
"""
from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

from ..launches import gemm
from . import overrun
from .. import recordings
from ..machine import here
from ..machine.board import header, query
from .exact_allocations import LAUNCHED
from ..recordings import Record

SHAPES = dict.fromkeys(gemm.LADDER, (("264", "520", "136"), ("128", "256", "64"))) | {       # step: what step.py takes after it
    "final": (("264", "520", "136"), ("128", "256", "64"), ("264", "518", "136"), ("265", "517", "136")),
    "fp8": (("264", "520", "144"), ("128", "256", "128")), "attention": (("64", "causal", "1024"), ("128", "full", "2048"), ("256", "causal", "512"))}
SECONDS = 500.0             # for one process, under the tool
JOB_MIB = 9728              # of the GPU's memory that a process may take under the tool: --differential asks for a stack of 32 KiB for 2,048 threads per SM
SUMMARY = re.compile(r"ERROR SUMMARY: (\d+) errors?")
PASSED = re.compile(r"\b\d+ passed")
SKIPPED = re.compile(r"^\d+ skipped in ", re.MULTILINE)        # and nothing else
KERNELS = re.compile(rf"^{LAUNCHED}(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Target:
    """One process to run under memcheck: a name and what tells it from others, for its record, and its `python -m` line."""

    kernel: str
    options: tuple[str, ...]
    line: tuple[str, ...]

    @property
    def overruns(self) -> bool:
        """Errors are what it is there for."""
        return self.kernel == "overrun"


@dataclass(frozen=True)
class Checked:
    """What memcheck said of a target: how many errors (None: it did not come to its summary, or ended badly), and its lines."""

    errors: int | None
    text: str
    tries: int = 1

    @property
    def clean(self) -> bool:
        """It launched kernels, came to its end and found nothing."""
        return self.errors == 0 and bool(self.kernels)

    @property
    def skipped(self) -> bool:
        """Its tests ask for what this machine has not, as a second GPU."""
        return self.errors == 0 and not self.kernels and SKIPPED.search(self.text) is not None

    @property
    def outcome(self) -> str:
        """In words."""
        if self.errors is None:
            return "did not finish"
        if self.skipped or self.clean:
            return "skipped" if self.skipped else "clean"
        return "launched no kernel" if not self.errors else f"{self.errors} error{'' if self.errors == 1 else 's'}"

    @property
    def kernels(self) -> tuple[str, ...]:
        """Files below hopperlab/kernels/ that it launched on the GPU."""
        return tuple(sorted({name for line in KERNELS.findall(self.text) for name in line.split(", ") if name}))

    @property
    def note(self) -> str:
        """What ran: how many tests, if any, and the kernels."""
        said = ["second try"] * (self.tries > 1) + PASSED.findall(self.text)[-1:]
        return ": ".join((*([", ".join(said)] if said else []), ", ".join(self.kernels)))


def jobs_here(cores: int, free_mib: float) -> int:
    """How many processes at a time: three quarters of the cores, and no more than the GPU's free memory holds; at least one."""
    return max(1, min(3 * cores // 4, int(free_mib // JOB_MIB)))


def targets(steps: Sequence[str], tests: Sequence[Path] = (), differential: Sequence[Path] = ()) -> Iterator[Target]:
    """The overruns, every shape of each step, then one target a file: folders stand for their test_*.py."""
    for how in overrun.COPIES:
        yield Target("overrun", (how,), ("hopperlab.measure.profile.overrun", how))
    for step in steps:
        for sizes in SHAPES[step]:
            yield Target(step, sizes, ("hopperlab.measure.profile.step", step, *sizes))
    for given, chosen in ((tests, ("-m", "gpu")), (differential, ("--differential",))):
        for path in given:
            for file in sorted(path.glob("test_*.py")) if path.is_dir() else [path]:
                yield Target("pytest", (file.as_posix(),), ("pytest", *chosen, "-q", "-p", "no:cacheprovider", "--timeout", "400", file.as_posix()))


def check(target: Target, tool: str, seconds: float = SECONDS) -> Checked:
    """Run `python -m LINE` under memcheck."""
    line = [tool, "--tool", "memcheck", "--report-api-errors", "no", "--error-exitcode", "9",
            sys.executable, "-m", "hopperlab.measure.profile.exact_allocations", *target.line]
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return Checked(None, f"not done in {seconds:.0f} s")
    found = Checked(None, done.stdout + done.stderr)
    summary = SUMMARY.search(found.text)
    errors = int(summary[1]) if summary else None
    if errors == 0 and done.returncode:                     # it failed for a reason that memcheck does not count
        errors = None
    return Checked(errors, found.text)


def check_all(chosen: Sequence[Target], tool: str, jobs: int) -> dict[Target, Checked]:
    """`check` of each, `jobs` at a time, told as each ends, with memcheck's last lines where there is something to see."""
    found = {}
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        under_way = {pool.submit(check, target, tool): target for target in chosen}
        for number, done in enumerate(as_completed(under_way), 1):
            target, what = under_way[done], done.result()
            print(f"[{number}/{len(chosen)}] {target.kernel} {' '.join(target.options)}: {what.outcome}{f' ({what.note})' if what.note else ''}", flush=True)
            if not (what.clean or what.skipped or target.overruns):
                print(what.text[-4000:], flush=True)
            found[target] = what
    return found


def measure(chosen: Sequence[Target], tool: str, jobs: int) -> tuple[list[Record], dict[Target, Checked]]:
    """Check all of them, those that end badly once more and alone; their records, and what was said of each."""
    found = check_all(chosen, tool, jobs)
    if ended_badly := [target for target in chosen if found[target].errors is None]:
        print("once more, alone:", flush=True)
        found |= {target: replace(what, tries=2) for target, what in check_all(ended_badly, tool, 1).items()}
    return [Record("memcheck", target.kernel, target.options, outcome=found[target].outcome, note=found[target].note) for target in chosen], found


def _given(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m hopperlab.measure.profile.memcheck", description=__doc__.split("\n")[0])
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"which (default: all): {', '.join(SHAPES)}")
    parser.add_argument("--tests", nargs="+", type=Path, default=[], metavar="PATH",
                        help="and these files of tests (folders: all of theirs; FILE::TEST: one), run with -m gpu")
    parser.add_argument("--differential", nargs="+", type=Path, default=[], metavar="PATH", help="and these, run with --differential")
    parser.add_argument("--jobs", type=int, metavar="N",
                        help=f"processes at a time (default: three quarters of the cores, at most one for every {JOB_MIB // 1024} GiB that are free on the GPU)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write the recording there (default: only print)")
    given = parser.parse_args(arguments)
    if unknown := [step for step in given.steps if step not in SHAPES]:
        parser.error(f"no step {', '.join(unknown)}; there are {', '.join(SHAPES)}")
    if missing := [str(path) for path in (*given.tests, *given.differential) if not Path(str(path).partition("::")[0]).exists()]:
        parser.error(f"no such file or folder: {', '.join(missing)}")
    return given


def main(arguments: list[str] | None = None) -> int:
    """Command line."""
    given, tool = _given(arguments), shutil.which("compute-sanitizer")
    why = here.no_gpu("memcheck") or (None if tool else "compute-sanitizer is not on the PATH: it comes with the CUDA toolkit")
    if why is not None:
        print(why, file=sys.stderr)
        return 2
    chosen = list(dict.fromkeys(targets(given.steps or list(SHAPES), given.tests, given.differential)))     # each once
    jobs = given.jobs or jobs_here(os.cpu_count() or 1, float(query("memory.free")[0]))
    records, found = measure(chosen, tool, jobs)
    seen = any(found[target].errors for target in chosen if target.options == ("vector_copy",))
    kernels = [found[target] for target in chosen if not target.overruns]
    clean, skipped = sum(what.clean for what in kernels), sum(what.skipped for what in kernels)
    bad = len(kernels) - clean - skipped
    print(f"{clean} clean, {bad} not" + (f", {skipped} skipped" if skipped else "")
          + ("" if seen else "; an ordinary store past the end was not found: this says nothing"))
    if given.out:
        print(f"written: {recordings.save('memcheck', header(), records, given.out)}")
    return 0 if seen and not bad else 1


if __name__ == "__main__":
    sys.exit(main())
