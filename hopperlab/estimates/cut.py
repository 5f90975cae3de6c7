# SPDX-License-Identifier: Apache-2.0
"""What a sample that was cut leaves out: how much of the work was seen, and how long the rest takes at the pace of what was."""
from __future__ import annotations

import bisect
import itertools
import math
import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from . import trace as T
from .draws import CHANCES, LONGER, Pace, beside, fitted, makespan
from .programs import COMPUTE
from .sm_units import NEVER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from .draws import Lengths
    from .programs import Actor
    from .sample import Sample
    from .sm import Simulation

WHOLE = 0.01                 # of a tile, which is none
SHORTER = 0.5                # tiles more than others, at most, that a CTA draws where some tiles take less
FEW = 4                      # tiles of a place, at most, of which it matters that the last ones are not everywhere,
ALL = 0.9                    # if fewer places than this share have one
LOST = 0.5                   # of the time until warpgroups are no longer alike: what a shorter first tile takes more says nothing of longer ones
FEW_DRAWN = 4                # tiles that CTAs draw on average, up to which it matters that those that share an SM end at different times
SOONER = 0.9, 1.0, 1.1       # times as long before it begins, a tile is drawn: CTAs differ by as much, and who draws first may draw once more


def stored(actor: Actor) -> float:
    """Bytes that an actor writes to global memory."""
    return _output(actor)[2]


def _stored(step: Any) -> float:
    return step[2] if step[0] == T.STORE else step[1].stored * step[-1] if step[0] == COMPUTE else 0.0


def tiles(actors: list[Actor]) -> list[tuple[Actor, int, float]]:
    """Actors that write output: (actor, tiles written, bytes of these). A tile's stores stand between products."""
    return [(actor, count, done) for actor in actors for count, done, _ in [_output(actor)] if count]


def _output(actor: Actor) -> tuple[int, float, float]:
    """(Tiles written, bytes of these, bytes written in all), which the actor keeps once they are known."""
    if actor.output is None:
        count, done, written, inside = 0, 0.0, 0.0, False
        for step in actor.steps:
            nbytes = _stored(step)
            if nbytes:
                written += nbytes
                inside = True
            elif inside and step[0] == T.WGMMA:
                count, done, inside = count + 1, written, False
        actor.output = count, done, written
    return actor.output


def ended(actors: list[Actor]) -> float:
    """Of the products of those that write output, those that what they have written stands for: the sample was cut in the midst of other tiles, for which they
    had loaded, too."""
    all_ = theirs = 0.0
    for actor in actors:
        seen, written, inside, before = 0, 0.0, False, (0, 1.0)
        for step in actor.steps:
            if _stored(step):
                written += _stored(step)
                inside = True
            elif step[0] == T.WGMMA:
                before, inside = ((seen, written), False) if inside else (before, inside)
                seen += 1
        if before[0]:
            all_, theirs = all_ + seen, theirs + before[0] * written / before[1]
    return min(1.0, theirs / all_) if all_ else 1.0


def progress(sample: Sample) -> float:
    """Share of the sampled CTAs' work that was seen: the output written, of what is theirs."""
    if sample.lengths is not None:
        return float(sum(sample.seen) / sample.lengths.all.sum())
    if sample.whole or sample.done < 1:
        return sample.done
    if sample.asked:
        return min(1.0, float(sum(entry[0] == T.LOAD for warp in sample.trace.warps for entry in warp)) / sample.asked)
    table = sample.trace.written or sample.trace.read
    written = sum(n for n, _ in table.values())
    theirs = sum(size for _, size in table.values()) * len(sample.ctas) / sample.total
    if not written:
        raise NotEnough("nothing was written in the part that was looked at")
    return min(1.0, written / theirs)


class NotEnough(ValueError):
    """A sample that was cut before a tile was done says nothing of the rest."""


def wanted(sample: Sample, actors: list[Actor]) -> float:
    """Tiles of each writer of a sample, of the CTA that has most. Of those that are drawn others end earlier, and the SM's other CTAs then go on faster; where some
    tiles have fewer rows, which take less, who has had such tiles draws more."""
    if not sample.tiles or not tiles(actors):
        return math.ceil(tiles_each(sample, actors) - WHOLE)
    if sample.most:
        return sample.most
    most = math.ceil(sample.tiles * sample.resident - WHOLE) / sample.resident
    return min(most, sample.tiles + SHORTER) if uneven(sample, actors) else most


