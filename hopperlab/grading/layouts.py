# SPDX-License-Identifier: Apache-2.0
"""How a class's folder is laid out, decided once from its top components: nbgrader's, Canvas's, Moodle's, or a folder or file a learner.

Top components are the teacher's or the learning platform's. What lies inside a learner's folder or zip is the learner's own, and names nobody.
"""
from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .submission_files import NOTEBOOK, ZIP, InputError, readable

MOODLE = re.compile(r"^(?P<name>.+?)_(?P<id>\d+)_assignsubmission_[a-z]+(?:_.*)?$", re.DOTALL)
MOODLE_MARK = re.compile(r"_\d+_assignsubmission_")
"""What stands once in a name that Moodle made: where it stands twice, a name or a file imitates it, and nobody is named."""
CANVAS = re.compile(r"^(?P<name>.+?)(?P<late>_LATE)?_(?P<id>[1-9]\d*)_(?P<submission>[1-9]\d*)_(?P<file>.+)$", re.IGNORECASE | re.DOTALL)
CANVAS_ANONYMOUS = re.compile(r"^(?P<late>LATE_)?(?P<name>anon)_(?P<id>[0-9A-Za-z]{5})_(?P<submission>[1-9]\d*)_(?P<file>.+)$", re.DOTALL)
CANVAS_NUMBER = re.compile(r"[1-9]\d{2,}_")
"""What a file's name begins with where it may be Canvas's own number: a learner whose name ends in a number ('bob_101') or whose file begins with
two would else be somebody else, so nobody is named."""
EXCHANGE = re.compile(r"^.+\+.+\+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^+]*(?:\+[\w-]+)?$")
"""LEARNER+ASSIGNMENT+TIME+RANDOM, as nbgrader's exchange names folders in inbound/."""
SUBMITTED = "submitted"
COURSES_OWN = {"source", "release", "autograded", "feedback", "downloaded", "solution"}
"""Folders of an nbgrader course beside submitted/, which hold nobody's submission."""
MOST_NAME = 200
PLAIN, NBGRADER, CANVAS_EXPORT, MOODLE_EXPORT = "plain", "nbgrader", "canvas", "moodle"
WRAPPED = 2                # folders in the one folder of a zip that make it a folder around everything


@dataclass(frozen=True)
class Named:
    """What a path says: the learner's words (any of which a roster may know), whether Canvas marked it late, and by what rule."""

    words: tuple[str, ...]
    name: str
    late: bool = False
    rule: str = "folder"


def plain_name(top: str, stems: Collection[str], inside: bool) -> str:
    """The name that a folder, a zip or a file gives: 'ada' of ada/, ada.zip and 'ada (1).zip', of ada_04_mbarrier.ipynb and 04_mbarrier-ada.ipynb."""
    zipped = top.lower().endswith(".zip")
    if inside and not zipped:
        return top
    name = re.sub(r"\s*\(\d+\)$", "", re.sub(r"\.(ipynb|zip)$", "", top, flags=re.IGNORECASE))
    for stem in stems:
        name = re.sub(rf"^{re.escape(stem)}[-_ .]+(?=.)|(?<=.)[-_ .]+{re.escape(stem)}$", "", name)
    return name


def shown(name: str) -> str:
    """A name as reports show it: one line, no characters that a reader does not see."""
    return readable(" ".join(name.split()))[:MOST_NAME] or "without a name"


def normal(word: str) -> str:
    """A word as it is compared: no case, accents composed, no spaces or punctuation except within addresses and numbers."""
    return re.sub(r"[\s,;'\"]+", "", unicodedata.normalize("NFKC", word)).casefold()


