# SPDX-License-Identifier: Apache-2.0
"""What lanes load from global memory themselves, in kernels without `wgmma`: which sectors the L1 has already, how long a load takes, and what memory brings for it.

A sector that a CTA has asked for is in the L1 until as much as the L1 holds was asked for since, by it and those that share its SM. How many cycles the L1 takes for a
warp's load: its words, as shared memory would serve them, and the lines that it looks up, four a cycle (benchmarks/lanes.py).
"""
from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..emulator.observe.counting import Counting
from ..hopper import limits
from . import boards

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from ..emulator.launch import Plan
    from ..emulator.machine.cohort import Cohort

SECTOR, LINE, L1 = 32, 128, 256 << 10
ONE_FLOAT, ONE_WORD, ONE_SUM = 2.7, 1.4, 0.5      # cycles of the L2 for an atomic of a float, of an integer, and for a warp's sum of one word (benchmarks/lanes.py,
                             # global atomics: one)
ENGINES = frozenset(("cp", "mbarrier"))
FLOATS = frozenset("f16 f16x2 bf16 bf16x2 f32 f64".split())
FEW = 64                     # lines that atomics go to at the same time, up to which others may wait for one
LINES = 4                    # that the L1 looks up a cycle (benchmarks/lanes.py, hits)
CLOSE = 512                  # bytes in one piece, from which on memory brings them as fast as it can
SCATTERED = 72               # bytes of memory's time that a shorter piece takes beside its own (benchmarks/lanes.py, sectors)
PAST_L1 = frozenset("cg cv cs volatile relaxed acquire".split())
BESIDE = 36                  # and one beside which others ask for more of the row, as where tiles are turned over (fitted on two)
SMALL = 64                   # bytes of pieces that are asked for by chance
WORD = 1 << 48               # above an address
L2_HELD = 45e6               # bytes that the L2 holds of an array of which it is asked for pieces from all over
WHOLE = 0.9                  # of the bytes of sectors, from which on they are stored to as a whole
SLOT = 1 << 44               # above the number of a sector


