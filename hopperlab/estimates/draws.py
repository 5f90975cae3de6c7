# SPDX-License-Identifier: Apache-2.0
"""How long the tiles are that CTAs draw from a counter, before any is sampled: the drawing warp alone runs the control flow of every tile.

Its program is the kernel's without what moves data, multiplies, stores and waits: waits are over at once. What is left draws, loops and ends as the kernel does,
and runs a number of blocks per tile which grows with its k-blocks. Of kernels where that is not so (other warps draw, what is drawn decides nothing) nothing is said.
"""
from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..emulator import EmulatorError
from ..emulator.launch import Plan, geometry
from ..emulator.machine.events import Listener
from ..emulator.observe.deadlock import Deadlock
from ..emulator.observe.work import Work
from ..emulator.program import Program
from ..emulator.session import Session
from .skeleton import control_flow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..emulator.compile.translated import Block
    from ..emulator.machine.cohort import Cohort

MOST_WORK = 100_000_000      # of a run of the drawing warps (emulator/observe/work.py)
SPREAD = (0.5, 0.2, 0.7, 1.0, 0.35)     # of tiles by length: those that a sampled CTA is given, at least, the longest last of those that are measured,
ALIKE = 1.1                  # times as long, up to which tiles are alike
LONGER, FAR = 1.5, 3.0       # and from which on what is said of these says nothing of a first tile; and what is said of tiles that are not alike
FIRST = 0.25                 # of first tiles by length: the one that is sampled, but the longest where those that are drawn tell little
LONG = 2.5                   # unless that is so many times as long as the middle one: then the one that nine of ten do not exceed
SAME = 0.995                 # times as long as the longest, from which on a tile is one of the longest,
LESS = 0.05                  # which take less than their length says, if by so great a part of it
FIRST_EMPTY = 1000           # cycles more than another one that a CTA's first tile takes if it holds nothing (marks of the clock, H200: 1,650, then 1,400)
STEEPER = 1.25               # times as much that a block takes of first tiles as of those that are drawn, at most, where shorter ones are wanted than were sampled
LATE = 500.0                 # cycles by which CTAs differ in when they have their first tile: the standard deviation (marks: q comes after 3,200 to 4,400 in a launch)
BEGUN = 2200                 # from a CTA's first instruction until it knows its first tile (the same marks)
CHANCES = 5                  # of who draws first
GOLDEN = 0.6180339887               # its multiples, less their whole parts, are spread evenly whatever their number


def spread(count: int) -> list[float]:
    """So many places from 0 to 1, five or more: those of SPREAD, with others between them."""
    return [*SPREAD[:-2], *((0.5 + GOLDEN * turn) % 1 for turn in range(count - len(SPREAD))), *SPREAD[-2:]]


