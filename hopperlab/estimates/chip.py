# SPDX-License-Identifier: Apache-2.0
"""From one SM to the whole chip: its share of L2 and memory, waves of CTAs, what a cut sample leaves out, and the clock that power allows."""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ..measure.launches.gemm_configurations import clusters_at_once
from . import cut, tile_times
from .boards import Board
from .clock import Busy, mean_busy, megahertz
from .cut import extrapolated, progress
from .programs import Actor, asked_at_once, programs
from .l2_and_memory import Memory, Traffic, dram_share, first_tiles, l2_share, outside_share, queued, serving
from .sm import Simulation
from .together import STEP
from .trace import LOAD
from .sm_units import NEVER, Multiprocessor

if TYPE_CHECKING:
    from .sample import Sample
    from .together import Together

MORE = 1.02                  # times as many bytes of memory, from which on it matters whether CTAs drift apart
SCATTERED = 2                # tiles of a CTA until those that began at different places are together, where they have tiles of their own in the end
AGAIN = 2                    # runs in which what the L2 is asked for follows from how busy the tensor cores were,
WAITING = 6                  # or how long lanes wait for memory from how busy it was,
SETTLED = 0.002              # unless one takes as long as the one before it, but for this share
TWO = 2                      # CTAs that are sampled where all do as much
FULL = 0.9                   # of its time, that a unit is busy at most (counted: 0.89 to 0.91 of issue slots)
MOST_LAUNCHED = 23           # warps of a CTA, from which on it takes longer to launch (benchmarks/lanes.py, launches)
MOST_SIMULATED = 6           # CTAs, of each place on an SM, that follow each other before the rest is added up


@dataclass
class Run:
    """cycles of the launch on the chip; places: SMs at work; waves: CTAs that follow each other on one place; share: of the work that was simulated; ahead: k-blocks
    that an SM has asked for and not used yet, on average; sim: the SMs that were simulated, after it."""

    cycles: float
    busy: Busy
    traffic: Traffic
    places: int
    waves: float
    share: float
    ahead: float = 0.0
    sim: Simulation | None = field(default=None, repr=False, compare=False)


def amounts(sample: Sample, share: float, ended: float = 1.0) -> tuple[dict[int, tuple[float, float]], float]:
    """What all CTAs move, if the sampled ones are like the others: (bytes loaded, bytes of it that are different) by array, and bytes stored. share: of their
    work that was seen, by what they wrote; ended: of what they loaded, what was for that."""
    more = sample.total / len(sample.ctas) / share
    factor = more * ended
    if sample.lengths is not None:
        factor, more = sample.lengths.all.sum() / sum(sample.seen), len(sample.lengths.all) / len(sample.seen)
    read, written = sample.trace.read, sample.trace.written
    if sample.lanes is not None:
        return sample.lanes.by_array(read, factor), more * sum(n for n, _ in written.values())
    if sample.wave is not None and sample.wave.dealt is not None:
        factor = sample.wave.dealt[2] / sum(entry[0] == LOAD for warp in sample.trace.warps for entry in warp)
    sums = read.keys() & written.keys() if sample.asked else ()            # of others: they are in the L2
    loaded = {address: (n * factor, 0.0 if address in sums else min(n * factor, size)) for address, (n, size) in read.items()}
    return loaded, sum(size for _, size in written.values()) if sample.asked else more * sum(n for n, _ in written.values())


def traffic(sample: Sample, share: float, board: Board, rounds: float, apart: bool = False, ended: float = 1.0, near: float = 1.0, early: float = 1.0) -> Traffic:
    """The same in sums, with what memory brings. rounds: waves of tiles; apart: CTAs have drifted apart; near, early: as in `merged`."""
    arrays, stored = amounts(sample, share, ended)
    unique = missed(arrays, stored, sample.wave, board, rounds, apart, sample.trace.in_step)
    fresh = 1.0 if sample.apart and sample.whole and sample.lengths is None else 1 / max(1.0, rounds)
    loaded = {address: n for address, (n, _) in arrays.items()}
    asked = merged(sample, loaded, board, rounds, near, early)
    return Traffic(sum(loaded.values()), stored, unique, board.number("l2_dirty"), board.number("l2_dirty_share"), fresh, asked)


