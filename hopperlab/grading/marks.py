# SPDX-License-Identifier: Apache-2.0
"""From outcomes to points: what each check cell earned and why not, flags, the late rule, and what a person decided.

Everything here is a pure function of submissions, outcomes and overrides, so that the same submissions give the same report.
"""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..checking.check import accepted_with
from . import generate, likeness, overrides
from .edition import MANUAL, Edition, Part, Sheet
from .grade_task import FAST, HIDDEN, VISIBLE, credited
from ..lessons.catalogue import find
from .learners import Learner
from .overrides import Override
from .submission_files import InputError
from .submissions import Submission

MOST_NAMED = 5                           # in one flag; the report names all of a group once
TIMED_OUT = "did not finish within the time limit"
KINDS = {generate.CHECK: VISIBLE, generate.HIDDEN: HIDDEN, generate.FAST: FAST}
OVERRIDE, GRADER = "override", "grader"
STEP_WORDS = {
    "form": "the answer was not tried, because of its form",
    "compiles": "it does not compile",
    "values": "a value is wrong on shapes or inputs that the visible check does not try",
    "hazards": "a hazard was found on shapes that the visible check does not try",
    "mechanism": "the values are right, but not by the mechanism that was asked for",
    "gpu": "it is not right on the GPU",
    "limit": "it took longer, or more memory, than is allowed",
    "nbval": "the notebook with the answer in it did not run to its end",
}
"""What a learner is told about a failed hidden check: which kind of step failed, and nothing of its shapes or values."""


@dataclass(frozen=True)
class Check:
    """One check cell's points. `findings` are (step, message); for a hidden check they are the teacher's only."""

    cell: str
    kind: str
    points: float
    of: float
    passed: bool
    findings: tuple[tuple[str, str], ...] = ()
    limit: str = ""                        # which ended it: 'time', 'memory', …
    decided: bool = False                  # by a person: the late rule does not touch it

    def for_learner(self) -> tuple[tuple[str, str], ...]:
        """The findings as the learner may read them."""
        if any(step == GRADER for step, _ in self.findings):
            return ((GRADER, "Not graded yet: the grader failed, which is no fault of the answer."),)
        if self.kind != generate.HIDDEN:
            return self.findings
        said = dict.fromkeys(step for step, _ in self.findings if step != OVERRIDE)
        return (*((step, f"A hidden check failed: {STEP_WORDS.get(step, 'it is not right')}.") for step in said), *(f for f in self.findings if f[0] == OVERRIDE))


@dataclass(frozen=True)
class Exercise:
    """One exercise of one learner. status: right, partly, wrong, not answered, missing, not handed in, unreadable, not graded."""

    exercise: str
    title: str
    status: str
    points: float
    of: float
    computed: float                        # before the late rule and a person's override
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()            # for the learner too
    flags: tuple[str, ...] = ()            # for the teacher only
    reason: str = ""                       # of an override
    answer: str = ""

    @property
    def correct(self) -> bool:
        """Whether every check is passed but that of speed."""
        return self.status in ("right", "partly") and all(check.passed for check in self.checks if check.kind != generate.FAST)


@dataclass(frozen=True)
class Manual:
    """A cell that a person grades. points is None until the overrides file says."""

    cell: str
    exercise: str
    of: float
    points: float | None
    reason: str
    rubric: str
    text: str


@dataclass(frozen=True)
class Row:
    """One learner: what was handed in, and what it earned."""

    learner: Learner
    points: float
    of: float
    files: tuple[Submission, ...]
    exercises: tuple[Exercise, ...]
    manual: tuple[Manual, ...]

    @property
    def open(self) -> int:
        """Cells that a person has not graded yet."""
        return sum(item.points is None for item in self.manual)


@dataclass(frozen=True)
class Group:
    """Learners whose answers to one exercise are equal. what: 'text', or 'program' where only names, comments, order and the like differ."""

    exercise: str
    what: str
    learners: tuple[str, ...]
    texts: tuple[tuple[str, ...], ...] = ()            # those among them whose texts are equal


