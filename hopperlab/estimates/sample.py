# SPDX-License-Identifier: Apache-2.0
"""A few CTAs of a launch in the emulator, from beginning to end, without the data that copies and products move.

What is copied by TMA or multiplied does not decide how long a kernel takes, so it stays where it is: addresses, barriers, loops and ordinary loads and
stores are real. Ordinary stores are taken back afterwards.
"""
from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..emulator.errors import BudgetExceeded
from ..emulator.hazards.findings import Findings
from ..emulator.launch import Plan, one_blas_thread, plan
from ..emulator.observe.counting import Counting
from ..emulator.observe.deadlock import Deadlock
from ..emulator.observe.work import Work
from ..emulator.session import Session
from ..hopper import limits
from ..runtime import arguments
from ..runtime.emulated import Mirrors
from . import branching, order
from .absent import Absent, Awaited, polls
from .draws import GOLDEN, Lengths, by_chance, lengths
from .lane_loads import LaneCounting, Lanes, lanes_load
from .still import Still
from .trace import FURTHEST, LOAD, MOST_ENTRIES, TILES, Enough, Recorder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..runtime.module import RawKernel
    from .outside import Outside
    from .together import Together

ALIKE = 1.1                  # by which traces of CTAs that do the same may differ in length
MIXED = 12                   # clusters of a sample of CTAs that differ
SOME = 4                     # CTAs of which it is looked at whether they do as much as the first one, where lanes move all data,
MOST_MIXED = 60_000          # blocks that warps of all of these run, about, and
MIXED_LANES = 64             # and how many are sampled if they do not: they are quick to run
LONGEST = 3                  # lengths, the longest, of which so many CTAs are sampled, where each has an SM of its own and one tile
FIRSTS = 0.0, 0.5            # and others, of first tiles by length, where more are drawn,
MOST_FIRST = 700             # blocks that the drawing warp runs in one, at most: some hundred of keys
DEALT = 4                    # tiles, or parts of them, that are seen where tiles are shared along k,
MOST_DEALT = 20_000          # and blocks that warps run there, at least
FEW_ROUNDS = 4               # of tiles, up to which it matters who has tiles with fewer rows,
RAGGED = {3: 0.6}            # and what such a one takes of the time of another, about, by its warpgroups; the more the more of them have rows (marks: 0.6 to 0.8 with
RAGGED_ELSE = 0.3            # one of three; times of four launches: 0.6 with one of two, which are bound by their products)
APART = 0.5                  # of a landing's time, by which CTAs differ in when they have their first tile (marks: q comes after 3,200 to 4,400 cycles,
                             # blocks take 2,300)
DRAWN, MOST_DRAWN = 5, 13    # tiles that a sampled CTA draws, where tiles differ in length: more, if CTAs draw as many, the shorter they are,
UNEQUAL = 8                  # or at least so many where sequences are not as long as each other: of those behind an end of a sequence a tile's time is not known
ENOUGH = 400.0               # blocks that its drawing warp runs in all
CANDIDATES = 10              # CTAs of a launch of attention that are looked at for the one that does most
EMPTY = 1.25                 # times as long as the shortest tile, up to which tiles may hold nothing: there is less to do than for one block
PATIENT = 10                 # times as many blocks of a sample that has written nothing yet, where lanes move the data
MOST_WORK = 60_000_000       # of a sample: a warp instruction is 1, a memory access 32 (emulator/observe/work.py)