class LaneCounting(Counting):
    """Counts of a launch, and which sectors each CTA asks for, in order."""

    def __init__(self, machine: Any) -> None:
        super().__init__(machine)  # type: ignore[no-untyped-call]
        self.asked: list[tuple[int, int, NDArray[Any]]] = []           # instruction, array, sectors of CTAs
        self.raw: dict[int, float] = defaultdict(float)                # bytes, by array
        self.put: tuple[int, NDArray[Any]] = (-1, np.zeros(0, np.int64))        # the latest store, and the sectors of warps that it and those just before it went to
        self.hot: dict[int, float] = defaultdict(float)                # cycles of the L2 for atomics in a line, by CTA * WORD + line

    def global_read(self, C: Cohort, address: NDArray[Any], parts: list[Any], info: Any) -> None:
        """ld.global."""
        super().global_read(C, address, parts, info)
        if "const" in self.M.body[info.index].mods:                    # operands of what uses them
            return
        at = np.broadcast_to(np.asarray(address).view(np.int64), C.n)
        if len(address) == 1:
            wavefronts = lines = C.count_warps()
        else:
            wavefronts, _ = self._total(C, "load", info.nbytes, at, LINE, info.index)
            lines = len(np.unique((C.gids >> 5) * SLOT + (at >> 7)))
        self._access("lane", info.index, (("wavefronts", max(wavefronts, lines / LINES)),))
        slot = C.gids // (32 * self.M.warps)
        for allocation, lanes, offsets in parts:
            self.raw[allocation.address] += float(np.size(offsets) * info.nbytes if len(address) > 1 else C.n * info.nbytes)
            mine = slice(None) if len(address) == 1 or len(parts) == 1 else lanes
            self.asked.append((info.index, allocation.address, np.unique(slot[mine] * SLOT + (at[mine] >> 5))))


    def global_written(self, C: Cohort, address: NDArray[Any], parts: list[Any], info: Any, value: Any) -> None:
        """st.global: sectors that the store before it has begun go to the L2 with that."""
        super().global_written(C, address, parts, info, value)
        at = np.broadcast_to(np.asarray(address).view(np.int64), C.n)
        keys = np.unique((C.gids >> 5) * SLOT + (at >> 5))
        latest, before = self.put
        fresh = np.setdiff1d(keys, before, assume_unique=True) if latest != info.index else keys
        self.put = info.index, keys if len(fresh) == len(keys) else np.union1d(keys, before)
        self._access("lane_put", info.index, (("sectors", len(fresh)),))

    def global_atomic(self, C: Cohort, parts: list[Any], info: Any) -> None:
        """atom.global or red.global: the L2 does a word's one after the other; sums of integers that nobody asks for a warp adds up itself."""
        super().global_atomic(C, parts, info)
        instr = self.M.body[info.index]
        floats = not FLOATS.isdisjoint(instr.mods)
        added = not floats and "cas" not in instr.mods and not (info.returns and self.M.translation.wants_result(info.index))
        for allocation, lanes, offsets in parts:
            at = np.broadcast_to(allocation.address + np.atleast_1d(np.asarray(offsets)), (C.n,) if np.size(offsets) == 1 else np.shape(offsets)).astype(np.int64)
            warps = (C.gids if len(at) == C.n else C.gids[lanes]) >> 5
            self._access("lane_atomic", info.index, (("sectors", len(np.unique(warps * SLOT + (at >> 5)))),))
            self._hot(warps * WORD + at, floats, added)

    def _hot(self, keys: NDArray[Any], floats: bool, added: bool) -> None:
        """Atomics of warps' lanes, as warp * WORD + address: of a sector the L2 takes as many turns as lanes want the same word. added: a warp may add them up itself."""
        words, counts = np.unique(keys, return_counts=True)
        firsts = np.flatnonzero(np.diff(words >> 5, prepend=-1))
        turns = np.maximum.reduceat(counts, firsts)
        if added:                                                      # all lanes of a warp want one word
            turns = np.where((turns == 32) & (np.diff(np.append(firsts, len(words))) == 1), ONE_SUM / ONE_WORD, turns)
        slots, at = words[firsts] // WORD // self.M.warps, words[firsts] % WORD >> 7
        lines, of = np.unique(slots * WORD + at, return_inverse=True)
        if len(lines) <= FEW * (int(slots.max()) + 1):
            for line, cycles in zip(lines.tolist(), np.bincount(of.ravel(), turns).tolist(), strict=True):
                self.hot[line] += cycles * (ONE_FLOAT if floats else ONE_WORD)

    def hottest(self, more: float) -> float:
        """Cycles of the L2 for the line that takes longest. more: CTAs for each of the sampled ones, of lines that several of these want; others are one CTA's own."""
        lines, of = np.unique(np.array(list(self.hot), np.int64) % WORD, return_inverse=True)
        cycles, ctas = np.bincount(of.ravel(), list(self.hot.values()), len(lines)), np.bincount(of.ravel(), minlength=len(lines))
        return float(np.where(ctas > 1, cycles * more, cycles).max(initial=0.0))


@dataclass
class Lanes:
    """hot: cycles that the L2 takes for all atomics in one line; missed: sectors that come from the L2, by instruction; loaded: the same in bytes, by array; raw: bytes
    that lanes ask for, by array; run: bytes in one piece of what comes, by array; again: share of it that the L2 has given up since it was asked for; far: of these,
    what comes from memory, by instruction; alone: whether nothing but lanes moves data: then units serve warps one after the other, else those that wait for copies
    meet each other less (sm_units.py)."""

    missed: dict[int, float] = field(default_factory=dict)
    loaded: dict[int, float] = field(default_factory=dict)
    raw: dict[int, float] = field(default_factory=dict)
    run: dict[int, float] = field(default_factory=dict)
    again: dict[int, float] = field(default_factory=dict)
    far: dict[int, float] = field(default_factory=dict)
    hot: float = 0.0
    alone: bool = True

    def brought(self, array: int, nbytes: float, size: float, l2: float) -> float:
        """Bytes that memory brings, of so many of an array of `size`: of pieces from all over some come twice, and are in the L2 as far as that holds the array."""
        again = self.again.get(array, 0.0) * nbytes
        if self.run.get(array, CLOSE) >= SMALL or not nbytes:
            return min(nbytes - again, size) + again
        different = size * -float(np.expm1(-nbytes / size))
        return different + (nbytes - different) * max(0.0, 1 - l2 / size)

    def by_array(self, read: Mapping[int, Sequence[float]], factor: float) -> dict[int, tuple[float, float]]:
        """What all CTAs load, by array, without what the L1 has, and as long as memory takes for what differs. read: bytes that the sampled ones ask for, and of
        each array; factor: CTAs for each of these."""
        found = {}
        for address, (n, size) in read.items():
            loaded = factor * (max(0.0, n - self.raw.get(address, 0.0)) + self.loaded.get(address, 0.0))
            found[address] = loaded, self.brought(address, loaded, size, L2_HELD) * self.takes(address)
        return found

    def takes(self, array: int) -> float:
        """Times as long that memory takes for an array's bytes than for those in one piece."""
        run = self.run.get(array, CLOSE)
        return 1.0 if run >= CLOSE else 1 + (SCATTERED if run < SMALL else BESIDE) / run


