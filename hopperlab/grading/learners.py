"""Who handed a file in: from the names that nbgrader, Canvas and Moodle give folders and files, and from a roster.

An identity is a key (what reports sort and file by), a name to show, and what a gradebook needs to know the learner again.
"""
from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .submission_files import InputError, readable

MOODLE = re.compile(r"^(?P<name>.+)_(?P<id>\d+)_assignsubmission_\w*$")
CANVAS = re.compile(r"^(?P<name>[^_]+)(?P<late>_LATE)?_(?P<id>\d+)_(?P<submission>\d+)_(?P<file>.+)$", re.IGNORECASE)
NBGRADER = "submitted"
NBGRADER_OWN = {"source", "release", "autograded", "feedback", "downloaded"}
"""Folders of an nbgrader course beside submitted/, which hold nobody's submission."""
MOST_NAME = 200

COLUMNS = {
    "id": ("learner", "id", "student id", "student_id", "canvas user id", "identifier"),
    "number": ("sis user id", "id number", "number"),
    "login": ("login", "sis login id", "username", "user"),
    "name": ("name", "student", "full name", "display name"),
    "first": ("first name", "first_name"),
    "last": ("last name", "surname", "last_name"),
    "email": ("email", "email address", "e-mail"),
    "section": ("section", "group", "groups"),
    "file": ("file", "folder", "files", "submission"),
}
"""A roster's columns by what they say, as nbgrader, Canvas's gradebook export and Moodle's lists head them (any case)."""


@dataclass(frozen=True)
class Learner:
    """One learner. `key` is what reports, overrides and --regrade name; `facts` holds a roster row's columns by COLUMNS."""

    key: str
    name: str
    facts: Mapping[str, str] = field(default_factory=dict, compare=False, hash=False)


@dataclass(frozen=True)
class Named:
    """What a path says: the learner's words (any of which a roster may know), whether Canvas marked it late, and by what rule."""

    words: tuple[str, ...]
    name: str
    late: bool = False
    rule: str = "folder"


def named(parts: Sequence[str], stems: Collection[str] = ()) -> Named:
    """Who handed in the file at `parts` (folders, zips, file name). stems: names of the course's notebooks, no part of a learner's name."""
    for part in parts:
        moodle, canvas = MOODLE.match(part), CANVAS.match(part)
        if moodle:
            return Named((moodle["id"], f"Participant {moodle['id']}", moodle["name"]), _shown(moodle["name"]), rule="moodle")
        if canvas:
            return Named((canvas["id"], canvas["name"]), _shown(canvas["name"]), bool(canvas["late"]), "canvas")
    if NBGRADER in parts[:-2]:
        name = parts[len(parts) - 1 - parts[::-1].index(NBGRADER) + 1]
        return Named((name,), _shown(name), rule="nbgrader")
    name = parts[0].removesuffix(".zip") if len(parts) > 1 else _without_stem(parts[0], stems)
    return Named((name, *parts[:1]), _shown(name), rule="folder" if len(parts) > 1 else "file")


def _without_stem(file: str, stems: Collection[str]) -> str:
    """'ada' of ada_04_mbarrier.ipynb and of 04_mbarrier-ada.ipynb; copies that a browser numbered, ' (1)', lose the number."""
    name = re.sub(r"\s*\(\d+\)$", "", re.sub(r"\.(ipynb|zip)$", "", file, flags=re.IGNORECASE))
    for stem in stems:
        name = re.sub(rf"^{re.escape(stem)}[-_ .]+(?=.)|(?<=.)[-_ .]+{re.escape(stem)}$", "", name)
    return name


def _shown(name: str) -> str:
    return readable(" ".join(name.split()))[:MOST_NAME] or "without a name"


def unlisted(who: Named) -> Learner:
    """A learner whom no roster knows, by the name that the submission's path gives."""
    numbered = who.rule in ("canvas", "moodle")
    return Learner(_shown(f"{who.name}_{who.words[0]}" if numbered else who.words[0]), who.name, {"id": who.words[0]} if numbered else {})


def normal(word: str) -> str:
    """A word as it is compared: no case, accents composed, no spaces or punctuation except within addresses and numbers."""
    return re.sub(r"[\s,;'\"]+", "", unicodedata.normalize("NFKC", word)).casefold()


class Roster:
    """A class list: who there is, and which of them a submission's words mean."""

    def __init__(self, learners: Iterable[Learner]):
        self.learners: list[Learner] = []
        self._known: dict[str, Learner | None] = {}
        for learner in learners:
            if any(other.key == learner.key for other in self.learners):
                raise InputError(f"the roster names {learner.key} twice")
            self.learners.append(learner)
            for word in _words(learner):
                self._known[word] = learner if self._known.get(word, learner) is learner else None      # None: two learners share it

    def find(self, who: Named) -> Learner | None:
        """The learner whom these words mean; None when nobody or more than one."""
        return next((found for found in (self._known.get(normal(word)) for word in who.words) if found), None)


def _words(learner: Learner) -> set[str]:
    facts = learner.facts
    last_first = f"{facts.get('last', '')}{facts.get('first', '')}" or "".join(reversed(learner.name.split()))
    words = [learner.key, learner.name, last_first, *(facts.get(k, "") for k in ("id", "number", "login", "email", "file"))]
    return {normal(word) for word in words if word.strip()}


def roster(path: Path) -> Roster:
    """Read a roster CSV: any headers of COLUMNS, comma or semicolon. Raises InputError with the line that is wrong."""
    return Roster(_learner(row, number, path) for number, row in table(path) if any(row.values()) and not _points_row(row))


def _points_row(row: Mapping[str, str]) -> bool:
    """True for the second line of Canvas's gradebook export, which holds the points possible."""
    return row.get("name", "").strip().casefold() == "points possible" or row.get("name", "").startswith("Student, Test")


def _learner(row: Mapping[str, str], number: int, path: Path) -> Learner:
    facts = {name: readable(value.strip())[:MOST_NAME] for name, value in row.items() if value}
    whole = facts.get("name") or " ".join(filter(None, (facts.get("first"), facts.get("last"))))
    key = next((facts[name] for name in ("id", "login", "number", "email") if facts.get(name)), whole)
    if not key:
        raise InputError(f"{path}, line {number}: neither an id, a login nor a name")
    return Learner(key, whole or key, facts)


def table(path: Path, columns: Mapping[str, Sequence[str]] = COLUMNS, needs: Sequence[str] = ()) -> list[tuple[int, dict[str, str]]]:
    """The rows of a CSV file with their line numbers, columns renamed by `columns`. Raises InputError."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as problem:
        raise InputError(f"{path}: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8; save it as CSV (UTF-8)") from None
    head = text.split("\n", 1)[0]
    reader = csv.reader(io.StringIO(text), delimiter=";" if head.count(";") > head.count(",") else ",")
    try:
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as problem:
        raise InputError(f"{path}, line {reader.line_num}: {problem}") from None
    known = {alias: name for name, aliases in columns.items() for alias in aliases}
    headers = [known.get(" ".join(cell.split()).casefold(), "") for cell in (rows[0][1] if rows else [])]
    missing = [name for name in needs if name not in headers]
    if missing or not any(headers):
        raise InputError(f"{path}: the first line must name the columns" + (f"; there is no {missing[0]!r}" if missing else f", such as {', '.join(columns)}"))
    return [(number, {name: cell for name, cell in zip(headers, row) if name}) for number, row in rows[1:] if any(cell.strip() for cell in row)]