@dataclass
class Sample:
    """What the sampled CTAs did. ctas: their linear numbers, slot by slot; total: CTAs of the launch; cluster: CTAs of one; resident: CTAs that an SM holds
    at once; counts: by instruction, what it cost in wavefronts and sectors (observe/counters.py); whole: whether they came to their end.
    lengths: of all tiles, where they are drawn and differ, and `seen` of those in the sample, in order. wave: what CTAs that run at the same time share.
    asked: how many tensor and bulk loads the sampled CTAs have in all, where tiles are shared along k in even parts, else 0; loads: those of all CTAs, there.
    outside: what boxes of the launch's tensor loads have outside their arrays. done: of what a CTA does on average, what each did of a sample that was cut before it
    wrote anything, else 1. tiles: of a CTA on average, where they are drawn and as long as each other, else 0;
    most: of the CTA that takes longest, where few follow each other and some have fewer rows, else 0; firsts: a sample of first tiles alone, of several lengths.
    lanes: what lanes load themselves, where nothing is multiplied by wgmma (`with_lanes`)."""

    plan: Plan
    machine: Any
    trace: Recorder
    ctas: list[int]
    total: int
    cluster: int
    resident: int
    counts: dict[int, dict[str, int]]
    whole: bool = True
    lengths: Lengths | None = None
    seen: tuple[float, ...] = ()
    wave: Together | None = None
    asked: int = 0
    loads: order.Loads | None = None
    outside: Outside | None = None
    done: float = 1.0
    tiles: float = 0.0
    most: float = 0.0
    firsts: Sample | None = None
    counting: Counting | None = None
    lanes: Lanes | None = None

    @property
    def apart(self) -> bool:
        """Whether tiles end at different times, each with bytes of its own: attention."""
        return self.wave is not None and self.wave.new

    @property
    def rounds(self) -> float:
        """Tiles of an SM, on average, where CTAs draw them; else its CTAs."""
        known = self.lengths
        count = float((known.all > known.empty).sum()) if known is not None else self.total * max(1.0, self.tiles)
        return count / min(self.total, limits.SMS)


def planned(kernel: RawKernel, grid: Any, block: Any, args: Sequence[Any], shared_mem: int = 0, cluster: Any = None) -> tuple[Plan, Mirrors]:
    """The launch as the emulator plans it. Raises LaunchError as a launch would."""
    grid, block = arguments.check_launch(kernel.signature, kernel.use, grid, block, shared_mem)
    checked = arguments.check_arguments(kernel.signature, args, kernel.backend)
    mirrors = Mirrors()
    packed = [mirrors.pack(value, f"argument {number}") for number, value in enumerate(checked, 1)]
    session = Session(schedule="lazy", hazards_mode="collect", trace=False, check=False, limit=MOST_WORK)
    return plan(kernel.module.program, kernel.mangled, grid, block, packed, int(shared_mem), cluster, session), mirrors


