# SPDX-License-Identifier: Apache-2.0
"""A class for the grading tests: submissions made of the solution of lesson 04, and graders that only look at the text, for what needs no judging."""
from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import nbformat

from hopperlab.grading import edition, generate, grade_task, regions

ROOT = Path(__file__).resolve().parents[2]
STEM = "04_mbarrier"
PHASES, RING = "answer-04-1", "answer-04-2"


@cache
def solution():
    return nbformat.read(ROOT / "solutions" / f"{STEM}.ipynb", as_version=4)


@cache
def lesson():
    """The course's edition of lesson 04."""
    return edition.load(ROOT, "04")


def right() -> dict[str, str]:
    """The solution's answers, as somebody would hand them in."""
    return {cell: regions.solution_without_stubs(text) for cell, text in generate.answers_of(solution()).items()}


def notebook(answers: Mapping[str, str]):
    """A learner's notebook."""
    return generate.with_answers(generate.exercise_notebook(solution()), answers)


def hand_in(folder: Path, answers: Mapping[str, str], name: str = f"{STEM}.ipynb") -> Path:
    """Write one submission; returns its file."""
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook(answers), folder / name)
    return folder / name


def cells(*sources: str, **metadata) -> bytes:
    """A small notebook of code cells, as bytes."""
    made = [{"cell_type": "code", "id": f"c{i}", "metadata": metadata, "source": s, "outputs": [], "execution_count": None} for i, s in enumerate(sources)]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made}).encode()


# --- graders that look at the text alone, so that tests of order, storing and workers are quick ------------------------
def _verdict(exercise, text, constants, key, hidden, limits, unsafe=False):
    wrong = "WRONG" in text or hidden and "HALF" in text
    secret = "secret shape 17 x 23" if hidden else "x[3] is 5, expected 6"
    return SimpleNamespace(right=not wrong, findings=(SimpleNamespace(step="values", message=f"{secret} <script>alert(1)</script>"),) if wrong else (), limit="")


def _nbval(pristine, limits, unsafe=False):
    return SimpleNamespace(cells={cell.id: True for cell in pristine.cells}, error="", messages={})


RUNNERS = grade_task.Runners(_verdict, _nbval, lambda: None)


def quick(task):
    """Grade by the words WRONG and HALF in the answer."""
    return grade_task.perform(task, RUNNERS)


def mortal(task):
    """The same; an answer with the word DIES ends the process that judges it, each time."""
    if "DIES" in task["answer"]:
        os._exit(9)
    return quick(task)


def slow(task):
    """The same in 0.3 s, and written down in the file that the answer names in a line `# log FILE`."""
    _log(task, "begin")
    time.sleep(0.3)
    outcome = quick(task)
    _log(task, "end")
    return outcome


def _log(task, word: str) -> None:
    named = next(line for line in task["answer"].splitlines() if line.startswith("# log "))
    with open(named.removeprefix("# log "), "a", encoding="utf-8") as stream:
        stream.write(f"{word} {task['digest']}\n")


def words(log: Path, word: str) -> Counter:
    """How often each digest stands in the log behind `word`."""
    return Counter(line.split()[1] for line in log.read_text().splitlines() if line.startswith(word)) if log.exists() else Counter()
