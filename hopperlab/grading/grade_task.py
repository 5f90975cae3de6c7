# SPDX-License-Identifier: Apache-2.0
"""One answer graded: the own verdict, visible, hidden and on its speed, and nbval's run of the pristine notebook with the answer in it.

A task and its outcome are plain data, so that the same function serves local processes and a Dask cluster. It is pure: what the task
holds decides the outcome. Everything of the learner's runs in the sandbox (sandbox.py), nothing in this process.
"""
from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from typing import Any

import nbformat

from ..checking.exercise import PUBLIC

HIDDEN, VISIBLE, FAST = "hidden", "visible", "fast"
GRADERS = "public, as graders try it"
"""The key of the visible checks' inputs where the course's own edition is graded: other ones than the notebook shows."""
MOST_MESSAGE = 2_000        # characters of what nbval says of a check cell


SKIPPED = {"right": False, "findings": [{"step": "limit", "message": "Not run, because the visible check ran out of time."}], "limit": "time"}
NOT_TIMED = {"right": False, "findings": [{"step": "speed", "message": "Its speed was not estimated, because the answer is not right yet."}], "limit": ""}


@dataclass(frozen=True)
class Runners:
    """What runs untrusted things; tests give others. verdict and nbval have the signatures of verdict.verdict and nbval_run.run."""

    verdict: Callable[..., Any]
    nbval: Callable[..., Any]
    limits: Callable[[], Any]


def sandboxed(unsafe: bool) -> Runners:
    """The real ones. Raises NotReadyError where they cannot run."""
    from . import nbval_run, readiness, sandbox, verdict
    readiness.check(unsafe)
    return Runners(verdict.verdict, nbval_run.run, sandbox.Limits)


def perform(task: Mapping[str, Any], runners: Runners | None = None) -> dict[str, Any]:
    """Grade the answer of a task (grader.task_of). The outcome holds findings, what nbval passed, and seconds; never the answer itself.

    What runs out of time once is not run again: an answer that sleeps costs one cell's limit. nbval runs only where a verdict is right: without one
    no check cell earns anything. Hidden checks run in processes of their own, outside
    the notebook's kernel, so the notebook that nbval runs holds none.
    """
    run = runners or sandboxed(task["unsafe"])
    began = time.perf_counter()
    verdicts: dict[str, dict[str, Any]] = {}
    for which in (VISIBLE, HIDDEN, FAST):
        if which in task["cells"]:
            verdicts[which] = _skipped(which, verdicts.get(VISIBLE)) or _verdict(task, which, run)
    seconds = {"verdicts": time.perf_counter() - began}
    notebook = None
    if any(found["right"] for found in verdicts.values()):
        began = time.perf_counter()
        notebook = _nbval(task, run, fast=verdicts.get(FAST, {}).get("right", False))
        seconds["nbval"] = time.perf_counter() - began
    return {"exercise": task["exercise"], "digest": task["digest"], **verdicts, "nbval": notebook, "unsafe": task["unsafe"],
            "seconds": {name: round(value, 3) for name, value in seconds.items()}}


def _skipped(which: str, visible: dict[str, Any] | None) -> dict[str, Any] | None:
    """What stands in place of a verdict that is not reached: hidden where the visible check ran out of time, of speed where the answer is not right."""
    if visible is None or visible["right"]:
        return None
    return NOT_TIMED if which == FAST else SKIPPED if visible["limit"] == "time" else None


def _verdict(task: Mapping, which: str, run: Runners) -> dict[str, Any]:
    hidden = which == HIDDEN
    limits = _of_cell(run.limits())
    key = task["key"] if hidden or task["key"] != PUBLIC else GRADERS
    also = {"fast": True} if which == FAST else {"gpu": True} if task.get("gpu") else {}
    found = run.verdict(task["exercise"], task["answer"], dict(task["constants"]), key, hidden, limits, unsafe=task["unsafe"], **also)
    findings = [_finding(finding) for finding in found.findings]
    return {"right": bool(found.right) and not findings, "findings": findings, "limit": str(found.limit or ""), "form": str(getattr(found, "form", "")),
            "warnings": [str(text) for text in getattr(found, "warnings", ())]}


def _of_cell(limits: Any) -> Any:
    """The limits of one verdict, which does a check cell's work: its time is a cell's."""
    return replace(limits, seconds=min(limits.seconds, limits.cell_seconds)) if is_dataclass(limits) else limits


def _finding(finding: Any) -> dict[str, str]:
    step, message = (finding["step"], finding["message"]) if isinstance(finding, Mapping) else (finding.step, finding.message)
    return {"step": str(step), "message": str(message)}


def _nbval(task: Mapping, run: Runners, fast: bool) -> dict[str, Any]:
    """What nbval passed. fast: whether the cell of speed is run: one that fails anyway could only take the other cells' time."""
    notebook = nbformat.reads(task["notebook"], as_version=4)
    notebook.cells = [cell for cell in notebook.cells if fast or cell.id != task["cells"].get(FAST)]
    found = run.nbval(notebook, run.limits(), unsafe=task["unsafe"])
    said = {which: str(found.messages.get(cell, ""))[:MOST_MESSAGE] for which, cell in task["cells"].items() if which in (VISIBLE, FAST)}
    return {"cells": {str(cell): bool(passed) for cell, passed in sorted(found.cells.items())}, "error": str(found.error or ""), "messages": said}


def credited(outcome: Mapping[str, Any], cells: Mapping[str, str]) -> dict[str, bool]:
    """Which check cells earn their points. cells: the ids of 'answer', 'visible', 'hidden' and 'fast'.

    visible, fast: nbval passed that cell and the verdict is right. hidden: the hidden verdict is right, and nbval ran the answer cell without
    failure and came to its end.
    """
    notebook = outcome["nbval"] or {"cells": {}, "error": "not run"}
    passed = notebook["cells"]
    ran = not notebook["error"] and passed.get(cells["answer"], False)
    return {which: outcome[which]["right"] and ran and (which == HIDDEN or passed.get(cells[which], False))
            for which in (VISIBLE, HIDDEN, FAST) if which in cells}
