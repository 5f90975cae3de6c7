# SPDX-License-Identifier: Apache-2.0
"""What a program touches: its threads, and one event for each access that a lane makes or that an asynchronous operation makes for it.

Each warp is modelled by LANES of its 32 lanes: those that may act alone, and two for the rest. Sets of events are Python integers, one bit an event.
"""
from __future__ import annotations

from dataclasses import dataclass, field

from .programs import (ELECTED, REST, TILE, Arrive, BulkCopy, BulkLoad, BulkStore, BulkWait, BulkCommit, CpArrive, CpAsync, CpCommit, CpWait, Init, Load,
                       Program, SourceStore, Store)

LANES = 4
SOURCE = -1                                             # the CTA of what lies in global memory


@dataclass
class Agent:
    """Lanes of one warp that always do the same thing: a lane that acts alone somewhere, or all others."""

    cta: int
    warp: int                                           # of all CTAs, counted through
    lanes: tuple[int, ...]
    threads: tuple[int, ...]                            # indices of its lanes among all threads of the model
    weight: int                                         # how many of the 32 lanes it stands for
    script: tuple = ()                                  # (line, step) of what it takes part in


@dataclass
class Event:
    """One access: where ((cta, tile, chunk) …), what it does, and by which proxy."""

    line: int
    cta: int
    places: frozenset
    writes: bool
    proxy: str = "generic"
    late: bool = False                                  # asynchronous: over only when that has been observed
    bit: int = 0


@dataclass
class Landing:
    """The end of an asynchronous operation that an mbarrier hears of: bytes (or one arrival) and the events that are over."""

    cta: int
    bar: int
    bytes: int
    events: int


@dataclass
class Step:
    """What one (line, thread) does: events that begin, and what it learns of its own asynchronous groups by it."""

    begins: list = field(default_factory=list)
    learns: int = 0
    landings: list = field(default_factory=list)


class Layout:
    """Agents, events and their conflicts of one program."""

    def __init__(self, program: Program):
        self.program, self.events = program, []
        self.agents = [a for cta, warps in enumerate(program.warps) for warp in range(len(warps)) for a in self._agents(cta, warp)]
        self.threads = 1 + max(t for a in self.agents for t in a.threads)
        self.at = {}                                    # (line, thread) -> Step
        for agent in self.agents:
            for lane, thread in zip(agent.lanes, agent.threads):
                thread_events = ThreadEvents(self, agent, lane)
                for line, step in agent.script:
                    self.at[line, thread] = thread_events.of(line, step.op)
        self._conflicts()

    def _agents(self, cta: int, warp: int):
        width = len(self.program.warps[0])
        number = cta * width + warp
        script = [(line, step) for line, c, w, _, step in self.program.steps() if (c, w) == (cta, warp)]
        named = {s.lane for _, s in script}
        alone = sorted(named - {None, REST} | ({0} if REST in named else set()))
        assert set(alone) <= set(ELECTED)
        groups = [(lane,) for lane in alone] + [tuple(lane for lane in range(LANES) if lane not in alone)]
        for lanes in groups:
            single = lanes[0] if lanes[0] in alone else None
            own = tuple((line, s) for line, s in script if s.lane in (None, single) or s.lane == REST and single != 0)
            yield Agent(cta, number, lanes, tuple(number * LANES + lane for lane in lanes), 1 if single is not None else 32 - len(alone), own)

    def event(self, *args, **kwargs) -> int:
        """A new event; its bit."""
        event = Event(*args, **kwargs)
        event.bit = 1 << len(self.events)
        self.events.append(event)
        return event.bit

    def _conflicts(self) -> None:
        """Two accesses conflict if they overlap and one of them writes (PTX ISA 8.7.1)."""
        touch, write = {}, {}
        for event in self.events:
            for place in event.places:
                touch[place] = touch.get(place, 0) | event.bit
                write[place] = write.get(place, 0) | (event.bit if event.writes else 0)
        self.conflicts = {e.bit: _all((touch if e.writes else write)[p] for p in e.places) & ~e.bit for e in self.events}
        self.of_bit = {e.bit: e for e in self.events}
        self.inits = {(p[0], p[2]): e.bit for e in self.events for p in e.places if p[1] == "mbarrier"}
        self.generic_writes = _all(e.bit for e in self.events if e.writes and e.proxy == "generic")
        self.generic_reads = _all(e.bit for e in self.events if not e.writes and e.proxy == "generic")

    def lines(self, events: int) -> set[int]:
        """The lines that a set of events belongs to."""
        return {self.of_bit[bit].line for bit in bits(events)}