def merged(sample: Sample, loaded: dict[int, float], board: Board, rounds: float, together: float = 1.0, early: float = 1.0) -> float:
    """Of what SMs ask for, what the L2 is asked for: a line that SMs of one TPC, or GPC, ask for within some 60 cycles it sends once, unless it goes to several CTAs
    of a cluster; of CTAs that begin at different places it sends less once: at first what others ask for at the same time, later on what neighbours do who have come
    together, and what goes to several CTAs of a cluster takes it longer. What an SM asks for again while it comes counts more.
    rounds: tiles of a CTA; together: how far CTAs go on together (`in_time`); early: how far they stand as they began. 0 where nothing is known of who asks for what."""
    if sample.wave is None or not sample.wave.near:
        return 0.0
    number = board.number
    again = 1 + (number("l2_again") - 1) * sample.wave.repeating(loaded)
    if sample.wave.brought is not None:
        scattered = 1.0 if sample.cluster > 1 else min(1.0, SCATTERED / rounds)
        times = number("l2_merged_apart") + together * (number("l2_merged_along_k") - number("l2_merged_apart"))
        saved = (1 - early) * (1 - scattered) * sample.wave.later * (1 - 1 / times)
        if sample.cluster == 1:
            saved += early * sample.wave.same * (1 - 1 / number("l2_merged_begun"))
        return again * (1 - saved + sample.wave.several(loaded) * (number("l2_asked") / number("l2_sent") - 1))
    names = ("l2_merged_clusters", "l2_merged_clusters") if sample.cluster > 1 else ("l2_merged", "l2_merged_others")
    near, others = (1 + together * (number(name) - 1) for name in names)
    return again * sample.wave.merged(loaded, near, others)


def in_time(run: Run, sample: Sample, board: Board) -> float:
    """How far CTAs go on together: those whose tensor cores never rest, all at the same pace, to the cycle; those that wait for what they load drift apart, the more the
    longer they wait and the longer the launch, unless they wait for each other at each tile."""
    if sample.trace.in_step:
        return 1.0
    apart, held = board.number("l2_apart"), board.number("l2_held")
    waits = 1 - min(1.0, max(0.0, (max(run.busy.wgmma, run.busy.mma) - apart) / (held - apart)))
    return 1 - waits * min(1.0, run.cycles / 1e6 / board.number("l2_adrift"))


def anew(waves: float, board: Board) -> float:
    """The same of CTAs that take the places of others: each begins when the one before it has ended, so that from wave to wave they are further apart. On average over
    so many waves."""
    often = waves / board.number("l2_anew")
    return (1 - math.exp(-often)) / often


def missed(arrays: dict[int, tuple[float, float]], stored: float, wave: Together | None, board: Board, rounds: float, apart: bool = False,
           turning: bool = False) -> float:
    """Bytes that memory brings. What CTAs of a wave load at the same time comes once; what a later wave wants again (the next one, or one that begins anew at the
    array's one end), once more, if so much has come and been written since that the L2 has given it up. apart: CTAs have drifted apart, and share what the L2 still
    has of the one before; turning: those that wait for each other at each tile (gemm/final.cu: IN_STEP) go through every other one from its end, of which the L2 has
    the most."""
    once = sum(size for _, size in arrays.values())
    if wave is None:
        return once
    if wave.brought is not None:
        return max(once, wave.brought)
    kept, gone = board.number("l2_keeps"), board.number("l2_forgets")
    scale = sum(arrays[address][0] for address in wave.asked if address in arrays) / rounds / max(1.0, sum(wave.asked.values()))

    def share(address: int) -> float:
        return wave.alone(address, scale, kept, gone) if apart else wave.share(address)
    wanted = {address: max(size, loaded * share(address)) for address, (loaded, size) in arrays.items()}
    found = once
    for address, (_, size) in arrays.items():
        waves = 1.0 if apart else wave.period(address, size, scale)
        others = sum(nbytes for other, nbytes in wanted.items() if other != address) / rounds
        between = min(once + stored, others + waves * (wanted[address] + stored) / rounds)
        still = min(1.0, board.number("l2_size") / 2 / max(1.0, between)) if turning and waves == 1 else 0.0
        found += (wanted[address] - size) * min(1.0, max(0.0, (between - kept) / (gone - kept))) * (1 - still)
    return found


