# SPDX-License-Identifier: Apache-2.0
"""Repairs: what a lesson has broken, the learner mends in a cell of CUDA, and the emulator judges under every landing order.

    %%repair 03 shallow
    …the lines of the kernel that matter, broken…

The rest of the kernel stays in its file; the cell's lines take the place of those that the lesson's room names in repairs.py (REPAIRS). An untouched
cell says what is still wrong, and raises nothing. authoring/notebooks/lesson_source.py writes the cell, its hint and its reference from the same entry.
"""
from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import hopperlab as hl

from ..checking.check import accepted_with
from ..emulator.hazards.causes import causes_first
from ..runtime import uses
from ..runtime.errors import HopperlabError, PtxasWarning
from ..runtime.library import original, standing_in, whatever_ptxas_notes
from ..show.hazard_words import explain, hazards
from .host_repairs import HostRepair

LANDINGS = ("lazy", "eager", "random")
CELL = "repair.cu"                  # what messages call the cell's lines
ASYNCHRONOUS = re.compile(r"cp_async|memcpy_async|cp_reduce|wgmma|CUtensorMap")
WAYS = {"cp_async_bytes": "by cp.async", "bulk_load_bytes": "by bulk copies to shared memory", "tma_load_bytes": "by tensor copies to shared memory",
        "shared_load_bytes": "from shared memory to registers", "bulk_store_bytes": "by bulk copies from shared memory",
        "tma_store_bytes": "by tensor copies from shared memory", "bulk_reduce_bytes": "by bulk reductions", "tma_reduce_bytes": "by tensor reductions",
        "dsmem_load_bytes": "from another block's shared memory", "dsmem_store_bytes": "to another block's shared memory"}
"""Counters of the ways that data takes in a kernel: a repair that takes less than half of the reference's bytes one of these ways goes round it."""
Changes = tuple[tuple[str, str], ...]


class RepairError(HopperlabError, ValueError):
    """No such repair, or an entry that does not fit its kernel."""


@dataclass(frozen=True)
class Repair:
    """One broken place of a kernel.

    name:        unique in its lesson; file: below hopperlab/kernels/
    begin, end:  texts of the first and of the last line that the learner sees, the first such lines of the file
    bug:         (old, new) pairs that break these lines, each old text there exactly once; where the file itself is broken (`mended`), the pairs mend it
    run:         (landing) -> (whether the values are right, session of a run that collects hazards); it loads the kernel from its file
    hint:        one or two sentences, which do not give it away
    also:        (landing, session) -> '' or what else is not as the lesson asks, of a run whose values are right and that shows no hazard:
                 bank conflicts, copies on their way, a case that the run leaves out
    plain:       (old, new) pairs that take other switches of the kernel out of these lines, broken and right
    """

    name: str
    file: str
    begin: str
    end: str
    bug: Changes
    run: Callable[[str], tuple[bool, Any]]
    hint: str
    mended: bool = False
    plain: Changes = ()
    language: str = "cuda"
    also: Callable[[str, Any], str] = lambda landing, run: ""

    def _rows(self) -> list[str]:
        """The lines of the file itself, also where the learner has edited it."""
        uses.tell(uses.READ, self.file)
        return original(self.file).split("\n")

    def span(self) -> tuple[int, int]:
        """Indices of the first line and of the one behind the last, in the file's text. Raises RepairError when there are no such lines."""
        rows = self._rows()
        first = next((i for i, row in enumerate(rows) if self.begin in row), None)
        last = None if first is None else next((i for i in range(first, len(rows)) if self.end in rows[i]), None)
        if first is None or last is None:
            raise RepairError(f"{self.file} has no lines from {self.begin!r} to {self.end!r}")
        return first, last + 1

    def _own(self) -> str:
        first, end = self.span()
        return self._replaced(without_bugs("\n".join(self._rows()[first:end])), self.plain)

    def _changed(self) -> str:
        return self._replaced(self._own(), self.bug)

    def _replaced(self, text: str, changes: Changes) -> str:
        for old, new in changes:
            if text.count(old) != 1:
                raise RepairError(f"{self.file}, from {self.begin!r} on, has {text.count(old)} places with {old!r}: name exactly one")
            text = text.replace(old, new)
        return text

    @property
    def broken(self) -> str:
        """The lines that the cell begins with."""
        return self._own() if self.mended else self._changed()

    @property
    def reference(self) -> str:
        """The same lines, right."""
        return self._changed() if self.mended else self._own()

    def whole(self, lines: str) -> str:
        """The kernel with these lines in their place, and with fences at hand; messages name those of the cell as lines of CELL, counted from its second."""
        rows = self._rows()
        first, end = self.span()
        return "\n".join(["#include <hopperlab/fence.cuh>", f'#line 1 "{self.file}"', *rows[:first], f'#line 1 "{CELL}"', *lines.rstrip("\n").split("\n"),
                          f'#line {end + 1} "{self.file}"', *rows[end:]])

    def judge(self, lines: str) -> str:
        """One line that says that it is right, or what is wrong first: what the emulator names, and only then what ptxas notes, which not every machine has.
        Warnings do not decide, as in exercises: what is right is told one that is left. Raises CompileError for lines that do not compile.
        """
        doubts: dict[str, None] = {}
        with standing_in(self.file, self.whole(lines)):
            for landing in LANDINGS:
                head = f"Not repaired yet. Copies land {landing}: the" if self.copies else "Not repaired yet. The"
                try:
                    right, run, noted = self._run(landing)
                except hl.EmulatorError as error:
                    return f"{head[:-len(' the')]} {str(error).splitlines()[0]}"
                if run.hazards or not right:
                    shown = causes_first(run.hazards) or run.warnings
                    return "\n".join([f"{head} values are {'right' if right else 'wrong'}; {hazards(run)}", *map(explain, shown[:1])])
                if noted:
                    return f"Not repaired yet. {noted}"
                if asked := self.also(landing, run) or self._round_about(landing, run):
                    return f"Not repaired yet. The values are right and no hazard is named, but {asked}"
                doubts |= dict.fromkeys(map(explain, run.warnings))
        named = "no hazard is named" if doubts else "nothing is named"
        under = ", whether copies land {} or {}" if self.copies else ", under the schedules {} and {}"
        return "\n".join([f"Right: the values are right and {named}{under.format(', '.join(LANDINGS[:-1]), LANDINGS[-1])}.", *accepted_with(list(doubts))])

    def _run(self, landing: str) -> tuple[bool, Any, str]:
        """What `run` gives, and '' or the note with which ptxas says that it changed the kernel."""
        try:
            return *self.run(landing), ""
        except hl.NoteError as error:
            noted = str(error)
        with whatever_ptxas_notes(), warnings.catch_warnings():
            warnings.simplefilter("ignore", PtxasWarning)
            return *self.run(landing), noted

    def _round_about(self, landing: str, run: Any) -> str:
        """'' or the way of the kernel's data that the learner's lines leave out. Half of the bytes are enough: a shuffle may stand for a second read."""
        if landing != LANDINGS[0]:
            return ""
        for counter, meant in _reference_bytes(self).items():
            if 2 * run.counters[counter] < meant:
                return f"only {run.counters[counter]} of this kernel's {meant} bytes go {WAYS[counter]}: what is to be mended is left out."
        return ""

    @property
    def copies(self) -> bool:
        """True for a kernel with asynchronous copies or products: where it has none, nothing lands."""
        return bool(ASYNCHRONOUS.search(original(self.file)))


