# SPDX-License-Identifier: Apache-2.0
"""`hopperlab grade`: from a folder of submitted notebooks to a grade sheet. docs/grading.md tells how a teacher uses it."""
from __future__ import annotations

import argparse
import os
import sys
from dataclasses import asdict
from datetime import datetime
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..grading.edition import Edition
    from ..grading.marks import Report
    from ..grading.submissions import LateRule

from ..runtime.progress import Bar

DETAILS = ("SUBMISSIONS is a folder or a zip as nbgrader, Canvas or Moodle give it, one folder or file a learner, or a single notebook. Only the texts of answer cells "
           "are taken; they are put into the pristine notebook, which runs in a sandbox without network. Grades, reasons and a page for each learner go to --out. "
           "A run that was stopped goes on where it was when the same command is given again. Exit code 0: graded; 1: graded, but the grader itself failed on some "
           "answers (run it again); 2: nothing was graded, and a message says why; 3: a disk is full: free some, and give the same command again. See docs/grading.md.")


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hopperlab grade`."""
    add = parser.add_argument
    add("submissions", type=_given, metavar="SUBMISSIONS", help="a folder, a zip, or one notebook")
    add("--assignment", default="", metavar="WHAT", help="what was set: a lesson such as 04, a solution notebook, or the folder that `hopperlab assign` made "
                                                         "(default: the course's own exercises, those that somebody handed in)")
    add("--out", type=Path, default=Path("report"), metavar="DIR", help="where reports and finished results go (default report/)")
    add("--roster", type=Path, metavar="CSV", help="who is in the class: columns such as id, name, email, as Canvas and Moodle export them")
    add("--deadline", metavar="TIME", help="2026-11-03T23:59, in this machine's zone unless it names another, such as +01:00")
    add("--late-penalty", default="", metavar="PERCENT", help="points lost for each day begun after the deadline, such as 10, or `refuse` (default: late is "
                                                              "flagged, and costs nothing)")
    add("--overrides", type=Path, metavar="CSV", help="points that a person decided: columns learner, exercise (or a cell's grade_id), points, reason")
    add("--regrade", action="append", default=[], metavar="LEARNER[/EXERCISE]", help="grade this again, although there is a result; may be given more than once")
    add("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes that grade side by side (default: one a CPU)")
    add("--dask", default="", metavar="ADDRESS", help="grade on the Dask cluster whose scheduler is there, such as tcp://10.0.0.5:8786, instead")
    add("--unsafe", action="store_true", help="grade without isolation where this machine has none; the report says so")
    add("--gpu", action="store_true", help="run answers that the emulator has cleared on this machine's Hopper GPU too, each launch in a worker process with "
                                           "a time limit; they run there with your rights")
    add("--rank", action="store_true", help="time the right answers to lesson 14 against cuBLAS on this machine's Hopper GPU, and list them by speed")
    add("--course", type=Path, metavar="FOLDER", help="the course's folder (default: found from here upwards)")


def _given(word: str) -> Path:
    """The path of SUBMISSIONS. '' is none, although Path takes it for the folder that one stands in: a variable of a script was empty."""
    if not word:
        raise argparse.ArgumentTypeError("give a folder, a zip or a notebook; this is empty")
    return Path(word)


NEEDED = ("nbformat", "nbval", "ipykernel", "jinja2")


class _Unusable(ValueError):
    """An option that cannot be used."""


def run(given: argparse.Namespace) -> int:
    """Grade; returns the exit code."""
    from ..grading.grade_pool import PoolError
    from ..grading import results as grader_disk
    from ..grading.grader import Refused
    from ..grading.submission_files import InputError
    try:
        return _grade(given)
    except (InputError, PoolError, Refused, _Unusable) as problem:
        print(f"hopperlab grade: {problem}", file=sys.stderr)
        return 2
    except grader_disk.DiskFull as problem:
        print(f"\nhopperlab grade: {problem}", file=sys.stderr)
        return 3
    except OSError as problem:
        if problem.errno not in grader_disk.FULL:
            raise
        print(f"\nhopperlab grade: {grader_disk.DiskFull(problem.filename or given.out)}", file=sys.stderr)
        return 3
    except ImportError as problem:
        if (problem.name or "").startswith("hopperlab"):
            raise
        print(f"hopperlab grade needs {problem.name}: pip install 'hopperlab[lab]'", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        kept = f"What is finished is kept in {given.out}; the same command goes on from there." if given.out.is_dir() else "Nothing was finished yet."
        print(f"\nStopped. {kept}", file=sys.stderr)
        return 130


def _grade(given: argparse.Namespace) -> int:
    if not given.submissions.exists():
        raise _Unusable(f"there is no such folder or file: {given.submissions}")
    for name in NEEDED:
        import_module(name)
    from ..authoring.learner import workspace
    from ..grading import edition, grader, learners, overrides, reports
    if given.workers < 1:
        raise _Unusable("--workers must be at least 1")
    if given.overrides and given.overrides.resolve() == (given.out / "to-grade.csv").resolve():
        raise _Unusable(f"{given.overrides} is written anew by each run: fill in a copy of it outside {given.out}")
    root = workspace.find_root(given.course)
    late = late_rule(given.deadline, given.late_penalty)
    asked = grader.Asked(
        given.submissions, edition.load(root, given.assignment), given.out, learners.roster(given.roster) if given.roster else None, late,
        overrides.read(given.overrides) if given.overrides else {}, given.overrides, given.regrade, bool(given.assignment), given.unsafe,
        given.gpu, given.workers, given.dask)
    if given.unsafe:
        print("--unsafe: what learners wrote runs on this machine without isolation, with your rights.", file=sys.stderr)
    with _Bar() as bar:
        report, timing = grader.grade(asked, bar.tell)
        page = reports.write_all(report, timing, given.out)[0]
    if given.rank:
        from ..grading import rank
        reports.write_all(ranked(report, asked.edition, rank), timing, given.out)
    print(summary(report, page))
    return 1 if report.not_graded else 0


def late_rule(deadline: str | None, penalty: str) -> LateRule | None:
    """The late rule of the two options; None without a deadline. Raises _Unusable for what is no time or no share."""
    from ..grading.submissions import LateRule
    if not deadline:
        if penalty:
            raise _Unusable("--late-penalty needs a --deadline")
        return None
    try:
        time = datetime.fromisoformat(deadline)
    except ValueError:
        raise _Unusable(f"--deadline {deadline}: give a time such as 2026-11-03T23:59 or 2026-11-03T23:59+01:00") from None
    time = time if time.tzinfo else time.astimezone()
    if penalty.strip() == "refuse":
        return LateRule(time, None)
    try:
        share = float(penalty.strip().rstrip("%") or 0) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise _Unusable(f"--late-penalty {penalty}: give the percent of the points lost a day, such as 10, or `refuse`")
    return LateRule(time, share)


def ranked(report: Report, edition: Edition, rank: ModuleType) -> Report:
    """The report with the right answers to lesson 14's last exercise timed, fastest first. rank: the module grading/rank.py."""
    name = rank.EXERCISE
    right = {row.learner.key: e.answer for row in report.rows for e in row.exercises if e.exercise == name and e.correct}
    if not right:
        print(f"--rank: nobody has a right answer to {name}", file=sys.stderr)
        return report
    rows = rank.rank(right, constants=edition.constants.get(name), progress=lambda text: print(f"timing {text}", file=sys.stderr, flush=True))
    return report.with_leaderboard(asdict(row) for row in rows)


def summary(report: Report, page: Path) -> str:
    """What is said at the end: how many learners, what is right, what is left to do, and where to look."""
    checked = [e for row in report.rows for e in row.exercises]
    right = sum(e.status == "right" for e in checked)
    errors = sum(bool(s.error) for row in report.rows for s in row.files)
    open_ = sum(row.open for row in report.rows)
    lines = [f"{len(report.rows)} learner{'s' * (len(report.rows) != 1)}, {len(checked)} exercises, {right} right."]
    if errors:
        lines.append(f"{errors} submissions are missing or could not be read; the report says why.")
    if open_:
        lines.append(f"{open_} cells wait for a person: fill in a copy of {page.parent / 'to-grade.csv'} and give it to --overrides.")
    if report.not_graded:
        lines.append(f"{report.not_graded} answers could not be graded; give the same command again.")
    if report.timed_out:
        some = ", ".join(report.timed_out[:5]) + (" …" if len(report.timed_out) > 5 else "")
        lines.append(f"{len(report.timed_out)} answer{'s' * (len(report.timed_out) != 1)} ran out of time: {some}; --regrade {report.timed_out[0]} grades one again.")
    if report.warnings:
        lines.append(f"{len(report.warnings)} thing{'s' * (len(report.warnings) != 1)} to look at, which {page} lists, such as: {report.warnings[0]}")
    if report.unsafe:
        lines.append("Graded without isolation (--unsafe); the report says so.")
    return "\n".join([*lines, f"Read {page}"])


class _Bar:
    """A progress bar: one line that is rewritten on a terminal, a line for each tenth elsewhere."""

    FORM = "grading [{bar:24}] {n_fmt}/{total_fmt} answers, {rate_inv_fmt}, {remaining} left"

    def __init__(self, stream=None):
        self.stream, self.bar, self.shown = stream or sys.stderr, None, None

    def __enter__(self) -> _Bar:
        return self

    def tell(self, done: int, total: int) -> None:
        """The grader's `tell`: the first call says what an earlier run had finished."""
        if not total:
            return
        if self.bar is None:
            self.bar = Bar(self.FORM, total, done=done, keep=True, unit="answer", stream=self.stream)
        tenth = 10 * done // total
        if self.bar.terminal or tenth != self.shown:
            self.bar.tell(done)
            self.shown = tenth

    def __exit__(self, *problem) -> None:
        if self.bar is not None:
            self.bar.close()