@dataclass(frozen=True)
class Layout:
    """One layout. depth: components above the one that names a learner; warnings: what the teacher should look at."""

    kind: str = PLAIN
    depth: int = 0
    stems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def who(self, parts: Sequence[str]) -> Named | None:
        """Who handed in the file at `parts`; None for what is nobody's, such as other folders of an nbgrader course."""
        if self.kind == NBGRADER and self.depth and parts[0] != SUBMITTED or len(parts) <= self.depth:
            return None
        top, inside = parts[self.depth], len(parts) > self.depth + 1
        found = _of_platform(top, self.kind) if self.kind in (CANVAS_EXPORT, MOODLE_EXPORT) else None
        if found is not None:
            return found
        name = plain_name(top, self.stems, inside)
        return Named((name, top), shown(name), rule="nbgrader" if self.kind == NBGRADER else "folder" if inside else "file")

    def source(self, parts: Sequence[str]) -> str:
        """What names the learner, as it is written there: two sources of one learner are a conflict, and not two attempts."""
        who, top = self.who(parts), parts[self.depth]
        assert who is not None
        if who.rule in (CANVAS_EXPORT, MOODLE_EXPORT):
            return f"{who.rule}: {who.name}_{who.words[0]}"
        return _pattern(top, self.stems) if who.rule == "file" and top.lower().endswith(NOTEBOOK) else top

    def stamped(self, parts: Sequence[str]) -> tuple[str, ...] | None:
        """The folder whose timestamp.txt is the time of the file at `parts`: nbgrader's submitted/LEARNER/ASSIGNMENT, else none."""
        return tuple(parts[:self.depth + 2]) if self.kind == NBGRADER and len(parts) > self.depth + 2 else None


def _pattern(top: str, stems: Collection[str]) -> str:
    """A file's name without what tells one's own files apart: '*_ada.ipynb' of 04_mbarrier_ada.ipynb and of '05_tma_tiles_ada (2).ipynb'."""
    name = re.sub(r"\s*\(\d+\)(?=\.[^.]*$)", "", top)
    for stem in stems:
        name = name.replace(stem, "*")
    return name


def _canvas(top: str) -> re.Match[str] | None:
    """How Canvas's name is read; None for what is none, or can be read in two ways."""
    found = CANVAS_ANONYMOUS.match(top)
    if found is None or CANVAS_NUMBER.match(found["file"]):
        found = CANVAS.match(top)
    return found if found and not CANVAS_NUMBER.match(found["file"]) else None


def _of_platform(top: str, kind: str) -> Named | None:
    if kind == CANVAS_EXPORT and (found := _canvas(top)):
        return Named((found["id"], found["name"]), shown(found["name"]), bool(found["late"]), CANVAS_EXPORT)
    if kind == MOODLE_EXPORT and (found := MOODLE.match(top)) and len(MOODLE_MARK.findall(top)) == 1:
        return Named((found["id"], f"Participant {found['id']}", found["name"]), shown(found["name"]), rule=MOODLE_EXPORT)
    return None


def decide(found: Iterable[tuple[str, ...]], path: Path, stems: Collection[str] = (), known: Collection[str] = ()) -> Layout:
    """The layout of a class. found: the places of all notebooks and zips; path: the folder or zip that was given; known: names of the roster.

    Raises InputError where it cannot be told whose the files are.
    """
    paths = [parts for parts in found if parts]
    depth = 0
    warnings: list[str] = []
    wrapper = _wrapper(paths, path, known)
    if wrapper:
        warnings.append(f"{readable(path.name)} holds one folder, {readable(wrapper)!r}, with folders in it: it is taken as a folder around everything, not "
                        f"as a learner's")
        depth = 1
    names = list(dict.fromkeys(parts[depth] for parts in paths if len(parts) > depth))
    folders = {parts[depth] for parts in paths if len(parts) > depth + 1}
    if folders and all(map(EXCHANGE.match, folders)):
        raise InputError(f"{path} is the inbound folder of nbgrader's exchange. `nbgrader collect` looks who owns each folder in it: run that, and give the "
                         f"course's {SUBMITTED}")
    if SUBMITTED in folders:
        others = [name for name in names if name not in {SUBMITTED, *COURSES_OWN}]
        if others:
            raise InputError(f"{path} holds {SUBMITTED}/, as an nbgrader course does, and notebooks beside it ({', '.join(map(readable, others[:5]))}): "
                             f"give the folder that is meant, such as {path / SUBMITTED}")
        if depth:
            raise InputError(f"{path} holds {wrapper}/{SUBMITTED}: unpack it and give the folder {SUBMITTED}")
        return _said(Layout(NBGRADER, 1, tuple(stems), tuple(warnings)), paths)
    if path.resolve().name == SUBMITTED:
        return _said(Layout(NBGRADER, 0, tuple(stems), tuple(warnings)), paths)
    kind = next((kind for kind in (CANVAS_EXPORT, MOODLE_EXPORT) if names and 2 * sum(_of_platform(name, kind) is not None for name in names) >= len(names)), PLAIN)
    for name in names:
        like = next((other for other in (CANVAS_EXPORT, MOODLE_EXPORT) if _like(name, other)), "")
        if kind == PLAIN and like:
            warnings.append(f"{readable(name)!r} is named in {like.title()}'s manner in a folder that is not {like.title()}'s: it is taken as a name, and "
                            f"names nobody else")
        elif kind == CANVAS_EXPORT and CANVAS.match(name) and _of_platform(name, kind) is None:
            warnings.append(f"{readable(name)!r} can be read as the work of two: it holds more than two of Canvas's numbers, so it names nobody. "
                            "Look in Canvas whose it is, and take the numbers that are not Canvas's out of its name")
        elif kind != PLAIN and _of_platform(name, kind) is None:
            warnings.append(f"{readable(name)!r} is not named as {kind.title()} names what it exports: it is taken as a learner's own name")
    return _said(Layout(kind, depth, tuple(stems), tuple(warnings)), paths)