@cache
def _reference_bytes(repair: Repair) -> dict[str, int]:
    """By counter of WAYS: the bytes that the reference takes that way, where it takes any."""
    with standing_in(repair.file, repair.whole(repair.reference)):
        counters = repair.run(LANDINGS[0])[1].counters
    return {name: int(counters[name]) for name in WAYS if counters[name]}


BLOCK = re.compile(r"^( *)if \(!BUG_\w+\) \{\n(.*?)^\1\}(?: else \{\n.*?^\1\})?\n", re.M | re.S)
RULES = (
    (re.compile(r"^ *if \(BUG_\w+(?: && [^;{}\n]*)?\) [^;{}\n]*;[^\n]*\n", re.M), ""),
    (re.compile(r" && \(!BUG_\w+ \|\| [^()]*\)"), ""), (re.compile(r"\n\s*&& \(!BUG_\w+ \|\| [^()]*\)"), ""),
    (re.compile(r"\(BUG_\w+ \|\| ([^()]*)\)"), r"\1"),
    (re.compile(r"if \(!BUG_\w+\)\s+"), ""),
    (re.compile(r" && !BUG_\w+"), ""), (re.compile(r"!BUG_\w+ && "), ""),
    (re.compile(r"(?<!\w)\(BUG_\w+ \? [^:;()]+ : (\w+)\)"), r"\1"), (re.compile(r"BUG_\w+ \? [^:;]+ : "), ""),
    (re.compile(r" \+ BUG_\w+"), ""),
)


def without_bugs(text: str) -> str:
    """CUDA without the switches BUG_… that plant a lesson's bugs, as if each were 0. What none of the usual forms is stays as it is."""
    return decided(text, BLOCK, RULES)


def decided(text: str, block: re.Pattern[str], rules: Iterable[tuple[re.Pattern[str], str]]) -> str:
    """CUDA whose switches are decided: of each `block` what stands in it (its second group) at the indentation of the first, then each of the rules."""
    text = block.sub(lambda found: re.sub(rf"^{found[1]}    ", found[1], found[2], flags=re.M), text)
    for pattern, instead in rules:
        text = pattern.sub(instead, text)
    return text


@cache
def every() -> dict[tuple[str, str], Repair | HostRepair]:
    """All repairs by (lesson, name), in order."""
    rooms = sorted(path.parent.name for path in Path(__file__).parent.glob("l*/repairs.py"))
    return {(room.split("_")[0][1:], repair.name): repair for room in rooms for repair in import_module(f"{__package__}.{room}.repairs").REPAIRS}


def find(lesson: str, name: str) -> Repair | HostRepair:
    """The repair of a lesson ('03', 'shallow'). Raises RepairError with those there are."""
    if (lesson, name) not in every():
        there = [other for number, other in every() if number == lesson]
        raise RepairError(f"lesson {lesson} has no repair {name!r}; it has: {', '.join(there) or 'none'}")
    return every()[lesson, name]
