# SPDX-License-Identifier: Apache-2.0
"""What the checkers of one launch found: every situation once for each pair of source lines. findings_*.py say what is known of each."""
from __future__ import annotations

from bisect import bisect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..ptx.places import Place
from . import compiler_made
from .hazard import End, Hazard
from .kinds import CASES

if TYPE_CHECKING:
    from ..machine.machine import Machine
    from ..machine.memory import Allocation
    from ..ptx.ir import Instr
    from .clocks import Clocks

    class Watched(Machine):
        """A machine that this room listens to."""

        fences: Any
        findings: Findings  # type: ignore[assignment]  # for the machine it is a place at which it never looks

ONE_STEP = ("shared-proxy-fence", "global-proxy-fence")       # cases of which one missing step shows at many pairs of lines
TOO_EARLY = ("read-before-copy", "read-before-cp.async-arrives", "read-of-nothing", "race-threads", "overwrite-read-by-plain", "overwrite-read-by-wgmma",
             "overwrite-written", "global-race")
MEETS = ("bar", "barrier", "fence", "membar", "mbarrier")
WARPGROUP, MASKED = ("wgmma", "setmaxnreg"), ("shfl", "vote", "match", "redux", "elect")

WIDER = {"race-threads": "race-lanes", "global-race": "global-race-lanes"}     # what is said instead once several warps share the data


class Findings:
    """`hazards` of the launch; warnings go to its session. clocks: what the columns of the checkers mean (None without them). told: (kind, line,
    opcode, other line, other opcode) of every one."""

    def __init__(self, machine: Watched, clocks: Clocks | None = None) -> None:
        self.M = machine
        self.clocks: Any = clocks       # the checkers that ask for it have one
        self.barriers: Any = None       # the BarrierChecks of a launch that is checked
        self.hazards: list[Hazard] = []
        self.told: set[tuple[Any, ...]] = set()
        self.places: set[tuple[Any, ...]] = set()       # the same with every frame of both ends
        self.of_lanes: set[tuple[Any, ...]] = set()     # those between lanes of one warp, so far
        self.doubts: dict[tuple[int, int], int] = {}    # (warp, mbarrier) -> wait that was answered no, since when the warp has not waited there

    def add(self, case: str, index: int | None, other: int | None, gid: int, **known: Any) -> None:
        """Keep a situation (kinds.CASES) that instruction `index` of thread `gid` showed, perhaps against instruction `other`.

        known: the fields of a Hazard that say where in memory and against whom, and the facts of the case.
        """
        M, words = self.M, CASES[case]
        severity = M.session.levels.get(words.kind, words.severity)
        if severity == "off":
            return
        if self.doubts and case in TOO_EARLY:
            self._passed_over(index, gid, known.get("barrier"))
        ends: Any = (End.of(M.body[i]) if i is not None else None for i in (index, other))
        here, there = ends
        whole = (words.kind, here.place.key, here.opcode, there and there.place.key, there and there.opcode)
        if case in WIDER and whole in self.of_lanes:     # one of them is enough, and what helps several warps helps lanes
            self.of_lanes.remove(whole)
            self.hazards[:] = [h for h in self.hazards if h.case != WIDER[case] or _whole(h) != whole]
        elif whole in self.places:
            return
        self.places.add(whole)
        where = {name: known.pop(name) for name in ("space", "address", "array", "agent") if name in known}
        severity = "compiler" if compiler_made.is_compilers(M, case, index, other) else severity
        kept = {"error": self.hazards, "warning": M.session.warnings, "compiler": M.session.by_compiler}[severity]
        hazard = Hazard(words.kind, case, here, there, M.block_index(gid), gid % M.T, **where, facts=known, severity=severity)
        key = (words.kind, here.place.text(), here.opcode, there.place.text() if there else None, there.opcode if there else None)
        if key in self.told and any(_lines(h) == key for h in kept):      # the same lines through other functions: say through which
            hazard = hazard.at_length()
            kept[:] = [h.at_length() if _lines(h) == key else h for h in kept]
        self.told.add(key)
        kept.append(hazard)
        if case in WIDER.values():
            self.of_lanes.add(whole)

    def _passed_over(self, index: int | None, gid: int, named: object) -> None:
        """Instruction `index` came too early; the thread had been answered no by a wait (on the barrier that it should have waited for, where that is known)."""
        for (warp, barrier), wait in list(self.doubts.items()):
            text = self.M.barriers.text(self.M.barriers.offsets[barrier % self.M.barriers.capacity])
            if warp == gid >> 5 and named in (None, text):
                del self.doubts[warp, barrier]
                self.add("answer-passed-over", wait, index, gid, barrier=text)

    def close(self) -> None:
        """The launch is over: what one step would mend is one hazard, and hazards stand in the order of their lines."""
        meetings = [instr.ptx_line for instr in self.M.body if instr.op in MEETS]
        self.hazards = sorted(together(self.hazards, sorted(meetings)), key=lambda h: h.sort_key())
        if self.clocks is not None:
            self.clocks.lanes.holders.clear()           # who hold these clocks themselves

    def any_of(self, *kinds: str) -> bool:
        """True when a hazard of one of these kinds was found."""
        return any(hazard.kind in kinds for hazard in self.hazards)


