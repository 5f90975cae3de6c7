# SPDX-License-Identifier: Apache-2.0
"""What the landing notebook shows: syllabus with progress, paths with their minutes, and what runs where on this machine.

Everything is computed from the files when a cell runs; nothing here lists lessons. Tables are HTML that takes its colours from
the notebook's theme, with the same words as plain text.
"""

from __future__ import annotations

import html
import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...runtime.language import ENGLISH, language, say
from ...runtime.tables import text_table
from .. import course
from . import learner_progress, workspace


@dataclass(frozen=True)
class Table:
    """Rows of cells; a cell is text, or (text, link). `note` stands below."""

    head: tuple[str, ...]
    rows: tuple[tuple, ...]
    note: str = ""

    def __str__(self) -> str:
        rows = [tuple(_words(cell) for cell in row) for row in self.rows]
        lines = text_table("  ".join([*["{:<*}"] * (len(self.head) - 1), "{}"]), rows, tuple(map(say, self.head)))
        return "\n".join([*lines, *textwrap.wrap(say(self.note), 110)])

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": str(self)}

    def html(self) -> str:
        """The table as HTML."""
        def line(row: Sequence, tag: str) -> str:
            return "<tr>" + "".join(f'<{tag} style="text-align: left; vertical-align: top">{_linked(cell)}</{tag}>' for cell in row) + "</tr>"
        note = f"<p>{html.escape(say(self.note))}</p>" if self.note else ""
        return f"<table><thead>{line(self.head, 'th')}</thead><tbody>{''.join(line(row, 'td') for row in self.rows)}</tbody></table>{note}"


def _words(cell: str | tuple) -> str:
    return " ".join(_words(part) for part in cell) if isinstance(cell, list) else say(cell[0] if isinstance(cell, tuple) else cell)


def _linked(cell: str | tuple | list) -> str:
    if isinstance(cell, list):
        return " ".join(_linked(part) for part in cell)
    if isinstance(cell, tuple):
        return f'<a href="{html.escape(cell[1])}">{html.escape(say(cell[0]))}</a>'
    return html.escape(say(cell))


def _here() -> tuple[Path, Path | None]:
    """The course's folder, and the working folder when this notebook stands in it: progress is only known there."""
    root, here = workspace.find_root(), Path.cwd().resolve()
    work = workspace.find_work(root)
    return root, work if work and (here == work or work in here.parents) else None


def _title(entry: course.Entry, work: Path | None) -> str:
    """The lesson's title: in another language that of the learner's copy."""
    copy = work / entry.notebook.name if work and language() != ENGLISH else entry.notebook
    try:
        return json.loads(copy.read_text(encoding="utf-8"))["metadata"]["hopperlab"]["title"]
    except (OSError, ValueError, KeyError):
        return entry.title


def syllabus() -> Table:
    """Every lesson there is: number, title with a link, minutes, how far you are, and your exercises."""
    root, work = _here()
    rows = []
    for entry in course.entries(root):
        done = learner_progress.of(entry, work) if work else None
        solved = "" if done is None or not done.exercises else f"{done.solved} of {done.exercises} solved"
        exercise = [solved, ("notebook", f"exercises/{entry.exercise.name}")] if entry.exercise and work else solved
        rows.append((entry.number, (_title(entry, work), entry.notebook.name), f"{entry.minutes} min" + (", optional" if entry.optional else ""),
                     done.words if done else "", exercise))
    note = ("Progress is read from your saved copies: save a lesson (Ctrl+S), then run this cell again." if work else
            "This is not your copy: make lab, in a terminal, opens one and shows your progress here.")
    return Table(("", "lesson", "time", "your progress", "your exercises"), tuple(rows), note)


def paths() -> Table:
    """The half-day, one-day and two-day paths: minutes added up from the lessons' own, the lessons, and what is left to run."""
    root, work = _here()
    every = course.entries(root)
    rows = []
    for way in course.WAYS:
        chosen, missing = course.on_way(way, every)
        left = [e for e in chosen if work and learner_progress.of(e, work).words != "run"]
        lessons: list = [(entry.number, entry.notebook.name) for entry in chosen]
        if missing:
            lessons.append(f"(not in this copy of the course: {', '.join(missing)})")
        rows.append((way.name, f"{course.minutes(chosen)} min" + (f", {course.minutes(left)} left" if work else ""), lessons, way.purpose))
    return Table(("path", "lessons take", "lessons", "what you learn"), tuple(rows),
                 "The rest of the time is for questions and for your own experiments; optional notebooks (05x, …) belong to no path.")


def machine() -> Table:
    """What runs where on this machine, in five lines; `hopperlab doctor` says more, and how to mend what is missing."""
    import hopperlab as hl

    from ...runtime.compile import toolchain
    from ...runtime.gpu.driver import find_gpu

    gpu, on_gpu = find_gpu(), hl.backend() == "gpu"
    name = gpu.name if gpu else "no NVIDIA GPU"
    try:
        compiler = "compiled here by clang, for the emulator" if toolchain.compiler() == "clang" else (f"compiled here by NVRTC "
                                                                                                       f"{'.'.join(map(str, toolchain.nvrtc_version()))}, for sm_90a")
    except hl.ToolchainError:
        compiler = f"not compiled here (no NVRTC, no clang): the lessons' own kernels come ready compiled; to compile edited ones: {toolchain.CLANG}"
    rows = (
        ("kernels of the lessons", f"on the GPU ({name})" if on_gpu else f"in the emulator ({name})"),
        ("CUDA that you write or edit", compiler),
        ("hazards, counters and timelines", "in the emulator, on every machine"),
        ("times of kernels", "measured here" if on_gpu else "recorded on an H200, and labelled so"),
        ("planted bugs", "in the emulator; what a GPU does with them was recorded, and can be tried in a worker process" if on_gpu
         else "in the emulator; what a GPU does with them was recorded on an H200"),
    )
    return Table(("what", "where"), rows)
