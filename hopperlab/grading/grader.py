# SPDX-License-Identifier: Apache-2.0
"""A class graded: submissions in, points and reasons out.

Each answer becomes a task (grade_task.py), which runs in worker processes or on a cluster (grade_pool.py); outcomes are stored as they come
(results.py), so that a run that was killed goes on. The same submissions give the same Report: times are kept apart from it.
"""
from __future__ import annotations

import compileall
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import nbformat

from .. import __version__
from ..runtime import backend
from . import grade_child, grade_cluster, grade_pool, likeness, marks, readiness, sandbox
from .edition import PACKAGE, Edition
from .grade_task import perform
from .learners import Roster
from .marks import Report
from .overrides import Override
from .results import DiskFull, Results
from .submission_files import InputError
from .submissions import LateRule, Submission, collected


class Refused(RuntimeError):
    """Nothing isolates on this machine, and --unsafe was not given."""


@dataclass(frozen=True)
class Asked:
    """What to grade, against what, and how."""

    submissions: Path
    edition: Edition
    out: Path
    roster: Roster | None = None
    late: LateRule | None = None
    overrides: Mapping[tuple[str, str], Override] = field(default_factory=dict)
    overrides_path: Path | None = None
    regrade: Sequence[str] = ()
    all_sheets: bool = False               # also notebooks that nobody handed in
    unsafe: bool = False
    gpu: bool = False
    workers: int = 2
    dask: str = ""
    work: grade_child.Work = perform
    matches: Callable[[str, str], bool] | None = None


Tell = Callable[[int, int], None]
"""tell(finished, all): how far the grading is; called once before the first task."""


def grade(asked: Asked, tell: Tell = lambda done, all: None) -> tuple[Report, dict[str, Any]]:
    """Grade everything that is not graded yet; returns the report and, apart from it, the times.

    Raises Refused without isolation, InputError for submissions, roster or overrides that cannot be used.
    """
    isolation = _isolation(asked)
    if asked.gpu and backend.backend() != "gpu":
        raise Refused("--gpu needs a Hopper GPU, CuPy and HOPPERLAB_BACKEND left unset; the emulator alone judges without it")
    handed_in = collected(asked.submissions, asked.edition, asked.roster, asked.late, skip=asked.out)
    submissions = handed_in.submissions
    if not any(submission.path for submission in submissions):
        raise InputError(f"{asked.submissions}: no notebook was found there")
    tasks = tasks_of(submissions, asked.edition, asked.unsafe, asked.gpu)
    people = {submission.learner.key for submission in submissions}
    marks.check_overrides(asked.overrides, people, asked.edition, asked.overrides_path)
    compileall.compile_dir(PACKAGE, quiet=2, workers=1)           # sandboxes cannot write bytecode, and would compile the package each time
    results = Results(asked.out / "results")
    for digest, exercise in _regraded(asked.regrade, people, tasks, asked.edition):
        results.forget(exercise, digest)
    outcomes = _run(asked, list({task["digest"]: task for task in tasks.values()}.values()), results, tell)
    report = marks.report(submissions, asked.edition, {key: outcomes[task["digest"]] for key, task in tasks.items()}, asked.overrides,
                          isolation=isolation, version=__version__, all_sheets=asked.all_sheets, matches=asked.matches or _matcher(asked.edition),
                          warnings=handed_in.warnings, public_forms=_public_forms(asked.edition))
    return report, marks.timing(tasks, outcomes)


def _isolation(asked: Asked) -> str:
    if asked.dask:
        return "none (--unsafe)" if asked.unsafe else "on the cluster's workers"          # each task asks there, and is not run without
    try:
        readiness.check(asked.unsafe)
        return "none (--unsafe)" if asked.unsafe else str(sandbox.required())
    except (sandbox.SandboxError, readiness.NotReadyError) as problem:
        raise Refused(str(problem)) from None


