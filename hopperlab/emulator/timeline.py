"""The timeline of a run: what was issued, landed, arrived, flipped, waited and woke, in order, as plain data.

Handlers record one entry a vector operation; `Timeline` makes Events of it, one a warp, only when somebody looks.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

KINDS = ("issue", "land", "arrive", "flip", "wait", "wake")
"""issue, land: an asynchronous operation starts, and its effect is there (for stores: 'read' when its source is free);
arrive: an arrival on an mbarrier; flip: a phase of an mbarrier completes; wait, wake: a warp is parked, and goes on.
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

    def record(self, *entry) -> None:
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
    from .reports import user_site          # reports.py needs session.py, which needs this module
    step, kind, what, blocks, warps, instr, details = entry
    site = user_site(instr) if instr is not None else None
    line, file = (site.line, site.file) if site is not None else (0, "")
    opcode, ptx_line = (instr.opcode, instr.ptx_line) if instr is not None else ("", 0)
    same = isinstance(details, str)
    return [Event(step, what, int(block), int(warp), line, details if same else details[k], kind, opcode, ptx_line, file)
            for k, (block, warp) in enumerate(zip(blocks, warps))]


class Tracer:
    """Records the events of one launch. Exists only where tracing is on: callers test `M.trace is not None`."""

    def __init__(self, machine):
        self.M, self.timeline = machine, machine.session.timeline
        self.waiting = np.zeros(machine.slots * machine.warps, bool)

    def _record(self, kind: str, what: str, warps, index: int | None, details) -> None:
        M = self.M
        blocks = M.slot_cta[warps // M.warps]
        self.timeline.record(M.step, kind, what, blocks.tolist(), (warps % M.warps).tolist(), None if index is None else M.body[index], details)

    def thread(self, kind: str, what: str, gid: int, index: int, detail: str = "") -> None:
        """An event of one thread."""
        self._record(kind, what, np.array([gid >> 5]), index, detail)

    def threads(self, kind: str, what: str, gids: np.ndarray, index: int, detail: str = "") -> None:
        """An event of every warp of these threads (sorted ids)."""
        warps = gids >> 5
        self._record(kind, what, warps[np.diff(warps, prepend=-1) != 0], index, detail)

    def warps(self, kind: str, what: str, warps: np.ndarray, index: int) -> None:
        """An event of these warps (global ids)."""
        self._record(kind, what, warps, index, "")

    def barriers(self, what: str, ids: np.ndarray) -> None:
        """A phase of each of these mbarriers completes."""
        M = self.M
        self.timeline.record(M.step, "flip", what, M.slot_cta[ids // M.barriers.capacity].tolist(), [-1] * len(ids), None,
                             self._named(ids))

    def _named(self, ids: np.ndarray) -> list[str]:
        barriers = self.M.barriers
        return [f"mbarrier {barriers.offsets[b % barriers.capacity]:#x}" for b in ids.tolist()]

    def arrive(self, C, ids: np.ndarray, index: int, expect) -> None:
        """Arrivals on mbarriers, one event a warp (its first lane's barrier)."""
        first = self.M.units(C).starts
        details = self._named(ids[first])
        if expect is not None:
            details = [f"{name} expects {n} bytes" for name, n in zip(details, expect[first].tolist())]
        self._record("arrive", "arrive mbarrier", self.M.units(C).gw, index, details)

    def wait(self, C, wait, index: int) -> None:
        """Warps are parked; those that were parked already are left out."""
        warps, first = np.unique(C.gids >> 5, return_index=True)
        new = ~self.waiting[warps]
        if new.any():
            self.waiting[warps[new]] = True
            self._record("wait", f"wait {self._what(index)}", warps[new], index, self._details(wait, first[new]))

    def passed(self, C, wait, index: int) -> None:
        """Warps go on; those that had not been parked leave no event."""
        warps, first = np.unique(C.gids >> 5, return_index=True)
        woken = self.waiting[warps]
        if woken.any():
            self.waiting[warps[woken]] = False
            self._record("wake", f"wake {self._what(index)}", warps[woken], index, self._details(wait, first[woken]))

    def _what(self, index: int) -> str:
        instr = self.M.body[index]
        return "bar" if instr.op == "barrier" and "cluster" not in instr.mods else instr.op

    def _details(self, wait, first: np.ndarray):
        if not hasattr(wait, "can_time_out") or not wait.can_time_out:
            return ""
        return [f"{name} parity {p}" for name, p in zip(self._named(wait.keys[first]), wait.extra[first].tolist())]