def _wrapper(paths: Sequence[tuple[str, ...]], path: Path, known: Collection[str]) -> str:
    """The one folder that a zip often wraps around everything; '' where there is none, or where it is somebody's."""
    tops = {parts[0] for parts in paths}
    top = next(iter(tops), "")
    if len(tops) != 1 or path.suffix.lower() != ZIP or top == SUBMITTED or normal(top) in known:
        return ""
    inner = {parts[1] for parts in paths if len(parts) > 2}
    beside = any(len(parts) == 2 and _of_platform(parts[1], CANVAS_EXPORT) is None and _of_platform(parts[1], MOODLE_EXPORT) is None for parts in paths)
    if any(_of_platform(top, kind) for kind in (CANVAS_EXPORT, MOODLE_EXPORT)) or top.lower().endswith((ZIP, NOTEBOOK)):
        return ""
    if any(name == SUBMITTED or _like(name, MOODLE_EXPORT) or _like(name, CANVAS_EXPORT) for name in inner | {parts[1] for parts in paths if len(parts) > 1}):
        return top if normal(top) == normal(path.stem) and SUBMITTED not in inner else ""
    return top if len(inner) >= WRAPPED and not beside else ""


def _like(name: str, kind: str) -> bool:
    return bool(CANVAS.match(name)) if kind == CANVAS_EXPORT else bool(MOODLE_MARK.search(name))


def _said(layout: Layout, paths: Sequence[tuple[str, ...]]) -> Layout:
    """With a warning for each learner's folder or zip that holds names of others."""
    warnings = dict.fromkeys(layout.warnings)
    for parts in paths:
        inside = parts[layout.depth + 1:]
        named = next((part for part in inside[:-1] if part == SUBMITTED or _like(part, MOODLE_EXPORT)), None) or next(
            (part for part in inside if _like(part, CANVAS_EXPORT) and layout.kind == PLAIN), None)
        if named and len(parts) > layout.depth:
            warnings[f"{readable(parts[layout.depth])!r} holds {readable(named)!r}, which looks like a class's layout: all in it counts as this one learner's. "
                     "To grade a course's folder or an export, give that itself"] = None
    return Layout(layout.kind, layout.depth, layout.stems, tuple(warnings))


def named(parts: tuple[str, ...], stems: Collection[str] = ()) -> Named | None:
    """Who handed in a file that is all that there is; None when nobody."""
    return decide([parts], Path("class"), stems).who(parts)


__all__ = ["CANVAS_EXPORT", "MOODLE_EXPORT", "NBGRADER", "PLAIN", "Layout", "Named", "decide", "named", "normal", "shown"]