@dataclass(frozen=True)
class Lengths:
    """Blocks that the drawing warp runs a tile: of the first tile of each CTA, and of what is drawn, by number. empty: up to how many a tile holds nothing, where a
    shorter sequence has fewer of them; most: first tiles that are longer take no longer than one of so many: some warpgroups have no rows of them."""

    first: NDArray[Any]
    drawn: NDArray[Any]
    empty: float = 0.0
    most: float = math.inf

    @property
    def all(self) -> NDArray[Any]:
        """Of every tile."""
        return np.concatenate([self.first, self.drawn])

    @property
    def nothing(self) -> float:
        """As `empty`, of first tiles: before these a CTA runs blocks that count as theirs, so that one that holds nothing may be longer than some that are drawn."""
        longer = self.drawn[self.drawn > self.empty]
        return float(np.nextafter(longer.min(), 0.0)) if self.empty and len(longer) else self.empty

    @property
    def begun(self) -> float:
        """Share of CTAs whose first tile holds something."""
        return float((self.first > self.nothing).mean())

    @property
    def differ(self) -> bool:
        """Whether tiles differ in length. Before its first tile a CTA runs blocks that count as that one's."""
        some = [lengths for lengths in (self.first, self.drawn) if len(lengths)]
        longest = [float(lengths.max()) for lengths in some]
        return any(most > ALIKE * lengths.min() for most, lengths in zip(longest, some, strict=True)) or max(longest) > LONGER * min(longest)

    @property
    def tell_little(self) -> bool:
        """Whether tiles that are drawn are as long as each other, or far shorter than first ones: then what is sampled of them says nothing of longer first ones."""
        return bool(self.drawn.max() <= ALIKE * self.drawn.min() or self.first.max() > FAR * self.drawn.max())

    @property
    def apart(self) -> float:
        """Standard deviation of the lengths of those tiles of each CTA that are the first ones to hold something."""
        some = self.first[self.first > self.nothing]
        return float(np.concatenate([some, self.drawn[self.drawn > self.empty][:len(self.first) - len(some)]]).std())

    def sample(self, count: int, least: float = 0.0) -> tuple[int, list[int]]:
        """(CTA, so many numbers that it is to draw): tiles whose lengths are spread over those that there are. least: times as long as the shortest first one, or drawn
        one, where there are such."""
        ctas = np.flatnonzero((self.first >= least * self.first.min()) & (self.first <= self.most))
        order = np.lexsort((GOLDEN * np.arange(len(self.drawn)) % 1, self.drawn))               # of a length, those of fewer rows among the others
        ctas = ctas if len(ctas) else np.arange(len(self.first))
        longer = order[self.drawn[order] >= least * self.drawn.min()]
        order = longer if len(longer) else order
        begins = self.first[ctas]
        lengths = self.drawn[order]
        first = int(ctas[np.argmin(np.abs(begins - np.quantile(begins, 1.0 if self.tell_little else FIRST)))])
        most = len(order) if lengths[-1] <= LONG * np.median(lengths) else int(0.9 * len(order)) + 1
        return first, [int(order[min(int(at * (len(order) - 1)), most - 1)]) for at in spread(count)]

    def below(self, cta: int) -> Lengths | None:
        """The same, if first tiles as long as that of a CTA take no longer than the next shorter ones; None where there are none."""
        shorter = self.first[self.first < SAME * self.first[cta]]
        return replace(self, most=float(shorter.max())) if len(shorter) else None

    def even(self, least: int = 0) -> list[int]:
        """Numbers that a CTA draws, one of those that all together draw at a time, each time at another place of theirs. least: of all tiles, the first one that it may
        draw, if there is such a one."""
        ctas, count, found = len(self.first), len(self.drawn), []
        for turn, start in enumerate(range(0, count, ctas), 1):
            end = min(start + ctas, count)
            begin = least - ctas if start < least - ctas < end else start
            found.append(begin + int((end - begin) * (GOLDEN * turn % 1)))
        return found


class Undone(Listener):
    """Listens to warps that run alone, and keeps what their atomic additions change."""

    def __init__(self) -> None:
        self.undo: dict[tuple[int, int], tuple[Any, int, NDArray[Any]]] = {}

    def keep(self, parts: list[Any], nbytes: int) -> None:
        """What stands there now comes back with `restore`."""
        for allocation, _lanes, offsets in parts:
            for offset in np.unique(np.asarray(offsets)).tolist():
                self.undo.setdefault((allocation.address, offset), (allocation, offset, allocation.view(1)[offset:offset + nbytes].copy()))

    def restore(self) -> None:
        """Global memory as it was."""
        for allocation, offset, old in self.undo.values():
            allocation.view(1)[offset:offset + len(old)] = old


class NotDrawn(Exception):
    """No counter of tiles."""


