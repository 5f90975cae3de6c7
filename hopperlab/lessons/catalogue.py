# SPDX-License-Identifier: Apache-2.0
"""The exercises of all lessons, found by id: a room that holds an exercises.py lists its EXERCISES there. `check` is what a check cell calls (`hl.check`).

A new exercise is an entry of its lesson's EXERCISES; what is said of its wrong values may stand in exercise_words.py beside it; nothing here changes.
"""
from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import hopperlab as hl

from ..runtime.language import say
from ..checking.check import CheckFailed, judge, text_of
from ..checking.exercise import PUBLIC, Exercise, ExerciseError
from ..checking.value_words import Words


@cache
def every() -> dict[str, Exercise]:
    """All exercises by id, in order."""
    rooms = sorted(path.parent.name for path in Path(__file__).parent.glob("l*/exercises.py"))
    lists = [import_module(f"{__package__}.{room}.exercises").EXERCISES for room in rooms]
    words = {name: told for room in rooms for name, told in _words(room).items()}
    return {exercise.id: replace(exercise, words=words.get(exercise.id)) for exercises in lists for exercise in exercises}


def _words(room: str) -> dict[str, Words]:
    """By exercise, what the room's exercise_words.py says of wrong values; nothing where it has none."""
    if not (Path(__file__).parent / room / "exercise_words.py").is_file():
        return {}
    return import_module(f"{__package__}.{room}.exercise_words").WORDS


def find(name: str) -> Exercise:
    """The exercise '04.1'. Raises ExerciseError with those there are."""
    if name not in every():
        raise ExerciseError(f"there is no exercise {name!r}; there are: {', '.join(every())}")
    return every()[name]


def check(exercise: str, answer: Any, *, hidden: str | None = None, fast: bool = False, **constants: Any) -> None:
    """Check an answer and print one line, or raise CheckFailed with what is wrong first. Warnings that a right answer leaves, and its estimated times, are told on the
    standard error output: they do not decide, and the line stays the same.

    exercise:  its id, such as '04.1'
    answer:    the module that a %%cuda cell made, or the function that a Python cell defined; also the cell's text
    hidden:    a key: other shapes and seeds, drawn by the key, as graders do
    fast:      an answer that is right must also be fast enough by the estimate (checking/speed.py), in an exercise that asks for it
    constants: those of the exercise, such as STAGES=4; they are the ones its text names
    The emulator judges first, under every schedule; where kernels run on a GPU, a worker process then runs the answer there too.
    """
    asked = find(exercise)
    try:
        text = text_of(asked, answer)
    except CheckFailed as failed:
        raise CheckFailed(say(str(failed))) from None
    verdict = judge(asked, text, constants, key=hidden or PUBLIC, hidden=hidden is not None, gpu=hl.backend() == "gpu", fast=fast)
    if not verdict.right:
        raise CheckFailed(say(str(verdict)))
    print(say(str(verdict) if hidden is None else f"{verdict} (hidden)"))
    if verdict.beside:
        print(say(verdict.beside), file=sys.stderr)
