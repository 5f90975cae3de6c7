# SPDX-License-Identifier: Apache-2.0
"""How long a launch takes whose CTAs draw tiles of different lengths from a counter: by the tiles of those that were sampled and simulated."""
from __future__ import annotations

import itertools
import math
import statistics
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from . import trace as T
from .cut import NotEnough
from .draws import CHANCES, LONGER, Pace, beside, fitted, makespan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from .draws import Lengths
    from .sample import Sample
    from .sm import Simulation

LOST = 0.5                   # of the time until warpgroups are no longer alike: what a shorter first tile takes more says nothing of longer ones
FEW_DRAWN = 4                # tiles that CTAs draw on average, up to which it matters that those that share an SM end at different times
SOONER = 0.9, 1.0, 1.1       # times as long before it begins, a tile is drawn: CTAs differ by as much, and who draws first may draw once more


def tile_times(sim: Simulation, sample: Sample) -> list[float]:
    """Of tiles that sampled CTAs drew, but the last one of each."""
    return [end - begin for marks in sim.tile_marks.values() if len(marks) == len(sample.seen) - 1 for begin, end in itertools.pairwise(marks)]


def of_all(sim: Simulation, key: tuple[int, int, int], marks: Sequence[float], seen: Sequence[float]) -> list[int]:
    """Numbers of the tiles between the first and the last one of which all warpgroups of a CTA have rows, and of the one before, too: after one that some have no
    rows of they no longer meet. None, where these are of fewer than two lengths. marks: of a warpgroup that has rows of all tiles."""
    every = list(range(1, len(marks)))
    apart = set[int]()
    for other, theirs in sim.tile_marks.items():
        if other[:2] == key[:2] and len(theirs) < len(marks):
            apart |= set(range(len(marks))) - {min(range(len(marks)), key=lambda number: abs(marks[number] - mark)) for mark in theirs}
    whole = [number for number in every if number not in apart and number - 1 not in apart]
    return whole if len({seen[number] for number in whole}) > 1 else []


@dataclass
class Seen:
    """Tiles that were simulated: their lengths and cycles, but for first and last ones; of CTAs' first ones, cycles since their first products, and from the CTA's begin
    until these. mixed: that some of them began when not all warpgroups did (`of_all`)."""

    lengths: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    begun: list[float] = field(default_factory=list)
    mixed: bool = False


def seen_of(sim: Simulation, sample: Sample, known: Lengths) -> Seen:
    """The tiles of a simulation; where CTAs draw none, each CTA's only one."""
    found = Seen()
    if not len(known.drawn):
        for (copy, _slot), end in sim.cta_ends.items():
            found.lengths.append(sample.seen[copy % len(sample.seen)])
            found.times.append(end - sim.starts[copy])
        return found
    for key, marks in sim.tile_marks.items():
        if len(marks) == len(sample.seen) - 1:
            whole = of_all(sim, key, marks, sample.seen)
            found.mixed |= not whole
            whole = whole or list(range(1, len(marks)))
            found.lengths += [sample.seen[number] for number in whole]
            found.times += [marks[number] - marks[number - 1] for number in whole]
            found.own.append(marks[0] - sim.begins[key])
            found.begun.append(sim.begins[key] - sim.starts[key[0]])
    return found


def drawn(sim: Simulation, sample: Sample, known: Lengths, alone: Simulation | None = None, begins: Simulation | None = None) -> float:
    """Cycles until all tiles are done, where each goes to who draws first: a tile takes as long as those of the sample say of its length. The first one of a CTA takes as
    long as those that were sampled alone (begins), or more than its length says, as the sampled one does: it waits for memory, and its warpgroups are alike. alone: the
    sampled CTA without those that share its SM."""
    found, number = seen_of(sim, sample, known), sim.numbers
    if len(found.lengths) < 2:
        raise NotEnough("fewer than two tiles were seen of each warpgroup that writes")
    if not len(known.drawn) and len(known.first) <= number["sms"]:                         # the longest are in the sample
        return number["start_cycles"] + max(found.times)
    if not len(known.drawn) and sample.resident > 1:
        return number["start_cycles"] + side_by_side(known.first, {sample.ctas[copy]: end - sim.starts[copy] for (copy, _), end in sim.cta_ends.items()},
                                                       int(number["sms"]))
    first_took, before = (sum(each) / len(each) if each else 0.0 for each in (found.own, found.begun))
    if found.own and known.tell_little and sample.seen[0] > LONGER * max(found.lengths):
        found.lengths, found.times = [*found.lengths, sample.seen[0]], [*found.times, first_took]        # what is drawn says nothing of longer ones
    first, step, less = fitted(found.lengths, found.times, float(known.drawn.max(initial=0.0)), float(known.all.min()))
    expected, lost = first + step * sample.seen[0], number["alike_lost"]
    more = first_took - expected if found.own else 0.0
    slower = max(0.0, more) / -math.expm1(-max(LOST * lost, expected) / lost)
    pace = ahead(sim, Pace(first, step, less, number["empty_tile"], slower, lost))
    less_alone = statistics.mean(tile_times(alone, sample)) / statistics.mean(found.times) if alone is not None else 1.0
    last = turned(sim, sample, first, step) if sample.resident == 1 else 0.0
    begun = max(0.0, before + min(0.0, more))
    if begins is not None and sample.firsts is not None:
        pace, begun = with_first_tiles(pace, found, known, first_times(begins, sample.firsts, last), blocks_before(sample, sample.firsts)), 0.0
    return number["start_cycles"] + begun + span(known, sample.resident, pace, number, less_alone) - last


