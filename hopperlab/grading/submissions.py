# SPDX-License-Identifier: Apache-2.0
"""What each learner handed in: only the texts of answer cells, found by nbgrader's grade_id, then by cell id, then by a line `# answer 04.1`.

A notebook that cannot be read becomes a submission with an `error`; nothing here raises for what a learner did, and nothing of it is run.
"""
from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from . import layouts, learners
from ..checking.answers import MOST_BYTES
from .edition import Edition, Sheet
from .generate import CELL_ID
from .layouts import Layout
from .learners import Learner, Named, Roster
from .submission_files import NOTEBOOK, TIMESTAMP, Found, InputError, ReadLimits, _file, files, readable

MARK = re.compile(r"^[ \t]*(?:#|//)[ \t]*answer[ \t]+(\d\d[a-z]?)\.(\d+)[ \t]*$", re.IGNORECASE | re.MULTILINE)
SECONDS_A_DAY = 86_400
MOST_CELLS = 5_000
NUMBERED = re.compile(r"(?:-(\d+)|\s*\((\d+)\))$")
"""Canvas numbers later attempts, 'x-1.ipynb'; browsers number copies, 'x (1).ipynb'."""


class SubmissionError(ValueError):
    """A notebook that cannot be taken; the message is for the learner."""


@dataclass(frozen=True)
class LateRule:
    """When it is late, and what that costs. penalty: the share of the points lost for each day begun; None refuses late work."""

    deadline: datetime
    penalty: float | None = 0.0

    def days(self, time: datetime | None, marked: bool) -> int:
        """Days late, each begun one counted. marked: Canvas said so, which counts for at least one."""
        late = math.ceil(max(0.0, (_zoned(time, self.deadline.tzinfo) - self.deadline).total_seconds()) / SECONDS_A_DAY) if time else 0
        return max(late, int(marked))

    def factor(self, days: int) -> float:
        """The share of the points that stays."""
        if not days:
            return 1.0
        return 0.0 if self.penalty is None else max(0.0, 1.0 - self.penalty * days)


def _zoned(time: datetime, zone: tzinfo | None) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=zone)


@dataclass(frozen=True)
class Submission:
    """One notebook of one learner: the answer texts by cell id, or the error that kept it from being read."""

    learner: Learner
    path: str
    notebook: str = ""                      # the stem of the sheet it answers; '' when that cannot be told
    answers: Mapping[str, str] | None = None
    notes: tuple[str, ...] = ()
    error: str = ""
    time: datetime | None = None
    marked_late: bool = False
    days_late: int = 0
    factor: float = 1.0
    others: tuple[str, ...] = ()            # earlier attempts, which are not graded


@dataclass(frozen=True)
class Taken:
    """What one notebook file holds: answer texts by cell id, and what is to be said about them."""

    answers: Mapping[str, str]
    notes: tuple[str, ...] = ()


def read(path: Path, known: Collection[str] = (), limits: ReadLimits = ReadLimits()) -> Taken:
    """The answers in one notebook file. known: further cells to take, by grade_id or cell id. Raises SubmissionError."""
    found = _file(path, (path.name,), limits)
    if found.error:
        raise SubmissionError(found.error)
    return taken(found.data, known)


def taken(data: bytes, known: Collection[str] = ()) -> Taken:
    """The answers in a notebook's bytes. Raises SubmissionError for what is no notebook of nbformat 4 in UTF-8."""
    cells, notes = _cells(data)
    return _answers(cells, known, notes)


def _cells(data: bytes) -> tuple[list[Mapping], list[str]]:
    notes = []
    if data[:4] in (b"\xff\xfe\0\0", b"\0\0\xfe\xff") or data[:2] in (b"\xff\xfe", b"\xfe\xff") or data[:4].count(0) >= 2:
        raise SubmissionError("it is written in UTF-16 or UTF-32; a notebook must be UTF-8: save it from Jupyter and hand it in again")
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
        notes.append("the file begins with a byte order mark, which Jupyter does not write: it was changed by another program")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise SubmissionError(f"byte {problem.start} is not UTF-8 (another encoding, such as Latin-1); save it from Jupyter and hand it in again") from None
    if not text.strip():
        raise SubmissionError("the file is empty")
    try:
        document = json.loads(text)
    except json.JSONDecodeError as problem:
        raise SubmissionError(f"it is no notebook: {problem.msg} at line {problem.lineno}") from None
    except (RecursionError, ValueError, MemoryError):
        raise SubmissionError("it is no notebook: its JSON is nested too deeply or holds a number that is too long") from None
    if not isinstance(document, dict):
        raise SubmissionError("it is no notebook: its JSON is not an object")
    version = document.get("nbformat")
    if version != 4 or isinstance(version, bool):
        raise SubmissionError(f"its nbformat is {readable(repr(version))[:40]}, and it must be 4: open it in a current Jupyter, save it and hand it in again")
    cells = document.get("cells")
    if not isinstance(cells, list) or len(cells) > MOST_CELLS:
        raise SubmissionError("it is no notebook: it has no list of cells" if not isinstance(cells, list) else f"it has more than {MOST_CELLS:,} cells")
    return [cell for cell in cells if isinstance(cell, dict)], notes