def tasks_of(submissions: Iterable[Submission], edition: Edition, unsafe: bool, gpu: bool = False) -> dict[tuple[str, str], dict[str, Any]]:
    """By learner and exercise: what to run. Answers that are missing, or still what a learner starts from, need no run."""
    made = {}
    digests = {name: edition.digest(name) for sheet in edition.sheets.values() for name in sheet.exercises}
    for submission in submissions:
        if submission.error or not submission.notebook:
            continue
        sheet = edition.sheets[submission.notebook]
        for exercise in sheet.exercises:
            answer = (submission.answers or {}).get(sheet.cell_of(exercise))
            if answer is not None and marks.attempted(answer, sheet.skeletons[sheet.cell_of(exercise)]):
                made[submission.learner.key, exercise] = task_of(edition, exercise, answer, digests[exercise], unsafe, gpu)
    return made


def task_of(edition: Edition, exercise: str, answer: str, rests_on: str, unsafe: bool, gpu: bool = False) -> dict[str, Any]:
    """One task, plain data. Its digest covers the answer and what it is graded against, so equal answers are one task."""
    sheet = edition.sheet_of(exercise)
    cells = {"answer": sheet.cell_of(exercise), **{marks.KINDS[p.kind]: p.cell for p in sheet.parts if p.exercise == exercise and p.kind in marks.KINDS}}
    words = (exercise, __version__, rests_on, "unsafe" if unsafe else "isolated", *(("gpu",) if gpu else ()), answer)
    return {"digest": hashlib.sha256("\0".join(words).encode()).hexdigest()[:40], "exercise": exercise, "answer": answer,
            "constants": dict(edition.constants[exercise]), "key": edition.key, "notebook": nbformat.writes(sheet.piece(exercise, answer)),
            "cells": cells, "unsafe": unsafe, "gpu": gpu}


def _regraded(regrade: Sequence[str], people: set[str], tasks: Mapping[tuple[str, str], Mapping], edition: Edition) -> list[tuple[str, str]]:
    """(digest, exercise) of what --regrade names: LEARNER/EXERCISE, or LEARNER for all of theirs. Raises InputError for what there is not."""
    exercises = [name for sheet in edition.sheets.values() for name in sheet.exercises]
    found = []
    for given in regrade:
        learner, _, exercise = (given, "", "") if given in people else given.rpartition("/")
        if learner not in people or exercise and exercise not in exercises:
            raise InputError(f"--regrade {given}: give LEARNER/EXERCISE, such as {min(people)}/{exercises[0]}")
        found += [(task["digest"], name) for (who, name), task in tasks.items() if who == learner and exercise in ("", name)]
    return found


def _run(asked: Asked, tasks: list[dict[str, Any]], results: Results, tell: Tell) -> dict[str, dict[str, Any]]:
    outcomes = {task["digest"]: results.get(task["exercise"], task["digest"]) for task in tasks}
    todo = [task for task in tasks if outcomes[task["digest"]] is None]
    tell(len(tasks) - len(todo), len(tasks))
    done = grade_cluster.run(todo, asked.dask, asked.work) if asked.dask else grade_pool.run_local(todo, asked.workers, asked.work)
    for count, outcome in enumerate(done if todo else (), 1):
        if "full" in outcome:
            raise DiskFull(outcome["full"])
        results.put(outcome)
        outcomes[outcome["digest"]] = outcome
        tell(len(tasks) - len(todo) + count, len(tasks))
    return outcomes


def _matcher(edition: Edition) -> Callable[[str, str], bool]:
    """Whether an answer is the course's published solution; never, where the course's own edition is graded against a notebook outside the course."""
    if edition.solutions is None:
        return lambda exercise, answer: False
    return partial(likeness.matches_public, edition.solutions)


def _public_forms(edition: Edition) -> Callable[[str], frozenset[str]]:
    """By exercise: the forms of what the published solution compiles to; none where there is no published solution."""
    if edition.solutions is None:
        return lambda exercise: frozenset()
    return cache(lambda exercise: likeness.public_forms(edition.solutions, exercise, edition.constants[exercise]))