def tiles_each(sample: Sample, actors: list[Actor]) -> float:
    """Tiles of each writer on average: the output that is theirs, in tiles as those that were seen."""
    if not tiles(actors):
        return 1.0
    theirs = sum(size for _, size in sample.trace.written.values()) / sample.total * len(sample.ctas)
    inside = sum(n for n, _ in sample.trace.written.values()) / sum(map(stored, actors))        # of what tiles hold: a part of them may lie beyond the array
    each = sum(written / count for _, count, written in tiles(actors))
    return theirs / (inside * each)


def last_round(sample: Sample, actors: list[Actor], places: int, each: int) -> tuple[int, float]:
    """Tiles, or CTAs, that follow each other on an SM where most do, and of all places those that have the last one: there the L2 and memory serve nobody else.
    (1, 1) where nearly all have it, where so many follow each other that it matters little, where SMs hold several CTAs, where tiles are shared along k or each has its
    own bytes, and of what does not multiply by wgmma."""
    if sample.asked or sample.apart or sample.lengths is not None or sample.done < 1 or sample.resident > 1 or each > 1 and not sample.whole:
        return 1, 1.0
    if not any(actor.multiplies for actor in actors):
        return 1, 1.0
    exact = sample.total / sample.cluster / places if each > 1 else tiles_each(sample, actors)
    rounds = math.ceil(exact - WHOLE)
    part = exact - rounds + 1
    return (rounds, part) if 1 < rounds <= FEW and part < ALL else (1, 1.0)


def uneven(sample: Sample, actors: list[Actor]) -> bool:
    """Whether some writers were seen to end fewer tiles than others, where it is known how many there are: at a sequence's end of attention some have no part."""
    return sample.tiles > 0 and len({count for _, count, _ in tiles(actors)}) > 1


def undrawn(sim: Simulation, actors: list[Actor], sample: Sample) -> float:
    """Cycles of what a sampled CTA has drawn beyond what is `wanted`."""
    marks = max(sim.tile_marks.values(), key=len, default=[])
    if not marks:
        return 0.0
    if len(marks) == 1:
        marks = [*marks, sim.latest]
    return max(0.0, math.ceil(sample.tiles - WHOLE) - wanted(sample, actors)) * (marks[-1] - marks[0]) / (len(marks) - 1)


def extrapolated(sim: Simulation, actors: list[Actor], sample: Sample, each: int) -> float:
    """Tile after tile: the time of those seen, and the others at the pace of the last ones."""
    writers = tiles(actors)
    marks = sorted(sim.tile_ends)
    if sample.done < 1:
        return _on_and_on(sim, sample, each)
    if not any(step[0] == T.WGMMA for actor in actors for step in actor.steps):
        return _moved(sim, sample, each)
    if sample.wave is not None and sample.wave.dealt is not None:
        return dealt(sim, sample.wave.dealt[1])
    if not writers or len(marks) < 2 * len(writers):
        raise NotEnough("fewer than two tiles were seen of each warpgroup that writes")
    if sample.asked:
        return _shared(sim, actors, sample)
    if uneven(sample, actors):
        marks, writers = max(sim.tile_marks.values(), key=len), writers[:1]
    seen = len(marks) // len(writers)
    last, first = marks[seen * len(writers) - 1], marks[len(writers) - 1]
    return last + max(0.0, wanted(sample, actors) - seen) * (last - first) / (seen - 1)


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