@dataclass(frozen=True)
class Report:
    """A graded class."""

    title: str
    sheets: tuple[str, ...]
    of: float
    isolation: str
    unsafe: bool
    version: str
    rows: tuple[Row, ...]
    exercises: tuple[tuple[str, str, float], ...]      # id, title, points
    leaderboard: tuple[Mapping[str, Any], ...] = ()
    groups: tuple[Group, ...] = ()                     # of equal answers
    warnings: tuple[str, ...] = ()                     # for the teacher: whose work it is where that was not plain

    def with_leaderboard(self, rows: Iterable[Mapping[str, Any]]) -> Report:
        """The same with the ranked answers of lesson 14."""
        return replace(self, leaderboard=tuple(rows))

    @property
    def timed_out(self) -> list[str]:
        """LEARNER/EXERCISE of the answers that a time limit ended, as --regrade takes them."""
        return [f"{row.learner.key}/{e.exercise}" for row in self.rows for e in row.exercises if any(c.limit == "time" and not c.passed for c in e.checks)]

    @property
    def not_graded(self) -> int:
        """Answers that the grader itself failed on."""
        return sum(exercise.status == "not graded" for row in self.rows for exercise in row.exercises)


def attempted(answer: str, skeleton: str) -> bool:
    """True when the answer is something else than what a learner starts from, and not empty."""
    return bool(answer.strip()) and [line.rstrip() for line in answer.strip().split("\n")] != [line.rstrip() for line in skeleton.strip().split("\n")]


def check_overrides(given: Mapping[tuple[str, str], Override], people: Collection[str], edition: Edition, path: Path | None) -> None:
    """Raises InputError for an override that names a learner, an exercise or a cell that there is not, or too many points."""
    items: dict[str, float] = {}
    for part in (part for sheet in edition.sheets.values() for part in sheet.parts):
        items[part.grade_id] = part.points
        if part.kind != MANUAL:
            items[part.exercise] = items.get(part.exercise, 0.0) + part.points
    overrides.check(given, people, items, path or Path("overrides"))


def report(submissions: list[Submission], edition: Edition, outcomes: Mapping[tuple[str, str], Mapping[str, Any]], given: Mapping[tuple[str, str], Override], *,
           isolation: str, version: str, all_sheets: bool, matches: Callable[[str, str], bool], warnings: tuple[str, ...] = (),
           public_forms: Callable[[str], Collection[str]] = lambda exercise: ()) -> Report:
    """The class's report. outcomes: by learner and exercise, of the answers that were run; matches: whether an answer's text is the published one;
    public_forms: the forms of what a published one compiles to."""
    by_learner: dict[Learner, list[Submission]] = defaultdict(list)
    for submission in submissions:
        by_learner[submission.learner].append(submission)
    handed_in = {submission.notebook for submission in submissions if submission.notebook}
    sheets = [sheet for sheet in edition.sheets.values() if all_sheets or sheet.stem in handed_in] or list(edition.sheets.values())
    groups = _groups(submissions, edition, outcomes)
    same = {(learner, group.exercise): group for group in groups for learner in group.learners}

    def published(exercise: str, answer: str, outcome: Mapping | None) -> bool:
        return matches(exercise, answer) or bool(_form(outcome)) and _form(outcome) in public_forms(exercise)
    rows = tuple(_row(learner, tuple(files), sheets, outcomes, given, same, published) for learner, files in sorted(by_learner.items(), key=lambda pair: pair[0].key))
    exercises = tuple((name, sheet.titles.get(name, ""), sum(p.points for p in sheet.parts if p.exercise == name and p.kind != MANUAL))
                      for sheet in sheets for name in sheet.exercises)
    title = sheets[0].title if len(sheets) == 1 else f"{len(sheets)} exercise notebooks"
    return Report(title, tuple(sheet.stem for sheet in sheets), sum(sheet.points for sheet in sheets), isolation, isolation.startswith("none"), version,
                  rows, exercises, warnings=warnings, groups=groups)


