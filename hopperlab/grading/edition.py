# SPDX-License-Identifier: Apache-2.0
"""What submissions are graded against: pristine notebooks with their parts and points, constants and key, from solutions/ or from `hopperlab assign`.

A sheet is one notebook; a part is a cell with points: a check, a hidden check, one of speed, or a cell that a person grades by a rubric.
"""
from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from . import generate, keys, regions
from ..checking.exercise import PUBLIC
from ..lessons.catalogue import find
from .pristine import constants_of
from .submission_files import InputError

MANUAL = "manual"
EDITION, INSTRUCTOR, SOLUTIONS = "edition.json", "instructor", "solutions"
HEADING = re.compile(r"##\s+(\d\d[a-z]?\.\d+)\b(?:\s*·\s*(.*))?")
RUBRIC = re.compile(r"===\s*BEGIN MARK SCHEME\s*===\s*(.*?)\s*===\s*END MARK SCHEME\s*===", re.DOTALL)
PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Part:
    """One cell with points. kind: 'check', 'hidden', 'fast' or 'manual'; rubric: how a person grades it (nbgrader's mark scheme)."""

    cell: str
    grade_id: str
    exercise: str
    kind: str
    points: float
    rubric: str = ""
    constants: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Sheet:
    """One pristine notebook: answers emptied, hidden checks taken out, stored outputs kept."""

    stem: str
    title: str
    notebook: NotebookNode
    parts: tuple[Part, ...]
    answers: Mapping[str, str]             # by cell id: the exercise it answers ('' for a cell that a person grades)
    skeletons: Mapping[str, str]           # by cell id: what a learner starts from
    titles: Mapping[str, str]              # by exercise

    @property
    def lesson(self) -> str:
        """'04'."""
        return self.stem.split("_")[0]

    @property
    def exercises(self) -> list[str]:
        """The exercises that are checked, in order."""
        return [name for name in self.answers.values() if name]

    @property
    def points(self) -> float:
        """All that can be had."""
        return sum(part.points for part in self.parts)

    def piece(self, exercise: str, answer: str) -> NotebookNode:
        """The pristine notebook with this answer, without pictures and the cells of other exercises: what nbval runs."""
        made = generate.with_answers(self.notebook, {self.cell_of(exercise): answer})
        kept, current = [], None
        for cell in made.cells:
            heading = HEADING.match(cell.source) if cell.cell_type == "markdown" else None
            known = generate.role(cell)
            current = known[1] if known else heading[1] if heading else current
            hidden = known is not None and known[0] == generate.HIDDEN
            if cell.cell_type == "code" and current in (None, exercise) and not hidden and not cell.id.startswith("picture-"):
                kept.append(cell)
        made.cells = kept if any("show." in cell.source for cell in kept) else [_without_figures(cell) for cell in kept]
        return made

    def cell_of(self, exercise: str) -> str:
        """The id of the exercise's answer cell."""
        return next(cell for cell, name in self.answers.items() if name == exercise)


def _without_figures(cell: NotebookNode) -> NotebookNode:
    """Pictures are not drawn, so Matplotlib is not loaded for them."""
    cell.source = "\n".join(line for line in cell.source.split("\n") if line != "from hopperlab import show")
    return cell


@dataclass(frozen=True)
class Edition:
    """The sheets of a class, by stem, and the key that its hidden checks are drawn by."""

    key: str
    sheets: Mapping[str, Sheet]
    constants: Mapping[str, Mapping[str, Any]]
    solutions: Path | None                 # the course's folder, whose published solutions answers are compared with

    def digest(self, exercise: str) -> str:
        """What a result of this exercise rests on besides the answer: its cells, constants, key and the package itself."""
        sheet = self.sheet_of(exercise)
        words = [exercise, self.key, json.dumps(self.constants[exercise], sort_keys=True), package_digest(), nbformat.writes(sheet.piece(exercise, ""))]
        return hashlib.sha256("\0".join(words).encode()).hexdigest()

    def sheet_of(self, exercise: str) -> Sheet:
        """The sheet that holds the exercise."""
        return next(sheet for sheet in self.sheets.values() if exercise in sheet.exercises)


@cache
def package_digest() -> str:
    """The package's own sources: a result made by others of them is not taken up again."""
    digest = hashlib.sha256()
    for path in sorted(p for ending in ("*.py", "*.cuh") for p in PACKAGE.rglob(ending)):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def load(root: Path, assignment: str = "") -> Edition:
    """The edition to grade: all of the course's (''), one lesson of it ('04'), a solution notebook (a path), or a folder that `hopperlab assign` made.

    Raises InputError for what is none of these.
    """
    given = Path(assignment) if assignment else root
    if assignment and given.is_dir():
        folder = given / INSTRUCTOR if (given / INSTRUCTOR).is_dir() else given
        return _assigned(root, folder)
    if assignment and given.suffix == ".ipynb":
        if not given.is_file():
            raise InputError(f"{given}: there is no such notebook")
        return _edition(root, [given], PUBLIC, {})
    found = generate.solutions(root)
    paths = [path for path in found if not assignment or assignment in (path.stem, path.stem.split("_")[0])]
    if not paths:
        known = ", ".join(path.stem.split("_")[0] for path in found) or "none"
        raise InputError(f"there is no assignment {assignment!r}: neither a lesson with exercises ({known}), a solution notebook nor a folder of `hopperlab assign`")
    return _edition(root, paths, PUBLIC, {})