def run(launch: Plan, clusters: Sequence[int] = (0,), most: int = MOST_ENTRIES, draws: Sequence[int] | None = None, enough: int = TILES, alone: bool = False,
        early: NDArray[Any] | None = None) -> Sample:
    """Run the CTAs of these clusters (numbers in launch order) together. most: blocks that warps run before the sample is cut, `enough` tiles at least;
    draws: numbers that they draw from a counter of tiles, before it is at its end; early: as in Recorder.

    Raises what a launch raises, BudgetExceeded for too long a sample, and, with `alone`, Awaited where they wait for other CTAs.
    """
    shape = launch.geometry
    size = shape.cluster_ctas
    chosen = np.concatenate([shape.cta_order[c * size:(c + 1) * size] for c in clusters])
    at_once = min(shape.ctas, shape.slots)
    heard: list[Any] = []

    def listen(machine: Any) -> list[Any]:
        still: Any = Still
        counting: Any = LaneCounting if lanes_load(launch) else Counting
        machine.landing = still(machine)
        recorder = Recorder(machine, max(1, at_once // len(chosen)), most, draws, enough, early)
        heard.extend((recorder, counting(machine), Absent(machine, recorder.keep, alone)))
        machine.findings = Findings(machine)
        bound: Any = Work
        return [*heard, bound(machine), Deadlock(machine, ())]
    machine: Any = replace(launch, geometry=shape.only(chosen)).machine(listen)
    heard[2].listen()
    try:
        with one_blas_thread():
            machine.scheduler.run()
        whole = True
    except Enough:
        whole = False
    finally:
        heard[0].restore()
        launch.memory.release_views()
        machine.findings.close()
    found = Sample(launch, machine, heard[0], chosen.tolist(), shape.ctas, size, resident(*shape.per_cta), heard[1].detail, whole, counting=heard[1])
    return _followed(found, chosen) if heard[2].raised else found


def _followed(found: Sample, chosen: np.ndarray) -> Sample:
    """A sample of CTAs that wait for others, with its loads, and those of all CTAs if they run at the same time."""
    launch = found.plan
    if found.total > limits.SMS * found.resident:
        return replace(found, asked=int(order.follow(launch, chosen).counts.sum()))
    loads = order.follow(launch)
    return replace(found, loads=loads, asked=int(loads.counts[np.isin(launch.geometry.cta_order, chosen)].sum()))


def typical(launch: Plan) -> Sample:
    """A sample that stands for all CTAs: the first cluster; where more than a wave of clusters follows and those in the middle or at the end do not as much as it does,
    some from all over the grid, in a random order that is always the same. Where tiles of different lengths are drawn: one that draws some of each length.

    Raises NotAlone where CTAs wait for others and their loads cannot be followed.
    """
    known = drawn(launch)
    if known is not None:
        return known
    clusters = launch.geometry.ctas // launch.geometry.cluster_ctas
    middle = (int(GOLDEN * clusters),)
    dealt = shared_along_k(launch, clusters) if polls(launch) else None
    if dealt is not None and dealt.asked:                    # tiles are shared along k
        return dealt
    three = [0, clusters // 2, clusters - 1]
    ops = {instr.op for instr in launch.body}
    often = branching.counted(launch, three) if "wgmma" not in ops and ops & {"mma", "fma"} else None         # who only moves data goes on by its bytes (cut.py)
    early = None if often is None else often.mean(axis=0)
    try:
        first = run(launch, alone=True, early=early)
    except Awaited:
        dealt = dealt or run(launch, middle, MOST_DEALT, enough=DEALT)
        if not dealt.asked:                                  # this one waits for nobody
            order.follow(launch, launch.geometry.cta_order[:launch.geometry.cluster_ctas])
        return dealt
    if often is not None and early is not None and not first.whole and not first.trace.written:
        done = branching.done(first.machine, first.trace.turned, early)
        if done and branching.follows(first.trace.turned, often[:first.cluster], first.whole):
            return replace(first, done=done)
        first = run(launch, alone=True)
    if lanes_load(launch) and not first.whole and not first.trace.written:           # long loops of a few blocks each
        with contextlib.suppress(BudgetExceeded):
            first = run(launch, most=PATIENT * MOST_ENTRIES, alone=True)
    if first.whole and clusters > 1 and ops.isdisjoint(("cp", "mbarrier", "wgmma", "mma")):
        return of_lanes(launch, first, three, ops)
    if not first.whole or clusters <= first.resident * (limits.SMS // first.cluster):
        return fullest(launch, first, clusters, middle[0]) if "ex2" in ops and clusters > 1 else first
    if alike(launch, first, three, branching.counted(launch, three) if often is None else often):
        return first
    return run(launch, np.random.default_rng(1).permutation(clusters)[:MIXED].tolist(), most=MOST_ENTRIES * FURTHEST)


def of_lanes(launch: Plan, first: Sample, three: Sequence[int], ops: Set[str]) -> Sample:
    """Of CTAs whose lanes move all data: the first one if others do as much, with another one where they add to the same words; else many from all over."""
    clusters = launch.geometry.ctas // launch.geometry.cluster_ctas
    some = np.random.default_rng(1).permutation(clusters)
    with contextlib.suppress(BudgetExceeded, Awaited, order.NotAlone):                # of those that do so much, or wait for others, one must do
        others = run(launch, [*dict.fromkeys([*three[1:], *some[:SOME].tolist()])], most=MOST_ENTRIES * FURTHEST)
        lengths = [length(first, 0), *(length(others, number) for number in range(len(others.ctas) // others.cluster))]
        if others.whole and max(lengths) > ALIKE * min(lengths):
            count = min(MIXED_LANES, int(MOST_MIXED * len(others.ctas) / max(1, others.trace.runs)))
            return others if count <= len(others.ctas) else run(launch, some[:count].tolist(), most=MOST_ENTRIES * FURTHEST)
        if ops & {"atom", "red"}:
            return run(launch, three[:2])
    return first


def shared_along_k(launch: Plan, clusters: int) -> Sample | None:
    """A sample of a cluster amid a launch whose CTAs may wait for each other, of another one if the first has whole tiles alone; None where loads cannot be followed, as
    where a CTA waits for the one before it: the first one waits for none."""
    found = None
    with contextlib.suppress(order.NotAlone):
        for number in dict.fromkeys(int(GOLDEN * turn % 1 * clusters) for turn in (1, 2)):
            if found is None or found.whole and not found.asked:
                other = run(launch, (number,), MOST_DEALT, enough=DEALT)
                found = other if found is None or other.asked else found
    return found


def fullest(launch: Plan, first: Sample, clusters: int, middle: int) -> Sample:
    """Of attention a cluster that does not have less to do than most: tiles at the ends of sequences hold fewer rows, maybe none of some warpgroups. Where all run at
    once it is looked for among those that come to most branches, too: they may be dealt more tiles than others."""
    others = [middle]
    if first.whole:                                          # a sequence's last tiles may come every so many clusters, and side by side
        others += [(middle + 1) % clusters, clusters // 3]
        some = [int((k + 0.5) / CANDIDATES * clusters) for k in range(CANDIDATES)]
        often = branching.counted(launch, some)
        others += [] if often is None else [some[int(often.reshape(len(some), -1).sum(axis=1).argmax())]]
    found = [first]
    for number in dict.fromkeys(others):
        with contextlib.suppress(Awaited):                   # the first one waits for nobody
            found += [run(launch, (number,), alone=True)] if number else []
    return max(found, key=full)


def full(found: Sample) -> float:
    """Bytes that it writes: in all, or a tile where it was cut."""
    return sum(nbytes for nbytes, _ in found.trace.written.values()) / (1 if found.whole else max(1, sum(found.trace.tiles.values())))


def alike(launch: Plan, first: Sample, clusters: Sequence[int], often: NDArray[Any] | None) -> bool:
    """Whether these clusters, of which `first` is the first, do as much: by how often they come to each branch (`branching.counted`), or by what they run, where
    that is not known, or not what the first one did."""
    if often is not None and branching.follows(first.trace.turned, often[:first.cluster], first.whole):
        lengths = often.reshape(len(clusters), -1).sum(axis=1).tolist()
    else:
        others = run(launch, clusters[1:])
        lengths = [length(first, 0), *(length(others, number) for number in range(len(clusters) - 1))]
    return bool(max(lengths) <= ALIKE * min(lengths))


def drawn(launch: Plan) -> Sample | None:
    """A sample of tiles that are drawn and differ in length, with the lengths of all; None for other launches."""
    known = lengths(launch) if launch.geometry.cluster_ctas == 1 and launch.geometry.ctas > 1 else None
    if known is None or not known.differ and not len(known.drawn):
        return None
    if not known.differ:
        return of_like(launch, known)
    if len(known.drawn):
        found = of_lengths(launch, known)
        return found if written(found) >= len(found.seen) - 1 else of_held(launch, known)
    some = beside_each_other(known.first, resident(*launch.geometry.per_cta))
    return replace(run(launch, some.tolist(), MOST_ENTRIES * FURTHEST), lengths=known, seen=tuple(known.first[some]))


def beside_each_other(first: NDArray[Any], at_once: int) -> NDArray[Any]:
    """Numbers of some CTAs from all over, among them three of each of the longest three lengths, of which some may have rows for some warpgroups alone;
    where an SM holds several at once, with those that share its SM: every 132nd, if all run at the same time."""
    ctas = len(first)
    if at_once == 1 or not limits.SMS < ctas <= at_once * limits.SMS:
        some = np.random.default_rng(1).permutation(ctas)
        longest = np.concatenate([some[first[some] == length][:LONGEST] for length in np.unique(first)[:-LONGEST - 1:-1]])
        return np.concatenate([longest, some[~np.isin(some, longest)]])[:MIXED]
    first = np.random.default_rng(1).permutation(limits.SMS)[:MIXED // at_once]
    both = (first[:, None] + limits.SMS * np.arange(at_once)).ravel()
    return both[both < ctas]


def of_like(launch: Plan, known: Lengths) -> Sample:
    """A sample of a CTA that draws tiles as long as each other: numbers from all over, since every 132nd one may always be the same tile of a head. Where it draws few
    and some warpgroup has no rows of one, tiles of which all have rows, if it is known which these are, or another CTA if that has more to do."""
    ctas, all_of_them = launch.geometry.ctas, len(known.all)
    fewer, most = ragged(launch, all_of_them) if ctas < all_of_them <= FEW_ROUNDS * ctas else (0, 0.0)
    if 0 < fewer < ctas:
        return replace(run(launch, (ctas - 1,), draws=known.even(fewer)), tiles=all_of_them / ctas, most=most)
    numbers = known.even()
    found = run(launch, (ctas // 2,), draws=numbers)
    if found.whole and len(set(found.trace.tiles.values())) > 1:
        found = max(found, run(launch, (int(GOLDEN * ctas),), draws=numbers), key=full)
    return replace(found, tiles=all_of_them / ctas)


def ragged(launch: Plan, count: int) -> tuple[int, float]:
    """Of so many tiles that are drawn in order, those that begin, since they are the ends of sequences and have fewer rows (attention/forward.cu), and how many tiles
    with all rows take as long as the CTA that takes longest. (0, 0.0) where the first one has as many rows as the last CTA's."""
    ctas = launch.geometry.ctas
    short, long = (run(launch, (cta,), draws=()) for cta in (0, ctas - 1))
    rows, all_rows, every = full(short), full(long), sum(size for _, size in long.trace.written.values())
    if not 0 < rows < all_rows or long.resident > 1:
        return 0, 0.0
    fewer = round((count - every / all_rows) / (1 - rows / all_rows))
    least = RAGGED.get(writers(long), RAGGED_ELSE)
    lengths = np.where(np.arange(count) < fewer, least + (1 - least) * writers(short) / writers(long), 1.0)
    landings, slots = landed(long)
    return fewer, by_chance(Lengths(lengths[:ctas], lengths[ctas:]), slots / landings, APART / landings)


def landed(sample: Sample) -> tuple[int, int]:
    """How often a tile's loads land in another slot than the one before, and how many slots there are."""
    slots = [entry[3][0][0] for warp in sample.trace.warps for entry in warp if entry[0] == LOAD]
    return max(1, sum(one != before for one, before in itertools.pairwise([None, *slots]))), max(1, len(set(slots)))


def of_lengths(launch: Plan, known: Lengths, least: float = 0.0) -> Sample:
    """A sample of a CTA that draws tiles of many lengths. least: times as long as the shortest, which hold nothing where a shorter sequence has fewer tiles. A first
    tile that stands for others is one of which all warpgroups have rows."""
    count = int(min(MOST_DRAWN, max(DRAWN, min(ENOUGH / np.median(known.drawn), len(known.drawn) / len(known.first)))))
    count = max(count, UNEQUAL) if known.empty else count
    first, numbers = known.sample(count, least)
    found = run(launch, (first,), MOST_ENTRIES * FURTHEST, numbers)
    some = writers(run(launch, (first,), draws=()))
    if not some and not known.empty:
        return of_held(launch, known)
    if 0 < some < writers(found):
        shorter = known.below(first) if known.tell_little else None
        if shorter is not None and shorter.most > max(known.nothing, least * float(known.first.min())):
            return of_lengths(launch, shorter, least)
        first = other_first(launch, known, first)
        found = run(launch, (first,), MOST_ENTRIES * FURTHEST, numbers)
    seen = known.first[first], *known.drawn[numbers]
    return replace(found, lengths=known, seen=seen[1:] if least and written(found) == count - 1 else seen,          # all first tiles may hold nothing
                   firsts=of_first(launch, known))


def of_first(launch: Plan, known: Lengths) -> Sample | None:
    """A sample of first tiles alone, of several lengths, the longest among them: where few tiles follow, these decide. None where more do, or CTAs share an SM."""
    held = np.unique(known.first[known.first > known.nothing])
    if not 0 < held.max(initial=0.0) <= MOST_FIRST or resident(*launch.geometry.per_cta) > 1 or len(known.drawn) > FEW_ROUNDS * len(known.first):
        return None
    lengths = np.unique(np.concatenate([held[-LONGEST:], np.quantile(held, FIRSTS, method="nearest")]))
    order = np.random.default_rng(1).permutation(len(known.first))
    some = [int(cta) for length in lengths for cta in order[known.first[order] == length][:2]]
    found = run(launch, some, MOST_ENTRIES * FURTHEST, draws=())
    return replace(found, lengths=replace(known, drawn=known.drawn[:0]), seen=tuple(known.first[some])) if found.whole else None


def of_held(launch: Plan, known: Lengths) -> Sample:
    """A sample of tiles that hold something, where the shortest ones are known to hold nothing."""
    return of_lengths(launch, replace(known, empty=EMPTY * float(known.all.min()), most=math.inf), EMPTY)


def other_first(launch: Plan, known: Lengths, cta: int) -> int:
    """A CTA whose first tile is about as long as that of this one, and of which more warpgroups have rows; this one, if there is none near by."""
    nearest = np.argsort(np.abs(known.first - known.first[cta]), kind="stable")
    same = nearest[known.first[nearest] == known.first[cta]]
    some = [cta, int(same[-1]), int(same[len(same) // 2]), *nearest[len(same):len(same) + 2].tolist()]
    return int(max(some, key=lambda one: writers(run(launch, (one,), draws=()))))


def writers(sample: Sample) -> int:
    """Warpgroups that write: a warp without rows may stand in one that has some, which takes as long."""
    return len({warp // 4 for warp in sample.trace.tiles})


def written(sample: Sample) -> int:
    """Tiles that a warp has written before the last one."""
    return max(sample.trace.tiles.values(), default=0)


def length(sample: Sample, cluster: int) -> int:
    """Entries that the trace of a sampled cluster has."""
    warps = sample.machine.warps * sample.cluster
    return sum(map(len, sample.trace.warps[cluster * warps:(cluster + 1) * warps]))


def resident(threads: int, registers: int, shared: int) -> int:
    """CTAs that an SM holds at once. As limits.occupancy, but for registers, of which nine warps take those of nine: two CTAs of gemm/producer_warp.cu
    (288 threads, 90 registers) share an SM at three stages (variants.json: WAIT_FOR_OWN_LOAD takes 0.261 ms there and 0.462 ms at four)."""
    parts = limits.shares(threads, registers, shared)
    warps = parts["threads"][0]
    return max(1, min(parts["threads"][1] // warps, parts["blocks"][1], parts["registers"][1] // warps, parts["shared memory"][1] // parts["shared memory"][0]))