def analysed(counting: LaneCounting, ctas: int, resident: int, shared: int, more: float, sizes: dict[int, float], stored: float = 1.0) -> Lanes:
    """What was asked for. ctas: sampled ones; shared: bytes of shared memory that a CTA has; more: CTAs of the launch for each of the sampled ones; sizes: of
    arrays; stored: bytes that are loaded and stored for each that is loaded."""
    found = Lanes(raw=dict(counting.raw), hot=counting.hottest(more), alone={i.op for i in counting.M.body}.isdisjoint(ENGINES))
    if not counting.asked:
        return found
    body = counting.M.body
    counts = [len(keys) for _, _, keys in counting.asked]
    keys = np.concatenate([keys for _, _, keys in counting.asked])
    index, array = (np.repeat([entry[k] for entry in counting.asked], counts) for k in (0, 1))
    place = np.repeat(np.cumsum([0, *counts[:-1]]), counts)
    order = np.argsort(keys, kind="stable")
    holds = max(16 << 10, L1 - resident * (shared + limits.SHARED_RESERVED)) / resident
    between, same = np.diff(place[order]) * SECTOR / ctas, np.diff(keys[order]) == 0
    near = (between <= holds) & same
    keeps, forgets = (boards.board(boards.FIRST).number(name) for name in ("l2_keeps", "l2_forgets"))
    lost = np.zeros(len(keys))                           # share that the L2 has given up since
    lost[order[1:]] = same * np.clip((between * resident * limits.SMS * stored - keeps) / (forgets - keeps), 0, 1)
    hit = np.zeros(len(keys), bool)
    hit[order[1:]] = near
    past = [i for i in {entry[0] for entry in counting.asked} if PAST_L1.intersection(body[i].mods)]
    hit &= ~np.isin(index, past)
    for name in np.unique(array).tolist():
        mine = (array == name) & ~hit
        brought = np.unique(keys[mine])
        found.loaded[name] = float(mine.sum()) * SECTOR
        found.again[name] = float(lost[mine].sum()) / max(1.0, float(mine.sum()))
        found.run[name] = SECTOR * len(brought) / max(1, 1 + int((np.diff(brought) > 1).sum()))
    for one in np.unique(index).tolist():
        mine = (index == one) & ~hit
        found.missed[one] = float(mine.sum())
        fresh = [min(1.0, sizes.get(name, 0.0) / max(1.0, found.loaded[name] * more)) * float((array[mine] == name).sum()) for name in np.unique(array[mine]).tolist()]
        found.far[one] = sum(fresh) / max(1.0, float(mine.sum()))
    return found


def lanes_load(launch: Plan) -> bool:
    """Whether a kernel is one in which it matters what lanes load themselves: those that multiply by wgmma wait for copies."""
    return all(instr.op != "wgmma" for instr in launch.body)


def stored_whole(counts: Collection[Mapping[str, float]]) -> bool:
    """Whether nearly all sectors are stored to as a whole, by one store or by several right after each other. counts: by instruction."""
    nbytes, sectors = (sum(each.get(name, 0) for each in counts) for name in ("global_store_bytes", "lane_put_sectors"))
    return nbytes >= WHOLE * SECTOR * sectors