def _assigned(root: Path, folder: Path) -> Edition:
    try:
        facts = json.loads((folder / EDITION).read_text(encoding="utf-8"))
        version, key, constants = facts.get("version", 1), str(facts["key"]), {name: dict(values) for name, values in facts["exercises"].items()}
    except OSError:
        raise InputError(f"{folder} holds no {EDITION}: it is no instructor's folder of `hopperlab assign`") from None
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise InputError(f"{folder / EDITION} cannot be read: {problem!r}") from None
    if version != keys.VERSION:
        raise InputError(f"{folder / EDITION} was made by {'an earlier' if version == 1 else 'another'} version of the course"
                         + (f", whose keys could be guessed. `hopperlab assign --rekey {folder}` gives it a new key: constants stay, and so do the notebooks that "
                            "learners have; hidden checks are drawn anew" if version == 1 else f" (version {version!r}; this one reads {keys.VERSION})"))
    try:
        keys.check(key)
    except keys.WeakKey as problem:
        raise InputError(f"{folder / EDITION}: {problem}. `hopperlab assign --rekey {folder}` gives it a new one") from None
    paths = sorted((folder / SOLUTIONS).glob("[0-9]*.ipynb"))
    if not paths:
        raise InputError(f"{folder / SOLUTIONS} holds no notebook")
    return _edition(root, paths, key, constants)


def _edition(root: Path, paths: list[Path], key: str, constants: Mapping[str, Mapping[str, Any]]) -> Edition:
    sheets = {path.stem: _sheet(path) for path in paths}
    chosen = {}
    for sheet in sheets.values():
        for part in sheet.parts:
            if part.kind == generate.CHECK:
                chosen[part.exercise] = find(part.exercise).setting({**dict(part.constants), **constants.get(part.exercise, {})})
    return Edition(key, sheets, chosen, root if (root / SOLUTIONS).is_dir() else None)


def _sheet(path: Path) -> Sheet:
    try:
        solution = nbformat.read(path, as_version=4)
    except (OSError, ValueError, nbformat.ValidationError) as problem:
        raise InputError(f"{path} cannot be read as a notebook: {str(problem)[:300]}") from None
    parts, answers, titles, current = [], {}, {}, ""
    for cell in solution.cells:
        heading = HEADING.match(cell.source) if cell.cell_type == "markdown" else None
        known, facts = generate.role(cell), cell.metadata.get("nbgrader", {})
        current = known[1] if known else heading[1] if heading else current
        if heading:
            titles[heading[1]] = re.sub(r"\s*\(warm-up\)$", "", heading[2] or "").strip()
        if known and known[0] == generate.ANSWER:
            answers[cell.id] = known[1]
        elif facts.get("task") or facts.get("grade") and facts.get("solution"):
            answers[cell.id] = ""
        part = _part(cell, known, facts, current)
        parts += [part] if part else []
    pristine = generate.exercise_notebook(solution)
    _complete(path, answers, parts)
    skeletons = {cell.id: cell.source for cell in pristine.cells if cell.id in answers}
    title = next((line.lstrip("# ").strip() for cell in solution.cells if cell.cell_type == "markdown" for line in cell.source.split("\n")[:1]), path.stem)
    return Sheet(path.stem, title, pristine, tuple(parts), answers, skeletons, titles)


def _part(cell: NotebookNode, known: tuple[str, str] | None, facts: Mapping, exercise: str) -> Part | None:
    if not facts.get("points") and not facts.get("task") and not facts.get("grade"):
        return None
    points, grade_id = float(facts.get("points", 0)), facts.get("grade_id", cell.id)
    if known and known[0] in (generate.CHECK, generate.HIDDEN, generate.FAST):
        return Part(cell.id, grade_id, known[1], known[0], points, constants=tuple(sorted(constants_of(cell.source).items())))
    scheme = RUBRIC.search(cell.source)
    rubric = scheme[1] if scheme else cell.metadata.get("hopperlab", {}).get("rubric", "")
    return Part(cell.id, grade_id, exercise, MANUAL, points, rubric)


def _complete(path: Path, answers: Mapping[str, str], parts: list[Part]) -> None:
    if not parts:
        raise InputError(f"{path} holds no cell with points: is it a solution notebook of this course?")
    for name in filter(None, answers.values()):
        kinds = [part.kind for part in parts if part.exercise == name]
        if generate.CHECK not in kinds:
            raise InputError(f"{path}: exercise {name} has an answer cell but no check cell with points")
        if generate.FAST in kinds and find(name).speed is None:
            raise InputError(f"{path}: exercise {name} has a cell of speed, and asks for no speed")
        if not any(regions.has(path.read_text(encoding="utf-8"), region) for region in (regions.HIDDEN,)) and generate.HIDDEN in kinds:
            raise InputError(f"{path}: its hidden checks are taken out already; give the solution notebook (solutions/), not the learner's")