def drifted(ahead: float, board: Board, waves: float) -> float:
    """Of the time, that in which CTAs have drifted apart. One that is ahead waits for memory, where those behind it find what it brought in the L2 and catch up;
    but if loads run so far ahead of their use that nobody waits for memory, nothing holds CTAs together. All begin together, and are apart after some waves.
    ahead: as in Run, where the L2 keeps nobody waiting: who waits for it is no further ahead of his use."""
    held, free = board.number("ahead_held"), board.number("ahead_free")
    return max(0.0, 1 - board.number("apart_waves") / waves) * min(1.0, max(0.0, (ahead - held) / (free - held)))


@dataclass
class Part:
    """A launch on a board. places: SMs, or groups of SMs for a cluster, at work; each: CTAs (clusters) that follow each other on one; share: of the work that was
    seen; made: what simulates SMs."""

    sample: Sample
    board: Board
    actors: list[Actor]
    places: int
    each: int
    share: float
    rounds: float
    made: type[Simulation] = Simulation

    def memory(self, moved: Traffic, steps: Sequence[float] = ()) -> Memory:
        """What memory and the L2 give, at the highest clock. Of attention the sample's tiles stand for all others: so the lines that are dirty at first are pushed out
        little by little, and what is loaded first is looked at apart (`first`)."""
        board, number, wave, active = self.board, self.board.number, self.sample.wave, max(1, self.places * self.sample.cluster)
        most, more, l2 = number("tma_bytes"), number("sms") / active, l2_share(board, active, moved.merged)
        found = Memory(l2, min(most, number("store_bytes") * more), min(most, number("lane_store_bytes") * more),
                       dram_share(board, active, number("clock_mhz"), moved.mixed), moved.missed, moved.loaded / active * moved.fresh,
                       dirty=moved.pushed / active, share=moved.share, rows=l2_share(board, active), steps=steps)
        if self.sample.lanes is not None:
            found = replace(found, lanes=min(most, number("lane_l2_bytes") * more))
        if wave is None or not self.sample.apart:
            return replace(found, first=self.begun(wave, steps)) if wave else found
        found = replace(found, store=number("store_apart"), stream=number("store_alone"), lane_store=number("lane_store_bytes"))
        if self.sample.whole and self.sample.lengths is None:
            return replace(found, first=wave.first)
        begun = self.sample.lengths.begun if self.sample.lengths is not None else 1.0
        burst = number("memory_burst") if self.sample.lengths is not None and self.sample.lengths.differ else 0.0
        steps = first_tiles(board, self.sample.lengths, self.sample.seen, moved.loaded / active, moved.missed, wave.first)
        return replace(found, cold=min(found.cold, number("first_bytes")), steps=steps, burst=burst, share=moved.pushed / max(1.0, moved.unique), dirty=NEVER,
                       first=wave.first, begun=begun, crowd=number("memory_crowd"),
                       late=min(1.0, number("memory_late") + number("memory_follow") * moved.missed))

    def begun(self, wave: Together, steps: Sequence[float]) -> float:
        """Of what a CTA asks for before it waits for anything, the share that memory brings."""
        if steps:
            some = steps[:max(1, round(sum(asked_at_once(actor) for actor in self.actors if not actor.slot) / STEP))]
            return sum(some) / len(some)
        return sum(wave.different.values()) / max(1.0, sum(wave.asked.values()))

    def traffic(self, apart: bool = False, near: float = 1.0, early: float = 1.0) -> Traffic:
        """What it moves."""
        by_loads = self.sample.whole or self.sample.lengths or self.sample.asked
        return traffic(self.sample, self.share, self.board, self.rounds, apart, 1.0 if by_loads else cut.ended(self.actors), near, early)

    def drifting(self, moved: Traffic, cycles: float, together: float = 1.0) -> Traffic:
        """The same of CTAs that began together once, and that drift apart by and by: the longer they go on, and wait for what they load (`in_time`), the more of what
        others have asked for comes again."""
        if self.sample.wave is None or self.sample.wave.new or self.rounds <= 1:
            return moved
        number = self.board.number
        lost = number("apart_slowly") * max(0.0, cycles / 1e6 - number("apart_from"))
        lost += (1 - together) * number("apart_waiting") * min(1.0, cycles / 1e6 / number("apart_waits"))
        return replace(moved, unique=moved.unique + min(1.0, lost) * max(0.0, moved.loaded - moved.unique))

    def run(self, moved: Traffic, memory: Memory) -> tuple[Run, Memory]:
        """The launch, and memory with the latency of an L2 as busy and at the clock as it was."""
        sample, board, active = self.sample, self.board, self.places * self.sample.cluster
        sim, sms, ends = _run(sample, self.actors, board, memory, self.each, self.made)
        if sample.lengths is None:
            whole = _whole(sim, self.actors, sample, ends, self.each)
        else:
            whole = tile_times.drawn(sim, sample, sample.lengths, self.alone(memory), self.begins(memory))
        whole += board.number("sums_wait") if sample.asked else 0.0
        if sample.outside is not None:
            mhz = memory.pace * board.number("clock_mhz")
            whole += sample.outside.later(whole, self.places, sample.trace.in_step, memory.l2, outside_share(board, active, mhz))
        cycles = max(whole, board.number("start_cycles") + max(moved.memory / (memory.dram * active), sample.lanes.hot if sample.lanes else 0.0))
        seen = sim.latest
        if sample.lengths is not None:                       # by the lengths of all tiles: SMs that have shorter ones end sooner
            seen = cycles * self.places / len(sms) * len(sim.starts) / len(sample.ctas) * sum(sample.seen) / float(sample.lengths.all.sum())
        elif sample.whole and not started_together(sample, self.each):
            seen = cycles * (len(ends) or 1) * self.places * sample.cluster / sample.total
        busy = mean_busy(sms, seen, cycles, moved, active, active / board.number("sms"))
        if sample.lanes is not None and sample.lanes.alone and (most := max(busy.issue / FULL, busy.special / FULL, busy.port)) > 1:
            cycles, seen = cycles * most, seen * most
            busy = mean_busy(sms, seen, cycles, moved, active, active / board.number("sms"))
        mhz = megahertz(busy, board, cycles)
        waited = min(1.0, moved.loaded / active / whole / l2_share(board, int(board.number("sms")), moved.merged, mhz)) * board.number("l2_wait")
        used = min(1.0, moved.memory / (memory.dram * active * whole))
        waits = queued(board, used, memory.burst > 0) if sample.apart else 0.0
        lane_waits = (memory.lane_waits + board.number("lane_wait") * used ** 4) / 2
        memory = replace(memory, waited=waited, queued=waits, lane_waits=lane_waits, l2=l2_share(board, active, moved.merged, mhz),
                         dram=dram_share(board, active, mhz, moved.mixed), pace=mhz / board.number("clock_mhz"))
        ahead = sum(sm.ahead for sm in sms) / len(sms) / sim.latest
        return Run(cycles, busy, moved, active, self.each / sample.resident, self.share, ahead, sim), memory


    @cached_property
    def first(self) -> tuple[Sample, list[Actor]] | None:
        """The CTAs that were sampled for their first tiles alone, with their programs, if there are such."""
        if self.sample.firsts is None:
            return None
        first = replace(self.sample.firsts, wave=self.sample.wave)
        return first, programs(first, self.board)

    def begins(self, memory: Memory) -> Simulation | None:
        """These, each on an SM of its own."""
        return None if self.first is None else _run(*self.first, self.board, memory, 1, self.made)[0]

    def alone(self, memory: Memory) -> Simulation | None:
        """The sampled CTA without those that share its SM, where CTAs that do all begin at once and draw few tiles."""
        known = self.sample.lengths
        if known is None or self.sample.resident < 2 or len(known.first) > self.sample.resident * self.places:
            return None
        if not 0 < len(known.drawn) <= tile_times.FEW_DRAWN * len(known.first):
            return None
        return _run(self.sample, self.actors, self.board, memory, 1, self.made)[0]


