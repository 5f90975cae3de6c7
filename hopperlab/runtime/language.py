# SPDX-License-Identifier: Apache-2.0
"""The language that a notebook speaks: what figures, panels, questions and checks say, looked up in tables of strings (strings/LANGUAGE/*.toml).

English is the key and what is shown where a table has nothing, so that code is written once. A key may hold places, {0} to {9}: `"{0} of {1} judged rightly."`
is found in the text "3 of 4 judged rightly.". What stands in a place is looked up as well, and where "; " joins several strings there, each of them.
`say` is asked where something is shown; hashes of drawing code do not see it (authoring/stamps/drawing.py).
"""
from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

from .errors import HopperlabError

ENGLISH = "en"
LANGUAGES = {ENGLISH: "English", "zh": "中文"}
VARIABLE = "HOPPERLAB_LANG"
SESSION = "JPY_SESSION_NAME"           # Jupyter's server names the notebook of a kernel here
NOTE_MISSING = "HOPPERLAB_MISSING_STRINGS"
STRINGS = Path(__file__).with_name("strings")
PLACE = re.compile(r"\{(\d)\}")
CHINESE = re.compile(r"[\u4e00-\u9fff]")
WORDS = re.compile(r"[A-Za-z]{2}")
WHOLE = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))+?"
"""What may stand in a place, in a regular expression: no half of a pair of parentheses, which may be nested once."""
JOINT = "; "


class LanguageError(HopperlabError, ValueError):
    """No such language, or a table that cannot be read."""


def known(name: str) -> str:
    """`name` itself. Raises LanguageError, with those there are, for a language without tables."""
    if name not in LANGUAGES:
        raise LanguageError(f"there is no edition in {name!r}; there are: {', '.join(f'{code} ({own})' for code, own in LANGUAGES.items())}")
    return name


def language() -> str:
    """'en' or 'zh': what HOPPERLAB_LANG says, else the language of the notebook that this kernel belongs to. Raises LanguageError for a language without tables."""
    return language_of(os.environ.get(SESSION, ""))


def language_of(notebook: str | Path) -> str:
    """What HOPPERLAB_LANG says, else the language of this notebook's file; English for one that says nothing. Raises LanguageError for a language without tables."""
    given = os.environ.get(VARIABLE, "").strip().lower().replace("-", "_").split("_")[0]
    return known(given) if given else _of_notebook(str(notebook))


@cache
def _of_notebook(name: str) -> str:
    """What the metadata of the notebook `name` says; English for a name that is no notebook here."""
    path = next((path for path in (Path(name), Path.cwd() / Path(name).name) if name.endswith(".ipynb") and path.is_file()), None)
    if path is None:
        return ENGLISH
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["metadata"]["hopperlab"]["language"]
    except (OSError, ValueError, KeyError, TypeError):
        return ENGLISH
    return found if found in LANGUAGES else ENGLISH


def say(text: str, into: str | None = None) -> str:
    """The text in the notebook's language, or in `into`: as a whole, else line by line; what no table has stays English."""
    to = into or language()
    if to == ENGLISH or not text:
        return text
    return table(to).get(text) or "\n".join(_line(line, to) for line in text.split("\n"))


def named(values: list[Any]) -> list[Any]:
    """Options of a drop-down list: the values, or (what it says, value) for each where one is a text that has a translation."""
    said = [say(value) if isinstance(value, str) else value for value in values]
    return values if said == values else [(str(one), value) for one, value in zip(said, values, strict=True)]


def columns(text: str) -> str:
    """As many blanks as the translation of a text takes columns of a font of one width; Chinese characters take two."""
    return " " * sum(2 if east_asian_width(character) in "WF" else 1 for character in say(text))


def _line(line: str, to: str) -> str:
    bare = line.strip()
    found = _whole(bare, to) if bare else None
    if found is None:
        _note(bare)
        return line
    return line.replace(bare, found, 1)