def drawn(sim: Simulation, sample: Sample, known: Lengths, alone: Simulation | None = None, begins: Simulation | None = None) -> float:
    """Cycles until all tiles are done, where each goes to who draws first: a tile takes as long as those of the sample say of its length, and the first one of a CTA,
    from its first product on, more, as the sampled one does: it waits for memory, and its warpgroups are alike."""
    lengths, times, begun, own, number, mixed = list[float](), list[float](), list[float](), list[float](), sim.numbers, False
    for (copy, _slot), end in sim.cta_ends.items() if not len(known.drawn) else ():
        lengths.append(sample.seen[copy % len(sample.seen)])
        times.append(end - sim.starts[copy])
    for key, marks in sim.tile_marks.items() if len(known.drawn) else ():
        if len(marks) == len(sample.seen) - 1:
            whole = of_all(sim, key, marks, sample.seen)
            mixed, whole = not whole, whole or list(range(1, len(marks)))
            lengths += [sample.seen[number] for number in whole]
            times += [marks[number] - marks[number - 1] for number in whole]
            own.append(marks[0] - sim.begins[key])
            begun.append(sim.begins[key] - sim.starts[key[0]])
    if len(lengths) < 2:
        raise NotEnough("fewer than two tiles were seen of each warpgroup that writes")
    if not len(known.drawn) and len(known.first) <= number["sms"]:                         # the longest are in the sample
        return number["start_cycles"] + max(times)
    if not len(known.drawn) and sample.resident > 1 and len(known.first) > number["sms"]:
        return number["start_cycles"] + side_by_side(known.first, {sample.ctas[copy]: end - sim.starts[copy] for (copy, _), end in sim.cta_ends.items()},
                                                       int(number["sms"]))
    first_took, before = (sum(each) / len(each) if each else 0.0 for each in (own, begun))
    if own and known.tell_little and sample.seen[0] > LONGER * max(lengths):
        lengths, times = [*lengths, sample.seen[0]], [*times, first_took]                           # what is drawn says nothing of longer ones
    first, step, less = fitted(lengths, times, float(known.drawn.max(initial=0.0)), float(known.all.min()))
    expected, lost = first + step * sample.seen[0], number["alike_lost"]
    more = first_took - expected if own else 0.0
    slower = max(0.0, more) / -math.expm1(-max(LOST * lost, expected) / lost)
    pace = ahead(sim, Pace(first, step, less, number["empty_tile"], slower, lost))
    less_alone = statistics.mean(tile_times(alone, sample)) / statistics.mean(times) if alone is not None else 1.0
    import os
    last = turned(sim, sample, first, step) if sample.resident == 1 else 0.0
    if begins is not None and sample.firsts is not None:
        alike, ahead_of = first_times(begins, sample.firsts, last), blocks_before(sample)
        if mixed:
            first, step, less = fitted([*lengths, *(length - ahead_of for length in alike)], [*times, *(took for _, took in alike.values())],
                                       float(known.drawn.max(initial=0.0)), float(known.all.min()))
        pace = replace(pace, first=first, step=step, less=less, before=ahead_of, begins=tuple(sorted((length, took) for length, (took, _) in alike.items())))
        before, more = 0.0, 0.0
    if os.environ.get("SHOWLAST"):
        print("   last", round(last), "first", round(first), "step", round(step), "slower", round(slower), [(int(a),int(b)) for a,b in pace.begins], pace.before)
    return number["start_cycles"] + max(0.0, before + min(0.0, more)) + span(known, sample.resident, pace, number, less_alone) - last


def turned(sim: Simulation, sample: Sample, first: float, step: float) -> float:
    """Cycles that a tile takes from its end to the next one's first product, of which the last one has none."""
    lasts = [sim.cta_ends[copy, slot] - marks[-1] for (copy, slot, _), marks in sim.tile_marks.items() if len(marks) == len(sample.seen) - 1]
    return first + step * sample.seen[-1] - max(lasts) if lasts else 0.0


def blocks_before(sample: Sample) -> float:
    """Blocks that a CTA runs before its first tile, of which those that are drawn have none: by the loads of both."""
    def loads(some: Sample, slot: int) -> int:
        warps = some.machine.warps
        return sum(entry[0] == T.LOAD for warp in some.trace.warps[slot * warps:(slot + 1) * warps] for entry in warp)
    assert sample.firsts is not None
    first, seen = sample.firsts, sample.seen
    if len(set(first.seen)) < 2:
        return 0.0
    each, begun = np.polyfit(first.seen, [loads(first, slot) for slot in range(len(first.seen))], 1)
    return float(max(0.0, ((loads(sample, 0) - begun - each * sum(seen)) / (len(seen) - 1) - begun) / each))