def _groups(submissions: Iterable[Submission], edition: Edition, outcomes: Mapping[tuple[str, str], Mapping]) -> tuple[Group, ...]:
    """Learners whose answers to an exercise are equal, each learner in one group: in their text, else in their statements or in the PTX they compile to."""
    texts = {(s.learner.key, name): s.answers[cell] for s in submissions if s.answers for cell, name in edition.sheets[s.notebook].answers.items() if cell in s.answers}
    skeletons = {name: sheet.skeletons[cell] for sheet in edition.sheets.values() for cell, name in sheet.answers.items() if name}
    forms = {digest: _forms(exercise, texts[key], skeletons[exercise], outcome) for key, outcome in outcomes.items() if key in texts
             for exercise, digest in [(key[1], outcome["digest"])]}
    found: dict[str, list[list[str]]] = defaultdict(list)              # by exercise: groups of digests that some form joins
    for exercise in skeletons:
        by_form: dict[str, list[str]] = defaultdict(list)
        for digest in dict.fromkeys(outcome["digest"] for (_, name), outcome in sorted(outcomes.items()) if name == exercise):
            near = list({id(by_form[form]): by_form[form] for form in forms.get(digest, ()) if form in by_form}.values())
            whole = [digest, *(one for group in near for one in group)]
            for form in {*forms.get(digest, ()), *(form for form, group in by_form.items() if any(group is one for one in near))}:
                by_form[form] = whole
            found[exercise] = [group for group in found[exercise] if not any(group is one for one in near)] + [whole]
    made = []
    for exercise, groups in found.items():
        for digests in groups:
            texts_ = [tuple(sorted(learner for (learner, name), outcome in outcomes.items() if name == exercise and outcome["digest"] == digest)) for digest in digests]
            people = tuple(sorted(learner for text in texts_ for learner in text))
            if len(people) > 1:
                made.append(Group(exercise, "text" if len(digests) == 1 else "program", people, tuple(sorted(text for text in texts_ if len(text) > 1))))
    return tuple(sorted(made, key=lambda group: (group.exercise, group.learners)))


def _forms(exercise: str, answer: str, skeleton: str, outcome: Mapping) -> list[str]:
    """What an answer is compared by; nothing for one that is short, where honest answers coincide."""
    asked = find(exercise)
    if likeness.own(asked, answer, skeleton) < likeness.ENOUGH_TOKENS:
        return []
    return [form for form in (likeness.form(asked, answer), _form(outcome)) if form]


def _form(outcome: Mapping | None) -> str:
    """The form of the PTX that an answer compiled to; '' where that is not known."""
    return str(((outcome or {}).get(VISIBLE) or {}).get("form", ""))


def _row(learner: Learner, files: tuple[Submission, ...], sheets: list[Sheet], outcomes: Mapping, given: Mapping, same: Mapping, matches: Callable) -> Row:
    exercises: list[Exercise] = []
    manual: list[Manual] = []
    for sheet in sheets:
        file = next((s for s in files if s.notebook == sheet.stem), None)
        for name in sheet.exercises:
            exercise = _exercise(learner, name, sheet, file, outcomes.get((learner.key, name)), given)
            exercises.append(_flagged(learner.key, exercise, file, same.get((learner.key, name)), matches(name, exercise.answer, outcomes.get((learner.key, name)))))
        manual += [_manual(learner, part, file, given) for part in sheet.parts if part.kind == MANUAL]
    points = sum(e.points for e in exercises) + sum(m.points or 0.0 for m in manual)
    return Row(learner, round(points, 2), sum(sheet.points for sheet in sheets), files, tuple(exercises), tuple(manual))


def _exercise(learner: Learner, name: str, sheet: Sheet, file: Submission | None, outcome: Mapping | None, given: Mapping) -> Exercise:
    parts = [part for part in sheet.parts if part.exercise == name and part.kind in KINDS]
    checks = tuple(_check(part, outcome, sheet.cell_of(name), given.get((learner.key, part.grade_id)), parts) for part in parts)
    of, computed = sum(part.points for part in parts), sum(check.points for check in checks)
    answer = (file.answers or {}).get(sheet.cell_of(name)) if file else None
    factor = file.factor if file else 1.0
    points = round(sum(check.points * (1.0 if check.decided else factor) for check in checks), 2)
    notes = (f"{file.days_late} day{'s' * (file.days_late != 1)} late: {points:g} of {computed:g} points count",) if points != computed else ()
    notes += _accepted(checks, outcome)
    override = given.get((learner.key, name))
    if override:
        points = override.points
    return Exercise(name, sheet.titles.get(name, ""), _status(file, answer, outcome, checks), points, of, computed, checks, notes,
                    reason=(override.reason or "no reason given") if override else "", answer=answer or "")


def _accepted(checks: tuple[Check, ...], outcome: Mapping | None) -> tuple[str, ...]:
    """What is said of the warnings that an answer leaves whose visible check is passed; they cost nothing. Outcomes of earlier versions have none."""
    warnings = ((outcome or {}).get(VISIBLE) or {}).get("warnings", ())
    if not any(check.passed and KINDS[check.kind] == VISIBLE for check in checks) or not warnings:
        return ()
    return ("\n".join(accepted_with(warnings)),)


