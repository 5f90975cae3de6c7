# SPDX-License-Identifier: Apache-2.0
"""The timeline of a run: what was issued, landed, arrived, flipped, waited and woke, in order, as plain data.

tracer.py records one entry a vector operation; `Timeline` makes Events of it, one a warp, only when somebody looks.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..ptx.places import user_site

KINDS = ("issue", "land", "arrive", "flip", "wait", "wake", "access")
"""issue, land: an asynchronous operation starts, and its effect is there (for stores: 'read' when its source is free);
arrive: an arrival on an mbarrier; flip: a phase of an mbarrier completes; wait, wake: a warp is parked, and goes on;
access: an ordinary load or store, a product or a barrier of a warp (only with trace="accesses").
A wait that finds its phase complete leaves no event."""


@dataclass
class Event:
    """One entry of the timeline. `step` is the emulator's virtual time (scheduler rounds), not seconds.

    what: kind and operation in words ('issue cp', 'phase flips', 'wait mbarrier'); block: linear CTA number; warp: in its
    block, -1 where no warp acts; line: of the kernel's source, 0 without line information; detail: barrier, bytes, parity.
    kind: one of KINDS; opcode: the whole PTX opcode; ptx_line: its line in the PTX text; file: of `line`.
    """

    step: int
    what: str
    block: int
    warp: int
    line: int
    detail: str = ""
    kind: str = ""
    opcode: str = ""
    ptx_line: int = 0
    file: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else f"PTX line {self.ptx_line}" if self.ptx_line else ""
        warp = f"warp {self.warp:2}" if self.warp >= 0 else "       "
        return f"{self.step:6} {self.what:18} block {self.block:4} {warp}  {self.detail:34} {where} {self.opcode}".rstrip()


class Timeline(Sequence):
    """Events in the order they happened: a sequence, filled while launches run.

    of(kind) picks one of KINDS; as_dicts() gives plain dictionaries for JSON.
    """

    def __init__(self) -> None:
        self.printing = False
        self._entries: list[tuple] = []
        self._events: list[Event] = []

    def record(self, *entry: Any) -> None:
        """(step, kind, what, blocks, warps, instr or None, details): one Event for each of `warps`."""
        if self.printing:
            for event in _events(entry):
                print(event, flush=True)
        self._entries.append(entry)

    def _all(self) -> list[Event]:
        if self._entries:
            entries, self._entries = self._entries, []
            for entry in entries:
                self._events.extend(_events(entry))
        return self._events

    def of(self, kind: str) -> list[Event]:
        """The events of one kind. Raises ValueError for a word that is not in KINDS."""
        if kind not in KINDS:
            raise ValueError(f"kind {kind!r}: choose one of {', '.join(KINDS)}")
        return [event for event in self if event.kind == kind]

    def as_dicts(self) -> list[dict]:
        """Every event as a dictionary of numbers and strings."""
        return [dict(vars(event)) for event in self]

    def __len__(self) -> int:
        return len(self._all())

    def __getitem__(self, place):
        return self._all()[place]

    def __iter__(self) -> Iterator[Event]:
        return iter(self._all())

    def __repr__(self) -> str:
        counts = Counter(event.kind for event in self)
        listed = ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind])
        return f"<timeline of {len(self)} events{': ' if listed else ''}{listed}>"


def wgmma_turns(timeline: Timeline, block: int) -> list[tuple[int, int]]:
    """Who issued wgmma in a block, in order: (warpgroup, how many in a row)."""
    found: list[tuple[int, int]] = []
    for event in timeline:
        if event.what == "issue wgmma" and event.block == block and event.warp % 4 == 0:
            who = event.warp // 4
            count = found.pop()[1] if found and found[-1][0] == who else 0
            found.append((who, count + 1))
    return found


def _events(entry: tuple) -> list[Event]:
    step, kind, what, blocks, warps, instr, details = entry
    site = user_site(instr) if instr is not None else None
    line, file = (site.line, site.file) if site is not None else (0, "")
    opcode, ptx_line = (instr.opcode, instr.ptx_line) if instr is not None else ("", 0)
    same = isinstance(details, str)
    return [Event(step, what, int(block), int(warp), line, details if same else details[k], kind, opcode, ptx_line, file)
            for k, (block, warp) in enumerate(zip(blocks, warps))]