def first_times(sim: Simulation, sample: Sample, last: float) -> dict[float, tuple[float, float]]:
    """By length, cycles until the next tile's first product of first tiles that were sampled alone, from the CTA's begin and from the tile's own first product: of those of
    which most warpgroups have rows. last: as `turned`."""
    warps, took = sample.machine.warps, dict[float, tuple[float, float]]()
    rows = [len({warp // 4 for warp in sample.trace.tiles if warp // warps == slot}) for slot in range(len(sample.ctas))]
    for (copy, _slot), end in sim.cta_ends.items():
        if rows[copy] == max(rows):
            begun = min(at for key, at in sim.begins.items() if key[0] == copy)
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


def dealt(sim: Simulation, most: float) -> float:
    """Of CTAs that are dealt tiles of different lengths, those of the cluster that has so many loads: the rest at the pace of those after the first tile, or of the
    second half of those seen, where that is more."""
    loads, copies = sorted(at for at, _ in sim.load_ends), len(sim.starts)
    if most * copies <= len(loads):
        return sim.latest
    if len(loads) < 2:
        raise NotEnough("too few loads were seen")
    before = min(len(loads) // 2, bisect.bisect_right(loads, min(sim.tile_ends, default=NEVER)))
    return sim.latest + (most - len(loads) / copies) * copies * (loads[-1] - loads[before]) / (len(loads) - 1 - before)


def _on_and_on(sim: Simulation, sample: Sample, each: int) -> float:
    """Of CTAs that were cut before they wrote anything: the rest at the pace of the second half of what was seen, CTA after CTA."""
    seen = sim.latest
    half = sum(sim.marks) / len(sim.marks)
    start = min(sim.starts.values())
    one = seen - start + (1 / sample.done - 1) * 2 * (seen - half)
    return start + one + (math.ceil(each / sample.resident) - 1) * (one + sim.numbers["next_cta"])


def _moved(sim: Simulation, sample: Sample, each: int) -> float:
    """Of kernels that only move data: the rest of the bytes at the pace of the second half of those seen."""
    marks = sorted(sim.store_ends if sim.store_ends else sim.load_ends)
    table = sample.trace.written if sim.store_ends else sample.trace.read
    if len(marks) < 8:
        raise NotEnough("too few copies were seen")
    theirs = sum(size for _, size in table.values()) / sample.total * len(sample.ctas) * min(each, sample.resident)
    half = len(marks) // 2
    seen, later = sum(n for _, n in marks), sum(n for _, n in marks[half + 1:])
    if seen > 2 * theirs:
        raise NotEnough("what it moves is moved again and again, how often is not known")
    return marks[-1][0] + max(0.0, theirs - seen) * (marks[-1][0] - marks[half][0]) / later


# --- tiles that are shared along k -------------------------------------------------------------------------------------
def waits(actor: Actor) -> list[int]:
    """Waits of a warpgroup that writes before each of its tiles, or parts of tiles, ends: it waits once per k-block."""
    found, count, inside = [], 0, False
    for step in actor.steps:
        if _stored(step):
            inside = True
        elif step[0] == T.WGMMA and inside:
            found.append(count - 1)                                 # the wait for the first k-block of the next one has been
            inside = False
        count += step[0] == T.WAIT
    return found


def longest(actors: list[Actor]) -> int:
    """K-blocks of a whole tile: the most that were seen of one."""
    return max((b - a for actor, _, _ in tiles(actors) for a, b in itertools.pairwise([0, *waits(actor)])), default=1) or 1


def k_blocks(sample: Sample, actors: list[Actor]) -> float:
    """K-blocks of a CTA in all: its loads, by those of a k-block, of which each is announced once."""
    steps = [step for actor in actors for step in actor.steps]
    announced = sum(step[0] == T.ARRIVE and step[4] > 0 for step in steps)
    if not announced:
        raise NotEnough("tiles are shared along k, and no load is announced")
    return float(sample.asked / len(sample.ctas) / (sum(step[0] == T.LOAD for step in steps) / announced))


def _shared(sim: Simulation, actors: list[Actor], sample: Sample) -> float:
    """All CTAs have as many k-blocks: the time of those seen, and the others at the pace of the last tile."""
    first = max(tiles(actors), key=lambda told: told[1])[0]
    marks, at = sim.tile_marks[(0, first.slot, first.first)], waits(first)
    pace = (marks[-1] - marks[-2]) / max(1, at[-1] - at[-2])
    return float(marks[-1] + max(0.0, k_blocks(sample, actors) - at[-1]) * pace)