class ThreadEvents:
    """The events of one thread in program order, with its cp.async and bulk groups (PTX ISA 9.7.9.25.3 and .6: per thread)."""

    def __init__(self, layout: Layout, agent: Agent, lane: int):
        self.event, self.cta, self.lane = layout.event, agent.cta, lane
        self.sources = layout.program.number(SourceStore, "source") > 0      # else reads of global memory conflict with nothing
        self.open, self.groups = {"cp": 0, "bulk": 0}, {"cp": [], "bulk": []}

    def of(self, line: int, op) -> Step:
        """What one operation does; nothing where it neither touches memory nor ends a group."""
        here = Step()
        follow = FOLLOW.get(type(op))
        if follow is not None:
            follow(self, here, line, op)
        return here

    def _chunk(self, op, cta: int) -> frozenset:
        return frozenset([(cta, op.tile, (self.lane + op.shift) % LANES)])

    def _plain(self, here: Step, line: int, op) -> None:
        cta = self.cta if op.cta is None else op.cta
        here.begins.append(self.event(line, cta, self._chunk(op, cta), isinstance(op, Store)))

    def _in_group(self, here: Step, bit: int, sort: str) -> None:
        here.begins.append(bit)
        self.open[sort] |= bit

    def _commit(self, sort: str) -> None:
        self.groups[sort].append(self.open[sort])
        self.open[sort] = 0

    def _over(self, sort: str, pending: int) -> int:
        return _all(self.groups[sort][:len(self.groups[sort]) - pending])

    def _cp_async(self, here: Step, line: int, op) -> None:
        self._in_group(here, self.event(line, self.cta, self._chunk(op, self.cta), True, late=True), "cp")
        if self.sources:
            self._in_group(here, self.event(line, SOURCE, self._source_chunk(op), False, late=True), "cp")

    def _source_chunk(self, op) -> frozenset:
        return frozenset([(SOURCE, op.source, (self.lane + op.shift) % LANES)])

    def _source_store(self, here: Step, line: int, op) -> None:
        here.begins.append(self.event(line, SOURCE, self._source_chunk(op), True))

    def _cp_commit(self, here: Step, line: int, op) -> None:
        self._commit("cp")

    def _cp_wait(self, here: Step, line: int, op) -> None:
        here.learns = self._over("cp", op.pending)

    def _cp_arrive(self, here: Step, line: int, op) -> None:
        here.landings.append(Landing(self.cta, op.bar, 0, _all(self.groups["cp"]) | self.open["cp"]))

    def _bulk_store(self, here: Step, line: int, op) -> None:
        self._in_group(here, self.event(line, self.cta, _span(self.cta, op.tile, op.tiles), False, "async", late=True), "bulk")

    def _bulk_commit(self, here: Step, line: int, op) -> None:
        self._commit("bulk")

    def _bulk_wait(self, here: Step, line: int, op) -> None:
        here.learns = self._over("bulk", op.pending)

    def _bulk_load(self, here: Step, line: int, op) -> None:
        read = self.event(line, SOURCE, _span(SOURCE, op.source, op.tiles), False, "async", late=True) if self.sources else 0
        here.begins += [read] if read else []
        for cta in (self.cta,) if op.ctas is None else op.ctas:
            bit = self.event(line, cta, _span(cta, op.tile, op.tiles), True, "async", late=True)
            here.begins.append(bit)
            here.landings.append(Landing(cta, op.bar, TILE * op.tiles, bit | read))

    def _bulk_copy(self, here: Step, line: int, op) -> None:
        read = self.event(line, self.cta, _span(self.cta, op.tile, 1), False, "async", late=True)
        write = self.event(line, op.cta, _span(op.cta, op.to, 1), True, "async", late=True)
        here.begins += [read, write]
        here.landings.append(Landing(op.cta, op.bar, TILE, read | write))

    def _arrive(self, here: Step, line: int, op) -> None:
        """An atomic: it conflicts with nothing, but a CTA elsewhere has to be there."""
        if op.cta not in (None, self.cta):
            here.begins.append(self.event(line, op.cta, frozenset(), True))

    def _init(self, here: Step, line: int, op) -> None:
        here.begins.append(self.event(line, self.cta, frozenset([(self.cta, "mbarrier", op.bar)]), True))


FOLLOW = {Store: ThreadEvents._plain, SourceStore: ThreadEvents._source_store, Load: ThreadEvents._plain, CpAsync: ThreadEvents._cp_async,
          CpCommit: ThreadEvents._cp_commit, CpWait: ThreadEvents._cp_wait,
          CpArrive: ThreadEvents._cp_arrive, BulkStore: ThreadEvents._bulk_store, BulkCommit: ThreadEvents._bulk_commit, BulkWait: ThreadEvents._bulk_wait,
          BulkLoad: ThreadEvents._bulk_load, BulkCopy: ThreadEvents._bulk_copy, Arrive: ThreadEvents._arrive, Init: ThreadEvents._init}
"""What each operation does for the thread that runs it; others touch nothing."""


def _span(cta: int, tile: int, count: int) -> frozenset:
    return frozenset((cta, t, chunk) for t in range(tile, tile + count) for chunk in range(LANES))


def bits(events: int):
    """The single events of a set."""
    while events:
        low = events & -events
        yield low
        events ^= low


def _all(sets) -> int:
    whole = 0
    for one in sets:
        whole |= one
    return whole
