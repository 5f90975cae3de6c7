# SPDX-License-Identifier: Apache-2.0
"""What a person decides: points of cells graded by hand, and points that replace the computed ones. A CSV file of learner, exercise, points, reason."""
from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from .csv_cells import unshielded
from .learners import table
from .submission_files import InputError, readable

COLUMNS = {"learner": ("learner", "id", "student"), "exercise": ("exercise", "cell", "grade_id", "question"), "points": ("points", "score", "grade"),
           "reason": ("reason", "comment", "feedback")}
MOST_REASON = 2_000


@dataclass(frozen=True)
class Override:
    """Points given by a person, and why. They are final: the late rule does not touch them."""

    points: float
    reason: str


def read(path: Path) -> dict[tuple[str, str], Override]:
    """By learner and exercise (or the grade_id of a cell). A line without points says nothing. Raises InputError with the line that is wrong."""
    found: dict[tuple[str, str], Override] = {}
    for number, row in table(path, COLUMNS, needs=("learner", "exercise", "points")):
        key = (unshielded(row.get("learner", "").strip()), row.get("exercise", "").strip())
        if not row.get("points", "").strip():
            continue
        try:
            points = float(row.get("points", ""))
        except ValueError:
            points = math.nan
        if not math.isfinite(points) or points < 0:
            raise InputError(f"{path}, line {number}: {readable(row.get('points', ''))!r} is no number of points")
        if not all(key):
            raise InputError(f"{path}, line {number}: a learner and an exercise are needed")
        if key in found:
            raise InputError(f"{path}, line {number}: {key[0]}, {key[1]} stands there twice")
        found[key] = Override(points, readable(" ".join(row.get("reason", "").split()))[:MOST_REASON])
    return found


def check(overrides: Mapping[tuple[str, str], Override], learners: Collection[str], items: Mapping[str, float], path: Path) -> None:
    """Raises InputError for a learner or an exercise that nobody knows: a misspelt line must not go unnoticed. items: most points by name."""
    for (learner, item), override in overrides.items():
        if learner not in learners:
            raise InputError(f"{path}: there is no learner {learner!r}; there are: {', '.join(sorted(learners)[:8])} …")
        if item not in items:
            raise InputError(f"{path}: there is no exercise or cell {item!r}; there are: {', '.join(items)}")
        if override.points > items[item]:
            raise InputError(f"{path}: {learner}, {item}: {override.points:g} points, and there are only {items[item]:g}")