def _source(cell: Mapping) -> str:
    source = cell.get("source", "")
    lines = source if isinstance(source, list) else [source]
    text = "".join(line for line in lines if isinstance(line, str))
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\r\n", "\n")


def _names(cell: Mapping) -> tuple[str, str, str]:
    """What a cell may be matched by, best first: grade_id, cell id, mark."""
    metadata = cell.get("metadata")
    grading = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = grading.get("grade_id") if isinstance(grading, dict) else None
    mark = MARK.search(_source(cell)) if cell.get("cell_type") == "code" else None
    known = (grade_id, cell.get("id"), f"answer-{mark[1].lower()}-{mark[2]}" if mark else "")
    return tuple(word if isinstance(word, str) else "" for word in known)


BY = ("grade_id", "cell id", "`answer` line")


def _answers(cells: Sequence[Mapping], known: Collection[str], notes: list[str]) -> Taken:
    """Each answer's text: of the cells that a better rule names, the one that the other rules name too, else the last."""
    candidates: dict[str, list[tuple[int, int, Mapping]]] = {}
    for cell in cells:
        names = _names(cell)
        rank, name = next(((i, word) for i, word in enumerate(names) if word in known or word.startswith("answer-") and CELL_ID.match(word)), (0, ""))
        if name and (cell.get("cell_type") == "code" or name in known):
            candidates.setdefault(name, []).append((-rank, names.count(name), cell))
        elif name:
            notes.append(f"the cell {name} is not a code cell any more, and is not taken")
    texts = {}
    for name, found in sorted(candidates.items()):
        best = max(rank for rank, _, _ in found)
        rivals = [(agreeing, position, cell) for position, (rank, agreeing, cell) in enumerate(found) if rank == best]
        texts[name] = _source(max(rivals, key=lambda rival: rival[:2])[2])
        if len({_source(cell) for _, _, cell in rivals}) > 1:
            notes.append(f"{len(rivals)} cells have the {BY[-best]} {name}, with different texts; "
                         + ("the one that its cell id names too is taken" if max(rivals)[0] > min(rivals)[0] else "the last one is taken"))
        if len(texts[name].encode()) > 4 * MOST_BYTES:
            texts[name] = texts[name][:2 * MOST_BYTES]             # the checks refuse it for its length
    return Taken(texts, tuple(notes))


@dataclass(frozen=True)
class Collected:
    """What a class handed in, and what the teacher should look at: conflicts, names that look alike, names that nobody may give."""

    submissions: list[Submission]
    warnings: tuple[str, ...] = ()


def collect(path: Path, edition: Edition, roster: Roster | None = None, late: LateRule | None = None,
            limits: ReadLimits = ReadLimits(), skip: Path | None = None) -> list[Submission]:
    """The submissions of `collected` alone."""
    return collected(path, edition, roster, late, limits, skip).submissions


def collected(path: Path, edition: Edition, roster: Roster | None = None, late: LateRule | None = None,
              limits: ReadLimits = ReadLimits(), skip: Path | None = None) -> Collected:
    """Every learner's latest attempt at each notebook, in order; learners of the roster who handed nothing in have one without a path.
    A learner whom two sources name (ada/ and ada.zip, Ada/ and ada/ of a roster's ada) gets neither: which one counts is the teacher's to decide.

    skip: a folder that is not looked into, such as that of the reports.

    Raises InputError when `path` itself cannot be read, or when it cannot be told whose the files are.
    """
    known = {cell for sheet in edition.sheets.values() for cell, name in sheet.answers.items() if not name}
    stamps: dict[tuple[str, ...], datetime | None] = {}
    found = list(_slim(files(path, limits, skip), edition, known, stamps))
    layout = layouts.decide([file.parts for file in found if file.read], path, edition.sheets, roster.known() if roster else ())
    people = _People(layout, roster)
    for file in found:
        people.add(file, stamps)
    return Collected(people.submissions(edition, late), (*layout.warnings, *people.warnings()))


@dataclass(frozen=True)
class _File:
    """A file reduced to what is kept of it, so that a class's notebooks are never in memory together."""

    parts: tuple[str, ...]
    path: str
    read: bool
    submission: Submission | None = None
    own: datetime | None = None


NOBODY = Learner("", "")