def _whole(text: str, to: str) -> str | None:
    """The translation of one string; None where the tables have none."""
    exact, patterns = table(to), _patterns(to)
    if text in exact:
        return exact[text]
    if not WORDS.search(text):
        return text
    for begin, row in patterns:
        found = row.any.fullmatch(text) if text.startswith(begin) and row.may_be(text) else None
        if found:
            return _filled(row.instead, row.whole.fullmatch(text) or found, to)
    return None


def _filled(text: str, found: re.Match[str], to: str) -> str:
    """A translation with what was found in its places."""
    return PLACE.sub(lambda place: _part(found[f"p{place[1]}"], to), text)


def _part(text: str, to: str) -> str:
    """What stands in a place, translated where it is a string of the table by itself, or several that "; " joins."""
    if text not in table(to) and (found := _joined(text, to)):
        return found
    return _whole(text, to) or text


def _joined(text: str, to: str) -> str:
    """The translations of two strings or more that "; " joins; '' where one of them has none, and where there are no words."""
    said, open_ = list[str](), ""
    if JOINT not in text or not WORDS.search(text):
        return ""
    for piece in text.split(JOINT):
        open_ += (JOINT if open_ else "") + piece
        found = _whole(open_, to)
        if found is not None:
            said.append(found)
            open_ = ""
    return "" if open_ or len(said) < 2 else "；".join(said)


@cache
def table(to: str) -> Mapping[str, str]:
    """Every string of a language, by its English. Raises LanguageError for a file that is no TOML, for one key with two translations, and for a
    place that the English has not."""
    found: dict[str, str] = {}
    for path in sorted((STRINGS / known(to)).glob("*.toml")):
        try:
            read: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as problem:
            raise LanguageError(f"{path.name}: {problem}") from None
        for key, value in read.items():
            if not isinstance(value, str) or set(PLACE.findall(value)) - set(PLACE.findall(key)):
                raise LanguageError(f"{path.name}: the translation of {key!r} is not a text, or has a place that the English has not")
            if found.setdefault(key, value) != value:
                raise LanguageError(f"{path.name}: {key!r} has another translation already: {found[key]!r}")
    return found


@dataclass(frozen=True)
class _Row:
    """A string with places and its translation. There are some two thousand, and a text needs few of their regular expressions: each is compiled when asked for."""

    key: str
    begin: str                      # what stands in front of the first place
    parts: tuple[str, ...]          # what stands behind each place
    instead: str

    def may_be(self, text: str) -> bool:
        """False where the text lacks a part, or has them in another order."""
        at = len(self.begin)
        for part in self.parts:
            at = text.find(part, at)
            if at < 0:
                return False
            at += len(part)
        return text.endswith(self.parts[-1])

    @cached_property
    def any(self) -> re.Pattern[str]:
        """With anything in the places."""
        return re.compile(_pattern(self.key, ".+?"))

    @cached_property
    def whole(self) -> re.Pattern[str]:
        """With whole parentheses in the places."""
        return re.compile(_pattern(self.key, WHOLE))


@cache
def _patterns(to: str) -> list[tuple[str, _Row]]:
    """(beginning, all of it) of each string with places, the longest first."""
    split = [(key, PLACE.split(key)[::2], value) for key, value in table(to).items()]
    rows = [_Row(key, begin, tuple(parts), value) for key, (begin, *parts), value in split if parts]
    return [(row.begin, row) for row in sorted(rows, key=lambda row: -len(_pattern(row.key, ".+?")))]


def _pattern(key: str, anything: str) -> str:
    """The regular expression of a string with places; `anything` is that of one place."""
    pattern, seen = "", set[str]()
    for index, part in enumerate(PLACE.split(key)):
        pattern += re.escape(part) if index % 2 == 0 else f"(?P=p{part})" if part in seen else f"(?P<p{part}>{anything})"
        seen |= {part} if index % 2 else set()
    return pattern


def _note(text: str) -> None:
    """Append a string without translation, as one line of JSON, to the file that HOPPERLAB_MISSING_STRINGS names."""
    file = os.environ.get(NOTE_MISSING)
    if file and WORDS.search(text) and not CHINESE.search(text):
        with open(file, "a", encoding="utf-8") as out:
            out.write(json.dumps(text, ensure_ascii=False) + "\n")
