# SPDX-License-Identifier: Apache-2.0
"""The pages: one for the teacher (index.html), and one for each learner (learners/NAME.html), which holds nothing of hidden checks.

Self-contained HTML from templates/, without scripts; Jinja2 escapes every text. A policy in each page forbids scripts and anything from outside.
"""
from __future__ import annotations

import hashlib
import re
import sys
import tempfile
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .marks import Exercise, Report, Row

TEMPLATES = Path(__file__).with_name("templates")
TOPS = sorted({*"""home root Users tmp var opt srv mnt media usr etc dev proc boot lib lib64 data scratch run private work workspace app content export exports net nfs gpfs
               lustre cluster afs nix snap""".split(), *(path.parts[1] for path in (Path.home(), Path.cwd(), Path(tempfile.gettempdir()), Path(sys.prefix),
                                                                                    Path(sys.base_prefix), TEMPLATES)
                                                         if len(path.parts) > 1)})
PLACE = re.compile(rf"(?:file://|(?<![\w./<]))/(?:{'|'.join(map(re.escape, TOPS))})(?:/[^\s:'\"(),;<>|]+)+/?")
STATUS = {
    "right": ("✓", "right", "good"), "partly": ("◐", "partly right", "part"), "wrong": ("✗", "not right yet", "bad"), "not answered": ("–", "not answered", "none"),
    "missing": ("–", "its answer cell is missing", "none"), "not handed in": ("–", "not handed in", "none"), "unreadable": ("!", "could not be read", "bad"),
    "not graded": ("!", "could not be graded", "bad"),
}
"""Sign, words and colour class of each status; the words carry the meaning, not the colour."""


def pages(report: Report) -> dict[str, str]:
    """The text of each page by its path below the report's folder. Raises ImportError without Jinja2."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["points"] = points
    names = slugs([row.learner.key for row in report.rows])
    shared = {"status": STATUS}
    made = {"index.html": environment.get_template("teacher.html.j2").render(report=report, names=names, counts=counts(report), **shared)}
    for row in report.rows:
        view = learner_view(report, row)
        made[f"learners/{names[row.learner.key]}.html"] = environment.get_template("learner.html.j2").render(view=view, **shared)
    return made


def points(value: float | None) -> str:
    """2.5, 3, or – where nobody has decided yet."""
    return "–" if value is None else f"{round(value, 2):g}"


def slugs(keys: Sequence[str]) -> dict[str, str]:
    """A file name for each learner: readable ASCII, and told apart by a digest where two would be the same."""
    plain = {key: re.sub(r"[^a-z0-9]+", "-", unicodedata.normalize("NFKD", key).encode("ascii", "ignore").decode().lower()).strip("-")[:60] for key in keys}
    shared = {slug for slug in plain.values() if list(plain.values()).count(slug) > 1 or not slug}
    return {key: slug if slug not in shared else f"{slug or 'learner'}-{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()[:8]}" for key, slug in plain.items()}


def learner_view(report: Report, row: Row) -> Mapping[str, Any]:
    """All that a learner's page may say. Built here rather than in the template, so that nothing else can get onto it."""
    return {
        "title": report.title, "name": row.learner.name, "points": row.points, "of": row.of, "open": row.open, "unsafe": report.unsafe,
        "files": [{"path": s.path.rsplit("/", 1)[-1], "error": no_places(s.error), "earlier": len(s.others), "days_late": s.days_late,
                   "notes": [no_places(n) for n in s.notes]} for s in row.files],
        "exercises": [_exercise_view(exercise) for exercise in row.exercises],
        "manual": [{"cell": m.cell, "exercise": m.exercise, "points": m.points, "of": m.of, "reason": m.reason, "text": m.text} for m in row.manual],
    }


def _exercise_view(exercise: Exercise) -> Mapping[str, Any]:
    checks = [{"kind": c.kind, "points": c.points, "of": c.of, "passed": c.passed, "messages": [no_places(message) for _, message in c.for_learner()]}
              for c in exercise.checks]
    return {"exercise": exercise.exercise, "title": exercise.title, "status": exercise.status, "points": exercise.points, "of": exercise.of, "checks": checks,
            "notes": [no_places(note) for note in exercise.notes], "reason": exercise.reason, "answer": exercise.answer}


def no_places(text: str) -> str:
    """A message without the grader's folders: of a path that lies below one of the machine's, its last name."""
    return PLACE.sub(lambda found: found[0].rstrip("/").rsplit("/", 1)[-1], text)


def counts(report: Report) -> list[Mapping[str, Any]]:
    """For each exercise: how many are right, partly right and wrong, and the step that most failed answers failed at."""
    made = []
    for index, (name, title, of) in enumerate(report.exercises):
        column = [row.exercises[index] for row in report.rows]
        steps = [c.findings[0][0] for e in column for c in e.checks[:1] if e.status in ("wrong", "partly") and c.findings]
        by = {status: sum(e.status == status for e in column) for status in STATUS}
        rest = sum(by[s] for s in ("not answered", "missing", "not handed in"))
        made.append({"exercise": name, "title": title, "of": of, "by": by, "rest": rest, "mean": sum(e.points for e in column) / max(1, len(column)),
                     "step": max(sorted(set(steps)), key=steps.count) if steps else ""})
    return made