class Drawing(Undone):
    """Listens to who draws which number from a counter of tiles."""

    def __init__(self, machine: Any):
        super().__init__()
        self.M = machine
        self.place: tuple[int, int, int] | None = None

    def numbers(self, C: Cohort, parts: list[Any], info: Any) -> list[tuple[int, int]]:
        """(warp, number) of those that draw by this atomic addition; nobody, where it adds to something else. Raises NotDrawn for what is no draw."""
        allocation, offsets_at = parts[0][0], np.unique(np.asarray(parts[0][2]))
        if info.op != "add" or not info.returns or info.nbytes != 4:
            return []
        place = (info.index, allocation.address, int(offsets_at[0]))
        self.place = self.place or place
        if place != self.place:
            return []
        if len(parts) > 1 or len(offsets_at) > 1 or getattr(self.M.body[info.index].operands[-1], "value", None) != 1:
            raise NotDrawn
        number = int(allocation.view(4)[int(offsets_at[0]) >> 2])
        return [(gid >> 5, number + k) for k, gid in enumerate(C.gids.tolist())]


class Tiles(Drawing):
    """Blocks that each drawing warp runs between draws."""

    def __init__(self, machine: Any):
        super().__init__(machine)
        self.ran = np.zeros(machine.slots * machine.warps, np.int64)
        self.at: dict[int, tuple[int, int]] = {}       # of a warp: (its tile: -1 - CTA for the first, else its number; blocks run before it)
        self.lengths: dict[int, int] = {}

    def running(self, C: Cohort, block: Block) -> None:
        """A block."""
        self.ran[self.M.units(C).gw] += 1

    def global_atomic(self, C: Cohort, parts: list[Any], info: Any) -> None:
        """A draw. Raises NotDrawn for what is none."""
        self.keep(parts, info.nbytes)
        for warp, number in self.numbers(C, parts, info):
            self._drew(warp, number)

    def global_read(self, C: Cohort, address: NDArray[Any], parts: list[Any], info: Any) -> None:
        """An ordinary load. Raises NotDrawn for one of the counter: CTAs that look at it wait for each other by it."""
        if self.place is not None and any(a.address == self.place[1] and (np.asarray(at) == self.place[2]).any() for a, _lanes, at in parts):
            raise NotDrawn

    def _drew(self, warp: int, number: int) -> None:
        tile, before = self.at.get(warp) or (-1 - int(self.M.slot_cta[warp // self.M.warps]), 0)
        self.lengths[tile] = int(self.ran[warp]) - before
        self.at[warp] = (number, int(self.ran[warp]))

    def ctas_end(self, slots: NDArray[Any]) -> None:
        """Their last draws ended them."""
        for slot in slots.tolist():
            for warp in range(slot * self.M.warps, (slot + 1) * self.M.warps):
                self.at.pop(warp, None)
                self.ran[warp] = 0


def lengths(launch: Plan, warps: int = 1) -> Lengths | None:
    """Of the tiles of a launch whose first `warps` warps of a CTA have the one that draws; None where nothing is found out."""
    shape = launch.geometry
    read = {reg.name for instr in launch.body for reg in instr.srcs()}
    if not any(instr.op == "atom" and {"add", "shared"}.intersection(instr.mods) == {"add"} and any(reg.name in read for reg in instr.dsts()) for instr in launch.body):
        return None
    program = Program(control_flow(launch.program.ptx), launch.program.resources)
    few = geometry(shape.grid, min(shape.threads, 32 * warps), 32, shape.per_cta[2], shape.cluster if shape.explicit_cluster else None)
    heard: list[Any] = []

    def listen(machine: Any) -> list[Any]:
        bound: Any = Work
        heard.append(Tiles(machine))
        return [*heard, bound(machine), Deadlock(machine, ())]
    session = Session(schedule="lazy", hazards_mode="collect", trace=False, check=False, limit=MOST_WORK)
    try:
        replace(launch, program=program, geometry=few, session=session).machine(listen).scheduler.run()
    except (EmulatorError, NotDrawn):
        return None
    finally:
        heard[0].restore()
        launch.memory.release_views()
    return _sorted(heard[0].lengths, shape.ctas)


def _sorted(found: dict[int, int], ctas: int) -> Lengths | None:
    first = [found.get(-1 - cta) for cta in range(ctas)]
    drawn = [found.get(number) for number in range(len(found) - ctas)]
    if None in first or None in drawn:
        return None
    return Lengths(np.array(first, float), np.array(drawn, float))


@dataclass(frozen=True)
class Pace:
    """Cycles of tiles: first + step * length each. less: that the longest ones take less; empty: of one that holds nothing; slower: that long first ones take more, those
    of less than `lost` cycles the less, the shorter they are. Who draws the next tile does so before the last one is done: `early` before a CTA's first one is, then as
    late as `later` before another one is, or `sooner` before that begins. begins: (length, cycles since the CTA's begin) of first tiles that were sampled alone, by
    length; before: blocks that count as a first tile's, and that one that is drawn has not."""

    first: float
    step: float
    less: float = 0.0
    empty: float = 0.0
    slower: float = 0.0
    lost: float = math.inf
    early: float = 0.0
    later: float = 0.0
    sooner: float = math.inf
    begins: tuple[tuple[float, float], ...] = ()
    before: float = 0.0


def durations(known: Lengths, pace: Pace) -> tuple[list[float], list[float], list[float]]:
    """Cycles of each CTA's first tile, of each that is drawn, and of each as the first one of its CTA that holds something."""
    def takes(length: float, longest: bool, empty: float) -> float:
        return pace.empty if length <= empty else max(pace.empty, pace.first + pace.step * length - pace.less * longest)
    later = [takes(length, long, known.empty) for length, long in zip(known.drawn.tolist(), longest_of(known.drawn), strict=True)]
    if pace.begins:
        seen, times = np.array(pace.begins).T
        step = max(pace.step, min(STEEPER * pace.step, line(seen, times)[1]))
        seen, times = np.append(0.0, seen), np.append(times[0] - step * seen[0], times)
        first = np.where(known.first > known.nothing, np.interp(known.first, seen, times), pace.empty + FIRST_EMPTY + BEGUN)
        cold = np.where(known.drawn > known.empty, np.maximum(later, np.interp(known.drawn + pace.before, seen, times) - BEGUN), pace.empty)
        return first.tolist(), later, cold.tolist()
    begins = [(length, takes(min(length, known.most), long, known.nothing))
              for length, long in zip(known.first.tolist(), longest_of(known.first, float(known.drawn.max(initial=0.0))), strict=True)]
    return [took + (pace.slower * -math.expm1(-took / pace.lost) if length > known.nothing else FIRST_EMPTY) for length, took in begins], later, later


def makespan(known: Lengths, places: int, at_once: int, pace: Pace, between: float, chance: int = 0) -> float:
    """Cycles until all tiles are done, where the next one goes to who draws first. places: SMs, of which each has `at_once` CTAs at a time; between: from the end of a
    CTA to the next one's first instruction; chance: number of a drawing of when CTAs have their first tile, up to CHANCES."""
    first, drawn, cold = durations(known, pace)
    first = (np.array(first) + np.random.default_rng(chance).normal(0.0, LATE, len(first))).clip(0.0).tolist() if pace.begins else first
    free = [(0.0, 0.0, True)] * min(len(known.first), places * at_once)    # of each CTA: when it draws, when it is done, and whether nothing that it had held anything
    heapq.heapify(free)
    early = pace.early if len(known.drawn) else 0.0
    for number, took in enumerate(first):
        took += between if number >= len(free) else 0.0
        done = free[0][1] + took
        heapq.heapreplace(free, (done - min(early, took), done, bool(known.first[number] <= known.nothing)))
    for number, length in enumerate(known.drawn.tolist()):
        drew, begins, nothing = free[0]
        done = begins + (cold if nothing else drawn)[number]
        heapq.heapreplace(free, (max(drew, begins - pace.sooner, done - pace.later), done, nothing and length <= known.empty))
    return max(done for _, done, _ in free)


def beside(known: Lengths, places: int, at_once: int, pace: Pace, alone: float) -> float:
    """The same of CTAs that all begin at once, `at_once` on an SM: every `places`-th are those of one. A tile takes what `pace` says where all of them have one, and
    `alone` times as long where the others have none left."""
    works, more, _ = durations(known, pace)
    left = [{cta: works[cta] for cta in range(place, len(works), places)} for place in range(places)]
    since, heap, drawn, end = [0.0] * places, list[tuple[float, int, int]](), iter(more), 0.0

    def slowed(busy: int) -> float:
        return alone + (1 - alone) * (busy - 1) / (at_once - 1)

    def next_end(place: int) -> None:
        if left[place]:
            cta = min(left[place], key=left[place].__getitem__)
            heapq.heappush(heap, (since[place] + left[place][cta] * slowed(len(left[place])), place, cta))
    for place in range(places):
        next_end(place)
    while heap:
        end, place, cta = heapq.heappop(heap)
        done = (end - since[place]) / slowed(len(left[place]))
        left[place] = {other: rest - done for other, rest in left[place].items() if other != cta}
        since[place] = end
        work = next(drawn, None)
        if work is not None:
            left[place][cta] = work
        next_end(place)
    return end


def by_chance(known: Lengths, ahead: float, apart: float) -> float:
    """The same, of CTAs of their own SM each, in units of lengths: the next tile is drawn `ahead` of a tile's time before it is done, and when a CTA has its first tile
    is up to chance (a normal distribution, `apart` its standard deviation); the mean of CHANCES drawings."""
    spans = []
    for seed in range(CHANCES):
        late = np.random.default_rng(seed).normal(0.0, apart, len(known.first))
        free = [((1 - ahead) * length + more, length) for length, more in zip(known.first.tolist(), late.tolist(), strict=True)]
        heapq.heapify(free)
        for length in known.drawn.tolist():
            done = free[0][1]
            heapq.heapreplace(free, (done + (1 - ahead) * length, done + length))
        spans.append(max(done for _, done in free))
    return float(np.mean(spans))


def longest_of(lengths: NDArray[Any], least: float = 0.0) -> NDArray[Any]:
    """Which of them are the longest, and as long as `least`."""
    return lengths >= SAME * max(float(lengths.max(initial=0.0)), least)


def fitted(seen: Sequence[float], times: Sequence[float], longest: float, shortest: float = float("inf")) -> tuple[float, float, float]:
    """(first, step, less) of tiles that take first + step * length, the longest ones `less` than that: the last tile of a sequence may have no rows for some of its
    warpgroups. longest, shortest: of all tiles, of which some were seen or not; where those that were are alike, and some far shorter, each takes as long as it is."""
    lengths, took = np.asarray(seen, float), np.asarray(times, float)
    if LONGER * shortest < lengths.min() and lengths.max() <= ALIKE * lengths.min():
        return 0.0, float(took.sum() / lengths.sum()), 0.0
    last = lengths >= SAME * longest
    if not last.any() or len(np.unique(lengths[~last])) < 2 or lengths[~last].max() < LONGER * lengths[~last].min():
        return *line(lengths, took), 0.0
    first, step = line(lengths[~last], took[~last])
    expected = first + step * float(lengths[last].mean())
    less = expected - float(took[last].mean())
    return (first, step, less) if less > LESS * expected else (*line(lengths, took), 0.0)


def line(lengths_seen: Sequence[float] | NDArray[Any], times: Sequence[float] | NDArray[Any]) -> tuple[float, float]:
    """(first, step) of times = first + step * length, by least squares; no step is negative, and no time of a length that was seen."""
    x, y = np.asarray(lengths_seen, float), np.asarray(times, float)
    step = float(((x - x.mean()) * (y - y.mean())).sum() / max(1e-9, ((x - x.mean()) ** 2).sum()))
    first = float(y.mean() - step * x.mean())
    if step < 0:                                             # longer ones are ends of sequences, of fewer warpgroups
        return float(y.mean()), 0.0
    return (first, step) if first + step * x.min() > 0 else (0.0, float((x * y).sum() / (x * x).sum()))
