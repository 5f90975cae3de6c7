# SPDX-License-Identifier: Apache-2.0
"""What a sample that was cut leaves out: how much of the work was seen, and how long the rest takes at the pace of what was."""
from __future__ import annotations

import bisect
import itertools
import math
from typing import TYPE_CHECKING, Any


from . import trace as T
from .programs import COMPUTE
from .sm_units import NEVER

if TYPE_CHECKING:


    from .programs import Actor
    from .sample import Sample
    from .sm import Simulation

WHOLE = 0.01                 # of a tile, which is none
SHORTER = 0.5                # tiles more than others, at most, that a CTA draws where some tiles take less
FEW = 4                      # tiles of a place, at most, of which it matters that the last ones are not everywhere,
ALL = 0.9                    # if fewer places than this share have one


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
