# SPDX-License-Identifier: Apache-2.0
"""What the course holds, read from the files: lessons with their titles and minutes, the chapters they stand in, and the paths through them.

A path is a list of lesson numbers; its minutes are the sum of its notebooks' own, so nothing here has to be kept up to date.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

INDEX = "index"


@dataclass(frozen=True)
class Entry:
    """One lesson: number ('05', '05x' for an optional one), title, minutes, its notebook, and its exercise notebook where there is one."""

    number: str
    title: str
    minutes: int
    notebook: Path
    exercise: Path | None = None

    @property
    def optional(self) -> bool:
        """True for a notebook that goes deeper and belongs to no path."""
        return self.number.endswith("x")


@dataclass(frozen=True)
class Way:
    """A path through the course: its name, the hours it fits into, the lessons' numbers, and for whom it is."""

    name: str
    hours: int
    numbers: tuple[str, ...]
    purpose: str


WAYS = (
    Way("Half a day", 4, ("00", "04", "05", "08", "10"), "what is new on Hopper: barriers, TMA, wgmma, and warps with roles"),
    Way("One day", 8, ("00", "02", "03", "04", "05", "08", "09", "10", "11"), "from the Ampere pipeline to a warp-specialised product with its registers shared out"),
    Way("Two days", 16, tuple(f"{n:02d}" for n in range(14)), "everything up to persistent kernels, with the exercise at the end of each lesson"),
)


@dataclass(frozen=True)
class Chapter:
    """Lessons that belong together: name, what they are about in one sentence, and the numbers of the first and the last (optional ones go with their lesson)."""

    name: str
    purpose: str
    first: str
    last: str


CHAPTERS = (
    Chapter("Before Hopper", "What a tensor core eats, how a tile lies in shared memory, and copies in flight as Ampere has them.", "00", "03"),
    Chapter("Hopper's mechanisms", "A barrier that counts bytes, tiles by TMA, stores and their fences, and a tensor core that reads shared memory itself.", "04", "08"),
    Chapter("One product, step by step", "Stages, warps with roles, registers, clusters, persistent kernels: each removes the limit that the step before measured.",
            "09", "14"),
    Chapter("Beyond the product", "fp8, attention, what articles claim, and what comes after Hopper.", "15", "99"),
)


def entries(root: Path) -> list[Entry]:
    """The lessons under `root`/notebooks in order, optional ones behind the lesson they belong to.

    Raises KeyError for a notebook without title or minutes (built ones have both).
    """
    found = []
    for path in sorted((root / "notebooks").glob("[0-9][0-9]*_*.ipynb"), key=lambda p: p.name.split("_")[0]):
        facts = json.loads(path.read_text(encoding="utf-8"))["metadata"]["hopperlab"]
        exercise = root / "exercises" / path.name
        found.append(Entry(path.name.split("_")[0], facts["title"], int(facts["minutes"]), path, exercise if exercise.is_file() else None))
    return found


def on_way(way: Way, every: list[Entry]) -> tuple[list[Entry], list[str]]:
    """The lessons of a path that exist, in its order, and the numbers of those that do not."""
    known = {entry.number: entry for entry in every}
    return [known[n] for n in way.numbers if n in known], [n for n in way.numbers if n not in known]


def in_chapter(chapter: Chapter, every: list[Entry]) -> list[Entry]:
    """The lessons of a chapter that exist, in order."""
    return [entry for entry in every if chapter.first <= entry.number[:2] <= chapter.last]


def minutes(chosen: list[Entry]) -> int:
    """Minutes of these lessons together."""
    return sum(entry.minutes for entry in chosen)