class _People:
    """Files by learner, and which sources named each."""

    def __init__(self, layout: Layout, roster: Roster | None):
        self.layout, self.roster = layout, roster
        self.listed = {learner.key for learner in roster.learners} if roster else set()
        self.people: dict[str, Learner] = {learner.key: learner for learner in roster.learners} if roster else {}
        self.files: dict[str, list[_File]] = {}
        self.others: dict[str, list[str]] = {}
        self.sources: dict[str, dict[str, list[str]]] = {}
        self.waiting: list[tuple[_File, Named]] = []
        self.misnamed: dict[str, None] = {}

    def add(self, file: _File, stamps: Mapping[tuple[str, ...], datetime | None]) -> None:
        """Take one file. Who it belongs to is settled when all are there."""
        who = self.layout.who(file.parts)
        if who is None or not file.read and who.rule == "file":
            return                                              # nobody's: a list or a note beside the learners' files
        folder = self.layout.stamped(file.parts)
        if file.submission is not None and folder in stamps:
            stamp = stamps[folder]
            note = () if stamp else ("the timestamp.txt of this submission cannot be read; the date of the file counts",)
            file = replace(file, submission=replace(file.submission, time=stamp or file.submission.time, notes=(*file.submission.notes, *note)))
        self.waiting.append((file, who))

    def submissions(self, edition: Edition, late: LateRule | None) -> list[Submission]:
        """One for each learner and notebook, by learner."""
        by_id = self.roster is not None and any(who.rule in PLATFORMS and self.roster.find(who, names=False) for _, who in self.waiting)
        for file, who in self.waiting:
            learner = (self.roster.find(who, names=who.rule not in PLATFORMS or not by_id) if self.roster else None) or learners.unlisted(who)
            self.people.setdefault(learner.key, learner)
            if learner.key in self.listed and who.rule in PLATFORMS and not self.roster.named(learner, who.name):
                self.misnamed[f"{file.path}: {who.rule.title()}'s number is that of {learner.key} ({learner.name}), and the name is another"] = None
            if not file.read:
                self.others.setdefault(learner.key, []).append(file.path)
                continue
            self.sources.setdefault(learner.key, {}).setdefault(self.layout.source(file.parts), []).append(file.path)
            made = replace(file.submission, learner=self.people[learner.key], path=file.path, marked_late=who.late)
            self.files.setdefault(learner.key, []).append(replace(file, submission=made))
        made = []
        for key, learner in sorted(self.people.items()):
            notes = ("not in the roster",) if self.roster and key not in self.listed else ()
            if self.conflict(key):
                made.append(Submission(learner, sorted(self.files[key], key=lambda file: file.parts)[0].path, error=self.conflict(key), notes=notes,
                                       others=tuple(sorted(file.path for file in self.files[key])[1:])))
                continue
            attempts = [(file.submission, _age(file)) for file in self.files.get(key, [])]
            made += [replace(s, notes=(*notes, *s.notes)) for s in _latest(attempts, learner, self.others.get(key, []), edition, late)]
        return made

    def conflict(self, key: str) -> str:
        """Why nothing of a learner is graded: more than one source names them ('' when one does)."""
        sources = sorted(self.sources.get(key, {}))
        if len(sources) < 2:
            return ""
        return (f"{len(sources)} sources name this learner: {', '.join(repr(readable(source)) for source in sources[:5])}; nothing of them is graded "
                "until the teacher has decided which one counts, and moved the others away")

    def warnings(self) -> tuple[str, ...]:
        """Conflicts, and names that look alike."""
        said = [*(f"{key}: {self.conflict(key)}" for key in sorted(self.sources) if self.conflict(key)), *self.misnamed]
        alike: dict[str, dict[str, None]] = {}
        for key, learner in sorted(self.people.items()):
            words = {key, learner.name} if key in self.listed else {key}
            for look in sorted({learners.looks(word) for word in words} - {""}):
                alike.setdefault(look, {})[key] = None
        said += [f"{' and '.join(map(repr, keys))} look alike, and are taken as {len(keys)} learners: {', '.join(map(ascii, keys))}"
                 for keys in map(list, alike.values()) if len(keys) > 1 and any(key in self.sources and key not in self.listed for key in keys)]
        return tuple(said)


PLATFORMS = (layouts.CANVAS_EXPORT, layouts.MOODLE_EXPORT)


def _slim(found: Iterable[Found], edition: Edition, known: Collection[str], stamps: dict) -> Iterable[_File]:
    for file in found:
        if file.parts[-1].lower() == TIMESTAMP:
            if file.read and not file.error and not file.inside:
                stamps[file.parts[:-1]] = timestamp(file.data)
            yield _File(file.parts, file.path, False)
        elif not file.read:
            yield _File(file.parts, file.path, False)
        else:
            yield _File(file.parts, file.path, True, _submission(file, edition, known), file.own)