def at_once(sample: Sample, board: Board) -> int:
    """Clusters that the chip holds at a time, each once for every CTA that an SM holds. Of CTAs that fill an SM these are fewer than SMs would be enough for, since a
    cluster lies in one GPC."""
    return clusters_at_once(sample.cluster) if sample.resident == 1 else max(1, int(board.number("sms")) // sample.cluster)


def simulate(sample: Sample, board: Board, actors: list[Actor] | None = None, made: type[Simulation] = Simulation) -> Run:
    """The whole launch. actors: its programs, where they are there already; made: what simulates SMs."""
    actors = actors or programs(sample, board)
    sample = replace(sample, wave=sample.wave and sample.wave.on(board.number("l2_size") / 2))
    groups = at_once(sample, board)
    clusters = sample.total // sample.cluster
    each = -(-clusters // groups)
    chip = Part(sample, board, actors, min(groups, clusters), each, progress(sample), _rounds(sample, actors, each, min(groups, clusters)), made)
    moved = chip.traffic()
    active = chip.places * sample.cluster
    near, memory = chip.run(moved, chip.memory(moved, sample.wave.steps if sample.wave else ()))
    for _ in range(WAITING if sample.lanes else AGAIN if moved.merged else 1):
        together = in_time(near, sample, board) if each <= sample.resident else anew(chip.rounds, board)
        moved = chip.traffic(near=together, early=max(0.0, 1 - near.cycles / 1e6 / board.number("l2_adrift")))
        memory = replace(memory, l2=l2_share(board, active, moved.merged, memory.pace * board.number("clock_mhz")))
        before = near.cycles
        near, memory = chip.run(moved, memory)
        if abs(near.cycles - before) < SETTLED * before:
            break
    if each <= sample.resident:
        apart, moved = 1.0, chip.drifting(moved, near.cycles, together)
    else:
        idle, _ = chip.run(moved, replace(memory, l2=board.number("tma_bytes"), rows=0.0, waited=0.0, queued=0.0))
        apart = drifted(idle.ahead, board, each)
        moved = chip.traffic(apart=True, near=together) if apart else moved
    rounds, part = cut.last_round(sample, actors, chip.places, each)
    if part < 1:
        last, _ = chip.run(near.traffic, serving(memory, board, max(1, round(part * active)), near.traffic.merged, near.traffic.mixed))
        near = mixed(near, last, 1 / rounds) if last.cycles < near.cycles else near
    if moved.unique <= MORE * near.traffic.unique:
        return near
    far, _ = chip.run(moved, replace(chip.memory(moved), waited=memory.waited, queued=memory.queued, dram=memory.dram, pace=memory.pace))
    return mixed(near, far, apart)


def mixed(near: Run, far: Run, part: float) -> Run:
    """A launch that goes the one way for a time, and the other way for the rest: part, of its work."""
    cycles = (1 - part) * near.cycles + part * far.cycles

    def mean(one: float, other: float) -> float:
        return ((1 - part) * one * near.cycles + part * other * far.cycles) / cycles
    busy = Busy(*(mean(one, other) for one, other in zip(astuple(near.busy), astuple(far.busy), strict=True)))
    unique = (1 - part) * near.traffic.unique + part * far.traffic.unique
    return replace(near, cycles=cycles, busy=busy, traffic=replace(near.traffic, unique=unique))


def _rounds(sample: Sample, actors: list[Actor], each: int, places: int) -> float:
    """Tiles, or CTAs, that follow each other on an SM."""
    if sample.lengths is not None:
        return max(1.0, len(sample.lengths.all) / places)
    if each > sample.resident:
        return each / sample.resident
    if sample.asked:
        return cut.k_blocks(sample, actors) / cut.longest(actors)
    return max((count + 1 for _, count, _ in cut.tiles(actors)), default=1) if sample.whole else cut.wanted(sample, actors)


def _run(sample: Sample, actors: list[Actor], board: Board, memory: Memory, each: int,
         made: type[Simulation] = Simulation) -> tuple[Simulation, list[Multiprocessor], list[float]]:
    """CTAs (or clusters) one after the other on one place."""
    machine = sample.machine
    sim = made(board, memory, sample.trace.counts, machine.barriers.capacity, machine.warps, machine.translation.ops.__getitem__)
    different = len(sample.ctas) // sample.cluster
    most = 1 if sample.done < 1 else MOST_SIMULATED * (3 if different > 1 else 1)
    left, places = min(each, most * sample.resident), [0]
    if started_together(sample, each):
        left, places = different, [number // each for number in range(different)]
    elif each <= sample.resident and sample.lengths is not None and not len(sample.lengths.drawn):
        left = different                                     # each on its own SM, or with who shares it, where it tells how long a tile of its length takes
        found = [number % int(board.number("sms")) for number in sample.ctas]
        places = [list(dict.fromkeys(found)).index(place) for place in found]
    sms = [Multiprocessor(sample.lanes is not None and sample.lanes.alone) for _ in range(sample.cluster * (max(places) + 1))]
    ends, started, launched = list[float](), 0, -NEVER
    launch = board.number("cta_launch") * max(1.0, machine.warps / MOST_LAUNCHED) if sample.lanes is not None else 0.0

    def slots(copy: int) -> range:
        first = copy % different * sample.cluster
        return range(first, first + sample.cluster)

    def begin(at: float) -> None:
        nonlocal started, launched
        at = launched = max(at, launched + launch)
        for rank, slot in enumerate(slots(started)):
            sim.start(actors, started, slot, sms[places[started % len(places)] * sample.cluster + rank], at, sample.cluster)
        started += 1

    def ended(key: tuple[int, int], at: float) -> None:
        mine = slots(key[0])
        if all(not sim.left.get((key[0], slot), 1) for slot in mine):
            ends.append(max(sim.cta_ends[(key[0], slot)] for slot in mine))
            if started < left:
                begin(at + board.number("next_cta"))
    sim.on_end = ended
    for place in range(max(len(places), min(left, sample.resident))):
        begin(board.number("start_cycles") + place * (board.number("staggered") if sample.lengths is not None and len(sample.lengths.drawn) else 0.0))
    sim.run()
    return sim, sms, sorted(ends)


def started_together(sample: Sample, each: int) -> bool:
    """Whether all CTAs run at the same time, and lanes move all data: then the one that does most decides, not what they do on average."""
    return sample.lanes is not None and sample.lanes.alone and len(sample.ctas) > TWO * sample.cluster and each <= sample.resident


def _whole(sim: Simulation, actors: list[Actor], sample: Sample, ends: list[float], each: int) -> float:
    """Cycles of all CTAs of a place, from those that were simulated."""
    if not sample.whole:
        return extrapolated(sim, actors, sample, each)
    if not ends and not sample.tiles:
        raise cut.NotEnough("its warps wait for each other in a way that the model does not follow")
    last = (ends[-1] if ends else 0.0) - (cut.undrawn(sim, actors, sample) if sample.tiles else 0.0)
    if sample.wave is not None and sample.wave.dealt is not None:
        return cut.dealt(sim, sample.wave.dealt[1])
    more = each - len(ends)
    if more > 0 and len(ends) <= sample.resident:                # one turn of all places was seen
        last += more * (ends[-1] - min(sim.starts.values())) / len(ends)
    elif more > 0:
        back = min(max(1, len(ends) // sample.resident // 2) * sample.resident, len(ends) - 1)
        last += more * (ends[-1] - ends[-1 - back]) / back
    return last