def _whole(hazard: Hazard) -> tuple[Any, ...]:
    """The key of `places` of a hazard."""
    ends = [(end.place.key, end.opcode) if end else (None, None) for end in (hazard.here, hazard.there)]
    return (hazard.kind, *ends[0], *ends[1])


def _lines(hazard: Hazard) -> tuple[Any, ...]:
    """The key of `told` of a hazard."""
    ends = [(replace(end.place, whole=False).text(), end.opcode) if end else (None, None) for end in (hazard.here, hazard.there)]
    return (hazard.kind, *ends[0], *ends[1])


def together(hazards: list[Hazard], meetings: list[int]) -> list[Hazard]:
    """The hazards, those of one missing proxy fence as one: uses by one sort of instruction whose writers, or who themselves, stand between the same two barriers.

    The first of each group speaks for it; `writers` and `readers` of its facts are the lines of all. meetings: lines of the PTX text with barriers and
    fences, sorted.
    """
    groups: list[list[Hazard]] = []
    for hazard in sorted((h for h in hazards if h.case in ONE_STEP), key=lambda h: h.sort_key()):
        mine = [g for g in groups if any(_ends(hazard, meetings) & _ends(h, meetings) for h in g)]
        groups = [g for g in groups if g not in mine] + [[h for g in mine for h in g] + [hazard]]
    spoken = []
    for group in groups:
        first = group[0]
        if len(group) > 1:
            lines = {name: _each([end.place for h in group if (end := getattr(h, side))]) for name, side in (("writers", "there"), ("readers", "here"))}
            first = replace(first, facts={**first.facts, **lines, "several": True})
        spoken.append(first)
    return [h for h in hazards if h.case not in ONE_STEP] + spoken


def _ends(hazard: Hazard, meetings: list[int]) -> set[tuple[Any, ...]]:
    """Between which barriers each end stands, for uses by one sort of instruction."""
    ends, use = (("here", hazard.here), ("there", hazard.there)), hazard.here.opcode if hazard.here else ""
    return {(hazard.case, use, side, bisect(meetings, end.place.ptx_line)) for side, end in ends if end}


def _each(found: list[Place]) -> tuple[Place, ...]:
    """Places by line, each line once."""
    return tuple({place.line(): place for place in sorted(found, key=lambda p: (p.site.file, p.site.line) if p.site else ("", p.ptx_line))}.values())


def shared(M: Watched, flat: int) -> dict[str, Any]:
    """The fields of a place in shared memory: an offset in its CTA's window."""
    return {"space": "shared", "address": flat % M.stride}


def in_array(allocation: Allocation, offset: int) -> dict[str, Any]:
    """The fields of a place in global memory."""
    return {"space": "global", "address": offset, "array": allocation.name}


def places(instrs: list[Instr]) -> tuple[Place, ...]:
    """The lines of some instructions, each once and in the source's order: that of instructions is the compiler's."""
    found = {place.line(): place for place in map(Place.of, reversed(instrs))}
    return tuple(sorted(found.values(), key=lambda place: (place.site.file, place.site.line) if place.site else ("", place.ptx_line)))


def divergent(M: Watched, case: str, site: int, other: int | None, gid: int, **facts: Any) -> None:
    """A collective instruction without all the threads it needs; case: one of kinds.MISSING."""
    instr = M.body[site]
    rule = "warpgroup" if instr.op in WARPGROUP else "mask" if instr.op in MASKED or "warp" in instr.mods else "warp"
    M.findings.add(case, site, other, gid, rule=rule, **facts)
