# SPDX-License-Identifier: Apache-2.0
"""Who handed a file in: from the names that nbgrader, Canvas and Moodle give folders and files, and from a roster.

An identity is a key (what reports sort and file by), a name to show, and what a gradebook needs to know the learner again.
"""
from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .layouts import MOST_NAME, Named, named, normal, shown
from .submission_files import InputError, readable

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


def unlisted(who: Named) -> Learner:
    """A learner whom no roster knows, by the name that the submission's path gives."""
    numbered = who.rule in ("canvas", "moodle")
    return Learner(shown(f"{who.name}_{who.words[0]}" if numbered else who.words[0]), who.name, {"id": who.words[0]} if numbered else {})


LOOKS = str.maketrans(dict(zip("асеорхуіјѕһԁԛԝвкмнтзАВЕКМНОРСТХУІЈЅαβεικνορτυχωΑΒΕΖΗΙΚΜΝΟΡΤΥΧıɑɡ01ßþ",
                               "aceopxyijshdqwbkmht3abekmhopctxyijsabeikvoptuxwabezhikmnoptyxiagolsp")))
"""Letters of other scripts that look like these Latin ones (a part of Unicode's confusables.txt)."""


def looks(word: str) -> str:
    """What a reader may take a word for: look-alikes of other scripts, accents, case, and characters that nobody sees are the same."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", word).translate(LOOKS).casefold().translate(LOOKS))
    return "".join(c for c in plain if c.isalnum()).replace("rn", "m")


class Roster:
    """A class list: who there is, and which of them a submission's words mean. What a platform or a school gave (ids, logins, addresses) goes before names,
    which learners may choose."""

    def __init__(self, learners: Iterable[Learner]):
        self.learners: list[Learner] = []
        self._given: dict[str, Learner | None] = {}
        self._names: dict[str, Learner | None] = {}
        keys: dict[str, Learner] = {}
        for learner in learners:
            if learner.key in keys:
                raise InputError(f"the roster names {learner.key} twice")
            keys[learner.key] = learner
            self.learners.append(learner)
            for known, words in ((self._given, _given(learner)), (self._names, _names(learner))):
                for word in words:
                    known[word] = learner if known.get(word, learner) is learner else None      # None: two learners share it

    def find(self, who: Named, names: bool = True) -> Learner | None:
        """The learner whom these words mean; None when nobody or more than one. names: whether a name alone is enough."""
        words = [normal(word) for word in who.words]
        return next((found for known in ((self._given, self._names) if names else (self._given,)) for found in map(known.get, words) if found), None)

    @staticmethod
    def named(learner: Learner, name: str) -> bool:
        """Whether this is the learner's name in the roster, in either order; Canvas leaves out all but letters, digits and underscores."""
        return _letters(name) in map(_letters, _names(learner))

    def known(self) -> set[str]:
        """Every word that means somebody."""
        return {*self._given, *self._names}


def _letters(word: str) -> str:
    return "".join(c for c in normal(word) if c.isalnum())


def _given(learner: Learner) -> set[str]:
    words = [learner.key, *(learner.facts.get(k, "") for k in ("id", "number", "login", "email", "file"))]
    return {normal(word) for word in words if word.strip()}


def _names(learner: Learner) -> set[str]:
    facts = learner.facts
    last_first = f"{facts.get('last', '')}{facts.get('first', '')}" or "".join(reversed(learner.name.split()))
    return {normal(word) for word in (learner.name, last_first) if word.strip()}


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


__all__ = ["COLUMNS", "Learner", "Named", "Roster", "looks", "named", "normal", "roster", "table", "unlisted"]
