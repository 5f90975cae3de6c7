# SPDX-License-Identifier: Apache-2.0
"""What lessons/own_times.json keeps: the estimated times of the solutions of exercises that ask for speed, with every edition's constants.

`python -m hopperlab.authoring own-times` writes it anew; tests/lessons/test_own_times.py says when that is due.
"""
from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import nbformat

import hopperlab as hl

from ...checking import answers, speed
from ...checking.exercise import Exercise
from ...grading import generate, regions
from ...lessons import catalogue
from ...lessons.own_times import FILE, key_of
from .. import hashes


def timed() -> list[Exercise]:
    """The exercises whose answers are compared with the course's own."""
    return [one for one in catalogue.every().values() if one.speed is not None and one.speed_of(one.setting({})).than == speed.OWN]


def settings(exercise: Exercise) -> Iterator[Mapping[str, Any]]:
    """Every choice of constants, the course's own first."""
    return (dict(zip(exercise.constants, values)) for values in itertools.product(*exercise.constants.values()))


def own_cell(exercise: Exercise) -> str:
    """The solution's answer cell, with its marks."""
    path = next(path for path in generate.solutions(hashes.ROOT) if path.name.startswith(f"{exercise.lesson}_"))
    return generate.answers_of(nbformat.read(path, as_version=4))[f"answer-{exercise.id.replace('.', '-')}"]


def estimated_us(exercise: Exercise, setting: Mapping[str, Any]) -> float:
    """Of the solution with these constants."""
    cell = regions.solution_without_stubs(generate.with_constants(exercise, own_cell(exercise), setting))
    module = hl.RawModule(code=answers.body(exercise, cell), name=f"{exercise.name}.cu", backend="emulator", strict=True)
    return sum(one.us for one in speed.estimated(exercise.speed_of(setting), module))


def write() -> None:
    """Estimate them all, and keep the microseconds."""
    found = {exercise.id: {key_of(setting): round(estimated_us(exercise, setting), 2) for setting in settings(exercise)} for exercise in timed()}
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