def with_first_tiles(pace: Pace, found: Seen, known: Lengths, took: Mapping[float, tuple[float, float]], before: float) -> Pace:
    """The same with the times of first tiles (`first_times`), which also say how long those are that are drawn, where none was seen that all warpgroups began at once.
    before: as `blocks_before`."""
    first, step, less = pace.first, pace.step, pace.less
    if found.mixed:
        first, step, less = fitted([*found.lengths, *(length - before for length in took)], [*found.times, *(own for _, own in took.values())],
                                   float(known.drawn.max(initial=0.0)), float(known.all.min()))
    return replace(pace, first=first, step=step, less=less, before=before, begins=tuple(sorted((length, since) for length, (since, _) in took.items())))


def turned(sim: Simulation, sample: Sample, first: float, step: float) -> float:
    """Cycles that a tile takes from its end to the next one's first product, of which the last one has none."""
    lasts = [sim.cta_ends[copy, slot] - marks[-1] for (copy, slot, _), marks in sim.tile_marks.items() if len(marks) == len(sample.seen) - 1]
    return first + step * sample.seen[-1] - max(lasts) if lasts else 0.0


def blocks_before(sample: Sample, first: Sample) -> float:
    """Blocks that a CTA runs before its first tile, of which those that are drawn have none: by the loads of both."""
    def loads(some: Sample, slot: int) -> int:
        warps = some.machine.warps
        return sum(entry[0] == T.LOAD for warp in some.trace.warps[slot * warps:(slot + 1) * warps] for entry in warp)
    if len(set(first.seen)) < 2 or len(sample.seen) < 2:
        return 0.0
    each, begun = np.polyfit(first.seen, [loads(first, slot) for slot in range(len(first.seen))], 1)
    return float(max(0.0, ((loads(sample, 0) - begun - each * sum(sample.seen)) / (len(sample.seen) - 1) - begun) / each)) if each > 0 else 0.0


def first_times(sim: Simulation, sample: Sample, last: float) -> dict[float, tuple[float, float]]:
    """By length, cycles until the next tile's first product of first tiles that were sampled alone, from the CTA's begin and from the tile's own first product: of those
    that most warpgroups have rows of. last: as `turned`."""
    warps, took = sample.machine.warps, dict[float, tuple[float, float]]()
    rows = [len({warp // 4 for warp in sample.trace.tiles if warp // warps == slot}) for slot in range(len(sample.ctas))]
    for (copy, _slot), end in sim.cta_ends.items():
        if rows[copy] == max(rows):
            begun = min((at for key, at in sim.begins.items() if key[0] == copy), default=sim.starts[copy])
            took[sample.seen[copy]] = max(took.get(sample.seen[copy], (0.0, 0.0)), (end - sim.starts[copy] + last, end - begun + last))
    return took


def span(known: Lengths, at_once: int, pace: Pace, number: Mapping[str, float], alone: float) -> float:
    """Cycles from the first tiles' first products to the end. alone: times as long as with others, that a tile takes of a CTA without those that share its SM."""
    if alone < 1:
        return beside(known, int(number["sms"]), at_once, pace, alone)
    paces = [replace(pace, later=some * pace.later, sooner=pace.sooner + (some - 1) * pace.later) for some in SOONER]
    chances = range(CHANCES if pace.begins else 1)
    return statistics.mean(makespan(known, int(number["sms"]), at_once, one, number["next_cta"], chance) for one in paces for chance in chances)


def side_by_side(lengths: NDArray[Any], times: Mapping[int, float], sms: int) -> float:
    """Cycles of the CTA that takes longest, of CTAs that all run at once, several on an SM: each takes a time, more for its tile's length, and more for as much of that
    as those beside it have (`sample.beside_each_other`). times: of the sampled ones, by their numbers."""
    beside = np.array([np.minimum(lengths[number % sms::sms], lengths[number]).sum() for number in range(len(lengths))]) - lengths
    known = np.stack((np.ones(len(lengths)), lengths, beside), axis=1)
    some, took = known[list(times)], np.array(list(times.values()))
    found = np.linalg.lstsq(some, took, rcond=None)[0]
    if found.min() < 0:                                          # no more than the lengths alone say
        found = np.append(np.linalg.lstsq(some[:, :2], took, rcond=None)[0], 0.0)
    return float((known @ found).max())


def ahead(sim: Simulation, pace: Pace) -> Pace:
    """The same with how long before a tile is done, or begins, its CTA draws the next one. The loads of a tile are all under way long before it is done, and who loads
    draws the next one then: when there is room for the last of them, and when q of the tile before has been read."""
    early, later, sooner = list[float](), [0.0], list[float]()
    most = max(map(len, sim.tile_marks.values()), default=0)
    for (copy, slot, _first), marks in sim.tile_marks.items():
        draws = sim.draws.get((copy, slot), [])[:-1] if len(marks) == most else []
        for number, (at, mark) in enumerate(zip(draws[-most:], marks, strict=False)):                 # a first tile that holds nothing has no mark
            (later if number else early).append(mark - at)
            sooner += [marks[number - 1] - at] if number else []
    known = max(sooner, default=0.0)
    return replace(pace, early=max(0.0, sum(early) / len(early)) if early else 0.0, later=max(later), sooner=known if known > 0 else math.inf)