def _status(file: Submission | None, answer: str | None, outcome: Mapping | None, checks: tuple[Check, ...]) -> str:
    if file is None:
        return "not handed in"
    if file.error:
        return "unreadable"
    if outcome is None:
        return "missing" if answer is None else "not answered"
    if "failed" in outcome:
        return "not graded"
    passed = sum(check.passed for check in checks)
    return "right" if passed == len(checks) else "partly" if passed else "wrong"


def _check(part: Part, outcome: Mapping | None, answer_cell: str, override: Override | None, parts: list[Part]) -> Check:
    which = KINDS[part.kind]
    passed, findings, limit = False, (), ""
    if outcome is not None and "failed" in outcome:
        findings = ((GRADER, f"Not graded: {outcome['failed']}"),)
    elif outcome is not None:
        cells = {"answer": answer_cell, **{KINDS[p.kind]: p.cell for p in parts}}
        passed = credited(outcome, cells)[which]
        findings = () if passed else _findings(outcome, which)
        limit = outcome[which]["limit"] or ("time" if TIMED_OUT in str((outcome["nbval"] or {}).get("error", "")) else "")
    points = override.points if override else part.points * passed
    if override:
        findings = (*findings, (OVERRIDE, f"{points:g} points by decision: {override.reason or 'no reason given'}"))
    return Check(part.cell, part.kind, points, part.points, passed, findings, limit, override is not None)


def _findings(outcome: Mapping[str, Any], which: str) -> tuple[tuple[str, str], ...]:
    verdict = outcome[which]
    if verdict["right"]:
        said = outcome["nbval"] or {}
        messages = said.get("messages", {})
        error = said.get("error") or messages.get(which, messages.get(VISIBLE)) or "nbval did not pass the cell"
        return (("nbval", f"The answer is right by itself, but not in the notebook: {error}"),)
    found = tuple((finding["step"], finding["message"]) for finding in verdict["findings"])
    return found or (("limit", f"It was ended: {verdict['limit'] or 'no verdict was reached'}."),)


def _flagged(learner: str, exercise: Exercise, file: Submission | None, group: Group | None, published: bool) -> Exercise:
    if exercise.status not in ("right", "partly", "wrong"):
        return exercise
    flags = []
    if published:
        flags.append("matches the public solution")
    if group:
        equal = next((text for text in group.texts if learner in text), ())
        for what, people in (("text", equal), ("program", [name for name in group.learners if name not in equal])):
            others = [name for name in people if name != learner]
            more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
            flags += [f"same {what} as {', '.join(others[:MOST_NAMED])}{more}"] if others else []
    if file and file.days_late:
        flags.append(f"late: {file.days_late} day{'s' * (file.days_late != 1)}")
    return replace(exercise, flags=tuple(flags))


def _manual(learner: Learner, part: Part, file: Submission | None, given: Mapping) -> Manual:
    override = given.get((learner.key, part.grade_id))
    text = (file.answers or {}).get(part.cell, "") if file else ""
    return Manual(part.grade_id, part.exercise, part.points, override.points if override else None, override.reason if override else "", part.rubric, text)


def timing(tasks: Mapping[tuple[str, str], Mapping], outcomes: Mapping[str, Mapping]) -> dict[str, Any]:
    """Seconds of each learner's answers; equal answers were run once and share them."""
    found = {f"{learner}/{exercise}": dict(sorted(outcomes[task["digest"]].get("seconds", {}).items())) for (learner, exercise), task in sorted(tasks.items())}
    return {"answers": found, "total": round(sum(sum(outcome.get("seconds", {}).values()) for outcome in outcomes.values()), 3)}


def as_data(report_: Report) -> dict[str, Any]:
    """Plain data for JSON: everything but the answers' texts."""
    data = asdict(report_)
    for row, made in zip(report_.rows, data["rows"], strict=True):
        made["learner"] = {"key": row.learner.key, "name": row.learner.name}
        made["files"] = [{"path": s.path, "notebook": s.notebook, "error": s.error, "notes": list(s.notes), "earlier": list(s.others), "days_late": s.days_late,
                          "time": s.time.isoformat() if s.time else None} for s in row.files]
        for exercise in made["exercises"]:
            del exercise["answer"]
            for check in exercise["checks"]:
                check["findings"] = [{"step": step, "message": message} for step, message in check["findings"]]
        for item in made["manual"]:
            del item["text"]
    return data


__all__ = ["Check", "Exercise", "InputError", "Manual", "Report", "Row", "as_data", "attempted", "check_overrides", "report", "timing"]