def _submission(file: Found, edition: Edition, known: Collection[str]) -> Submission:
    time = file.time
    by_name = next((stem for stem in edition.sheets if stem in file.parts[-1]), "" if len(edition.sheets) > 1 else next(iter(edition.sheets)))
    if file.error:
        return Submission(NOBODY, file.path, by_name, error=file.error, time=time)
    try:
        got = taken(file.data, known)
    except SubmissionError as problem:
        return Submission(NOBODY, file.path, by_name, error=str(problem), time=time)
    sheet = _sheet_of(got.answers, edition, by_name)
    if sheet is None:
        return Submission(NOBODY, file.path, error="it holds no answer cell of this assignment", time=time)
    missing = [name or cell for cell, name in sheet.answers.items() if cell not in got.answers]
    notes = (*got.notes, *(f"the answer cell of {name} is missing" for name in missing))
    return Submission(NOBODY, file.path, sheet.stem, {cell: got.answers[cell] for cell in sheet.answers if cell in got.answers}, notes, time=time)


def _sheet_of(answers: Mapping[str, str], edition: Edition, by_name: str) -> Sheet | None:
    """The sheet that most of the answers belong to; the file's name decides between equals."""
    counts = {sheet.stem: sum(cell in answers for cell in sheet.answers) for sheet in edition.sheets.values()}
    best = max(counts, key=lambda stem: (counts[stem], stem == by_name))
    return edition.sheets[best] if counts[best] else None


SUMMER = {"CEST": 2, "EEST": 3, "WEST": 1, "BST": 1, "EDT": -4, "CDT": -5, "MDT": -6, "PDT": -7, "PST": -8, "AKDT": -8, "AKST": -9, "NZST": 12, "NZDT": 13,
          "AEST": 10, "AEDT": 11, "JST": 9, "KST": 9}
"""Hours before UTC of the abbreviations that no zone is called by; of those with two meanings (CST, IST) the zone's name decides or nothing does."""


def _zone(word: str) -> tzinfo:
    """'UTC', 'America/Denver', 'CEST' or '+0200', whichever nbgrader is set to write. Raises LookupError, OSError or ValueError for anything else."""
    if word in SUMMER:
        return timezone(timedelta(hours=SUMMER[word]))
    offset = re.fullmatch(r"([+-])(\d\d):?(\d\d)", word)
    if offset:
        return timezone(timedelta(hours=int(offset[2]), minutes=int(offset[3])) * (-1 if offset[1] == "-" else 1))
    return UTC if word == "UTC" else ZoneInfo(word)


def timestamp(data: bytes) -> datetime | None:
    """The time in nbgrader's timestamp.txt, '2026-02-02 15:58:23.948203 America/Denver'; None when it cannot be read."""
    words = data[:200].decode("utf-8", "replace").split()
    try:
        zone = UTC if len(words) < 3 else _zone(words[2])
        return datetime.fromisoformat(" ".join(words[:2])).replace(tzinfo=zone, microsecond=0)
    except (ValueError, OSError, LookupError):
        return None


def _age(file: _File) -> tuple:
    """What orders attempts: the date, then that in the learner's own zip, then the number in the name, then the path."""
    time = file.submission.time
    number = NUMBERED.search(file.parts[-1].lower().removesuffix(NOTEBOOK))
    seconds = _zoned(time, UTC).timestamp() if time else 0.0
    own = _zoned(file.own, UTC).timestamp() if file.own else 0.0
    return (seconds, own, int(number[1] or number[2]) if number and len(number[0]) < 9 else 0, file.parts)


def _latest(attempts: list[tuple[Submission, tuple]], learner: Learner, others: list[str], edition: Edition, late: LateRule | None) -> list[Submission]:
    if not attempts:
        error = f"no notebook among what was handed in: {', '.join(sorted(others)[:5])}" if others else "nothing was handed in"
        return [Submission(learner, "", error=error)]
    groups: dict[str, list[tuple[Submission, tuple]]] = {}
    for submission, age in attempts:
        groups.setdefault(submission.notebook, []).append((submission, age))
    made = []
    for stem in sorted(groups, key=lambda s: (s == "", s)):
        ordered = [submission for submission, _ in sorted(groups[stem], key=lambda pair: pair[1], reverse=True)]
        readable_ones = [submission for submission in ordered if not submission.error]
        chosen = (readable_ones or ordered)[0]
        broken = [f"{other.path} cannot be graded ({other.error}); the attempt before it is" for other in ordered[:ordered.index(chosen)]]
        days = late.days(chosen.time, chosen.marked_late) if late else int(chosen.marked_late)
        made.append(replace(chosen, notes=(*chosen.notes, *broken), others=tuple(s.path for s in ordered if s is not chosen),
                            days_late=days, factor=late.factor(days) if late else 1.0))
    return made


__all__ = ["Collected", "InputError", "LateRule", "Submission", "SubmissionError", "Taken", "collect", "collected", "read", "taken"]
