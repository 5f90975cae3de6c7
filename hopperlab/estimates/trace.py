# SPDX-License-Identifier: Apache-2.0
"""What each warp did in a launch, in order: blocks of instructions, and what they started, arrived at and waited for.

A listener of the emulator; it is there only while something is estimated, so that other launches do no work for it. `Recorder.warps` holds a list of
plain tuples a warp: (kind, instruction index, …), of which the kinds are below. Barriers and CTAs are numbered as the machine numbers them.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..emulator.machine.events import Listener
from ..emulator.machine.waits import MbarrierWait, NamedWait, WgmmaWait
from ..emulator.observe.work import costs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ..emulator.compile.translated import Block
    from ..emulator.machine.cohort import Cohort
    from ..emulator.machine.waits import Wait

Step = tuple[Any, ...]

BLOCK = 0            # (BLOCK, -1, number): runs a basic block
WAIT = 1             # (WAIT, index, barrier, phases): until so many phases of an mbarrier are complete
ARRIVE = 2           # (ARRIVE, index, barrier, arrivals, bytes): on an mbarrier; bytes that it announces
LOAD = 3             # (LOAD, index, bytes read, ((barrier, bytes, slot), …), bytes more of the L2's time, bulk): a bulk or tensor load, to one CTA or several
STORE = 4            # (STORE, index, bytes): a bulk or tensor store or reduction
COMMIT = 5           # (COMMIT, index, bulk): a group of copies is closed
GROUPS = 6           # (GROUPS, index, bulk, pending, read only): until all but `pending` groups are done
CP_ASYNC = 7         # (CP_ASYNC, index, bytes): cp.async by lanes
CP_ARRIVE = 8        # (CP_ARRIVE, index, barrier, lanes): arrives when the copies so far are there
NAMED = 9            # (NAMED, index, key, lanes, threads): arrives at a named barrier that wants `threads`
NAMED_WAIT = 10      # (NAMED_WAIT, index, key, generations)
CLUSTER = 11         # (CLUSTER, index, domain, lanes, release): arrives at a cluster barrier; release: what it wrote is seen by who waits
CLUSTER_WAIT = 12    # (CLUSTER_WAIT, index, domain)
WGMMA = 13           # (WGMMA, index)
PRODUCTS = 14        # (PRODUCTS, index, pending): wgmma.wait_group
MOST_ENTRIES = 30_000  # blocks that warps of a sample run, at least, before the rest is taken to go on as it went,
NO_TILES = 2           # times as many of kernels without wgmma, where it is not known which tiles were done,
FURTHEST = 24          # and at most
TILES = 2              # tiles of each warp that writes, before a sample is cut
LONG = 6               # times as many blocks, after which one fewer is enough of tiles that are shared along k
MOST_ALONE = 1_000_000  # work (emulator/observe/work.py) of a sample that neither uses wgmma nor has written anything, before it is cut if it may be there,
FURTHER = 3             # and at least so many times as much for its CTAs in all, that it may
MARK = 16            # (MARK,): half of what an actor does (programs.py)
DRAW = 17            # (DRAW, index): the number of its next tile, from a counter
REMOTE = 15          # (REMOTE, index, bytes, barrier or -1): to another CTA's shared memory


DONE = 1 << 30         # a number beyond all tiles
LINE, SECTOR = 128, 32   # bytes of a line of the L2, and of a sector
ROW, CUT = 81, 256       # bytes that a row of a box takes of the L2's time, at least, and one that begins inside a sector takes more (boards.py: l2_row, l2_cut)


def more(first: NDArray[Any], nbytes: int) -> int:
    """Bytes that rows of so many bytes take of the L2's time beside their own: short ones, and those that begin inside a sector. first: addresses of the rows."""
    return len(first) * max(0, ROW - nbytes) + CUT * int((first % SECTOR != 0).sum()) if nbytes > 0 else 0


def branch_numbers(machine: Any) -> dict[int, int]:
    """Blocks that end with a branch, with its number among the branches of the program."""
    ends = [block for block, (_, end) in enumerate(machine.translation.spans) if machine.body[end - 1].op == "bra"]
    return {block: number for number, block in enumerate(ends)}


def weights(machine: Any) -> NDArray[Any]:
    """Work (emulator/observe/work.py) from one branch of a program to the next."""
    found: NDArray[Any] = np.diff(np.cumsum(costs(machine.translation))[list(branch_numbers(machine))], prepend=0)
    return found


def polled(translation: Any) -> frozenset[int]:
    """Blocks of loops that go on until somebody else has changed what they look at."""
    ops, graph, found = translation.ops, translation.spans, set[int]()
    for loop in translation.loops:
        instrs = [i for block in loop.blocks for i in translation.function.body[slice(*graph[block])]]
        decides = {reg.name for i in instrs if i.op in BRANCHES for reg in i.srcs()}
        grown = -1
        while len(decides) != grown:
            grown = len(decides)
            decides.update(reg.name for i in instrs if i.index not in ops and any(r.name in decides for r in i.dsts()) for reg in i.srcs())
        if any(i.index in ops and ops[i.index].poll and any(r.name in decides for r in i.dsts()) for i in instrs):
            found |= loop.blocks
    return frozenset(found)


class Parted:
    """A warp whose lanes stand at different places. runs: how often each lane has run a block since, by block; since: the entries that it had then; behind: and those
    that it had when lanes began with what others have not run, which are ahead of them (-1: none have)."""

    __slots__ = ("runs", "since", "behind")

    def __init__(self, since: int):
        self.runs: dict[int, list[int]] = {}
        self.since, self.behind = since, -1

    def runs_first(self, block: int, lanes: list[int], entries: list[Step]) -> bool:
        """Lanes run a block: whether no other has run it as often. If one has, they have come to where others were before them, and what they did until then
        goes there."""
        runs = self.runs.setdefault(block, [0] * 32)
        often = max(runs[lane] for lane in lanes) + 1
        first = often > max(runs)
        if not first and self.behind >= 0:
            met = [k for k in range(self.since, self.behind) if entries[k] == (BLOCK, -1, block)]
            if len(met) >= often:
                place, late = met[often - 1], entries[self.behind:]
                del entries[self.behind:]
                entries[place:place] = late
            self.behind = -1
        elif first and self.behind < 0 and any(max(each) > max(each[lane] for lane in lanes) for each in self.runs.values()):
            self.behind = len(entries)
        for lane in lanes:
            runs[lane] = often
        return first


BRANCHES = frozenset("bra brx ret exit".split())


class Enough(Exception):
    """The sample is as long as it need be; the rest goes on as it went."""


class Recorder(Listener):
    """Writes down one launch. `warps`: a list a warp; `counts`: arrivals that each mbarrier wants; `boxes`: bytes of global memory that loads touched, by array,
    with the array's size; scale: CTAs for which a sampled one stands, where it draws from a counter; draws: what it is to draw instead; enough: tiles
    of each warp that writes, before a sample is cut; where it is more than TILES, of one: others may write sums for other CTAs alone; early: how often
    the warps of a CTA come to each branch in all, where it may be cut before anything was written. turned: how often those of the sample have."""

    def __init__(self, machine: Any, scale: int = 1, most: int = MOST_ENTRIES, draws: Sequence[int] | None = None, enough: int = TILES,
                 early: NDArray[Any] | None = None):
        self.M, self.scale, self.most, self.enough = machine, scale, most, enough
        self.draws, self.counter = None if draws is None else list(draws), -1
        self.runs, self.multiplies = 0, False
        self.early = early is not None and float(early @ weights(machine)) * machine.slots > FURTHER * MOST_ALONE
        self.branching = branch_numbers(machine)
        self.turned = [0] * len(self.branching)
        self.costs, self.worked = costs(machine.translation), 0
        self.maps: dict[int, Any] = {}               # that tensor loads have
        self.polled = polled(machine.translation)
        self.polls: dict[int, set[int]] = {}
        self.parted: dict[int, Parted] = {}          # warps whose lanes stand at different places
        self.stores: set[int] = set()                # warps that have written since their last product
        self.tiles: dict[int, int] = {}              # of warps that write: tiles written
        self.warps: list[list[Step]] = [[] for _ in range(machine.slots * machine.warps)]
        self.counts: dict[int, int] = {}
        self.index = -1
        self.used: Any = None
        self.read: dict[int, list[float]] = {}       # allocation address -> [bytes loaded, bytes of the array]
        self.written: dict[int, list[float]] = {}
        self.undo: list[tuple[Any, ...]] = []
        self.counters: set[tuple[int, int]] = set()  # places that a CTA adds to and gets what was there
        self.in_step = False                         # whether CTAs look at such a one again: they wait for each other

    def _each(self, C: Cohort, entry: Step) -> None:
        for warp in self.M.units(C).gw.tolist():
            self.warps[warp].append(entry)

    # --- blocks and waits -------------------------------------------------------------------------------------------
    def running(self, C: Cohort, block: Block) -> None:
        """A block. Raises Enough when there are as many as are wanted."""
        entry, warps = (BLOCK, -1, block.id), self.M.units(C).gw.tolist()
        if not self.M.whole(C) or not self.parted.keys().isdisjoint(warps):
            warps = self._fresh(C, warps, block.id)
        if block.id in self.polled:
            warps = self._once(warps, block.id)
        for warp in warps:
            self.warps[warp].append(entry)
        self.runs += len(warps)
        if block.id in self.branching:
            self.turned[self.branching[block.id]] += len(warps)
        self.worked += len(warps) * self.costs[block.id]
        if self.early and self.worked > MOST_ALONE and not (self.multiplies or self.tiles):
            raise Enough
        seen = (max if self.enough > TILES else min)(self.tiles.values(), default=0)
        enough = self.enough - (self.enough > TILES and self.runs > LONG * self.most)
        if self.runs > self.most and (self.runs > FURTHEST * self.most or (seen >= enough if self.multiplies else self.runs > NO_TILES * self.most)):
            raise Enough

    def _fresh(self, C: Cohort, warps: list[int], block: int) -> list[int]:
        """Warps of which no other lanes have run this block as often since they parted: on the chip they run it together. What lanes did that come later stands
        before it."""
        units, fresh = self.M.units(C), []
        lanes = (C.gids & 31).tolist()
        counts = [32] * len(warps) if units.counts is None else units.counts.tolist()
        for warp, start, count in zip(warps, units.starts.tolist(), counts):
            if count == 32:
                self.parted.pop(warp, None)
                fresh.append(warp)
            elif self.parted.setdefault(warp, Parted(len(self.warps[warp]))).runs_first(block, lanes[start:start + count], self.warps[warp]):
                fresh.append(warp)
        return fresh

    def _once(self, warps: list[int], block: int) -> list[int]:
        """Warps that run a block of a polling loop for the first time since they came to the loop."""
        fresh = []
        for warp in warps:
            last = self.warps[warp][-1] if self.warps[warp] else None
            seen = self.polls.setdefault(warp, set())
            if last is None or last[0] != BLOCK or last[2] not in self.polled:
                seen.clear()
            if block not in seen:
                seen.add(block)
                fresh.append(warp)
        return fresh

    def passed(self, C: Cohort, wait: Wait, index: int) -> None:
        """A blocking instruction lets warps go on."""
        kind, units = type(wait), self.M.units(C)
        if kind is MbarrierWait:
            keys = wait.keys[units.starts]
            phases = self.M.barriers.phase[keys]
            for warp, key, phase in zip(units.gw.tolist(), keys.tolist(), phases.tolist()):
                self.warps[warp].append((WAIT, index, key, phase))
        elif kind is WgmmaWait:
            pending = self.M.translation.ops[index].info
            self._each(C, (PRODUCTS, index, pending))
        elif isinstance(wait, NamedWait):
            for warp, key, generation in zip(units.gw.tolist(), wait.keys[units.starts].tolist(), np.broadcast_to(wait.extra, C.n)[units.starts].tolist()):
                self.warps[warp].append((NAMED_WAIT, index, key, generation + 1))

    def groups_waited(self, C: Cohort, bulk: bool, pending: int, read_only: bool) -> None:
        """wait_group of copies."""
        self._each(C, (GROUPS, -1, bulk, pending, read_only))

    def cluster_left(self, C: Cohort, domain: NDArray[Any], acquire: bool) -> None:
        """barrier.cluster.wait."""
        units = self.M.units(C)
        for warp, place in zip(units.gw.tolist(), np.broadcast_to(domain, C.n)[units.starts].tolist()):
            self.warps[warp].append((CLUSTER_WAIT, -1, place))

    # --- arrivals ---------------------------------------------------------------------------------------------------
    def mbarrier_born(self, C: Cohort, ids: NDArray[Any], flat: NDArray[Any], live: NDArray[Any], count: NDArray[Any], index: int) -> None:
        """mbarrier.init."""
        self.counts.update(zip(ids.tolist(), np.broadcast_to(count, ids.shape).tolist()))

    def mbarriers_grew(self, old: int, new: int) -> None:
        """Numbers of barriers change: slot * capacity + number."""
        self.counts = {b // old * new + b % old: n for b, n in self.counts.items()}
        moved = {WAIT: 2, ARRIVE: 2, CP_ARRIVE: 2}
        for k, entries in enumerate(self.warps):
            self.warps[k] = [e if e[0] not in moved else (*e[:2], e[2] // old * new + e[2] % old, *e[3:]) for e in entries]

    def mbarrier_used(self, C: Cohort, ids: NDArray[Any], index: int) -> None:
        """Whose barriers are named."""
        self.used = C

    def arrived(self, C: Cohort, ids: NDArray[Any], count: NDArray[Any], expect: NDArray[Any] | None, info: Any) -> None:
        """mbarrier.arrive."""
        warps, expected = C.gids >> 5, np.zeros(C.n, np.int64) if expect is None else np.broadcast_to(expect, C.n)
        counts = np.broadcast_to(count, C.n)
        if C.n == 1:
            self.warps[int(warps[0])].append((ARRIVE, info.index, int(ids[0]), int(counts[0]), int(expected[0])))
            return
        keys, first, where = np.unique(warps << 32 | ids, return_index=True, return_inverse=True)
        total, announced = np.bincount(where, counts), np.bincount(where, expected)
        for k, lane in enumerate(first.tolist()):
            self.warps[int(warps[lane])].append((ARRIVE, info.index, int(ids[lane]), int(total[k]), int(announced[k])))

    def announced(self, ids: NDArray[Any], nbytes: NDArray[Any], index: int) -> None:
        """expect_tx without an arrival."""
        if "arrive" not in self.M.body[index].mods and "arrive_drop" not in self.M.body[index].mods:
            for gid, barrier, count in zip(self.used.gids.tolist(), ids.tolist(), np.broadcast_to(nbytes, ids.shape).tolist()):
                self.warps[gid >> 5].append((ARRIVE, index, barrier, 0, count))

    def named_arrived(self, C: Cohort, keys: NDArray[Any], threads: NDArray[Any], info: Any) -> None:
        """bar.sync, bar.arrive."""
        units = self.M.units(C)
        counts = [32] * len(units.gw) if units.counts is None else units.counts.tolist()
        keys, threads = np.broadcast_to(keys, C.n), np.broadcast_to(threads, C.n)
        for warp, start, lanes in zip(units.gw.tolist(), units.starts.tolist(), counts):
            self.warps[warp].append((NAMED, info.index, int(keys[start]), lanes, int(threads[start])))

    def cluster_arrived(self, C: Cohort, domain: NDArray[Any], release: bool) -> None:
        """barrier.cluster.arrive."""
        units = self.M.units(C)
        counts = [32] * len(units.gw) if units.counts is None else units.counts.tolist()
        for warp, place, lanes in zip(units.gw.tolist(), np.broadcast_to(domain, C.n)[units.starts].tolist(), counts):
            self.warps[warp].append((CLUSTER, -1, place, lanes, release))

    # --- copies and products ----------------------------------------------------------------------------------------
    def _touch(self, table: dict[int, list[float]], address: int, nbytes: float) -> None:
        allocation = self.M.memory.find(address)
        if allocation is not None:
            table.setdefault(allocation.address, [0.0, float(allocation.nbytes)])[0] += nbytes

    def box_read(self, gid: int, fields: Any, rows: Any, index: int, barriers: list[int]) -> None:
        """A tensor load."""
        self.maps[id(fields)] = fields
        width = max(0, rows.last - rows.first) * fields.elem_bytes
        nbytes = len(rows.address) * width
        self._touch(self.read, int(rows.address[0]), nbytes)
        self.warps[gid >> 5].append((LOAD, index, nbytes, [], more(np.asarray(rows.address) + rows.first * fields.elem_bytes, width), False))

    def span_read(self, gid: int, allocation: Any, first: int, nbytes: int, index: int, barriers: list[int]) -> None:
        """A bulk load."""
        self._touch(self.read, allocation.address, nbytes)
        self.warps[gid >> 5].append((LOAD, index, nbytes, [], more(np.array([allocation.address + first]), nbytes), True))

    def load_issued(self, gid: int, barrier: int, spans: list[Any], nbytes: int, index: int, slot: int, tile: Any) -> None:
        """Where it goes."""
        self.warps[gid >> 5][-1][3].append((barrier, nbytes, slot))

    def store_issued(self, gid: int, spans: list[Any], nbytes: int, index: int, reduction: bool, tile: Any) -> None:
        """A bulk or tensor store."""
        self.warps[gid >> 5].append((STORE, index, nbytes))
        self._writes(gid >> 5)

    def _writes(self, warp: int) -> None:
        self.stores.add(warp)
        self.tiles.setdefault(warp, 0)

    def box_written(self, gid: int, fields: Any, rows: Any, index: int, reduction: bool) -> None:
        """Where a tensor store goes."""
        self._touch(self.written, int(rows.address[0]), len(rows.address) * max(0, rows.last - rows.first) * fields.elem_bytes)

    def span_written(self, gid: int, allocation: Any, first: int, nbytes: int, index: int, reduction: bool) -> None:
        """Where a bulk store goes."""
        self._touch(self.written, allocation.address, nbytes)

    def committed(self, C: Cohort, bulk: bool) -> None:
        """commit_group of copies."""
        self._each(C, (COMMIT, -1, bulk))

    def cp_async(self, C: Cohort, live: Cohort, address: NDArray[Any], parts: list[Any], flat: NDArray[Any], size: int, index: int) -> None:
        """cp.async."""
        units = self.M.units(C)
        counts = [32] * len(units.gw) if units.counts is None else units.counts.tolist()
        for warp, lanes in zip(units.gw.tolist(), counts):
            self.warps[warp].append((CP_ASYNC, index, lanes * size))
        for allocation, _lanes, offsets in parts:
            self._touch(self.read, allocation.address, len(offsets) * size)

    def arrival_issued(self, op: Any) -> None:
        """cp.async.mbarrier.arrive."""
        warps, lanes = np.unique(op.gids >> 5, return_counts=True)
        for warp, count in zip(warps.tolist(), lanes.tolist()):
            self.warps[warp].append((CP_ARRIVE, op.index, op.barrier, count))

    def remote_issued(self, gid: int, barrier: int, first: int, nbytes: int, index: int, reduction: bool) -> None:
        """To another CTA."""
        self.warps[gid >> 5].append((REMOTE, index, nbytes, barrier))

    def wgmma_issued(self, C: Cohort, issue: Any) -> None:
        """wgmma.mma_async."""
        self.multiplies = True
        for warp in self.M.units(C).gw.tolist():
            self.warps[warp].append((WGMMA, issue.info.index))
            if warp in self.stores:
                self.stores.discard(warp)
                self.tiles[warp] += 1

    # --- ordinary memory --------------------------------------------------------------------------------------------
    def global_read(self, C: Cohort, address: NDArray[Any], parts: list[Any], info: Any) -> None:
        """ld.global."""
        for allocation, _lanes, offsets in parts:
            self._touch(self.read, allocation.address, np.size(offsets) * info.nbytes)
            if self.counters and not self.in_step:
                self.in_step = any((allocation.address, offset) in self.counters for offset in np.ravel(offsets).tolist())

    def global_written(self, C: Cohort, address: NDArray[Any], parts: list[Any], info: Any, value: Any) -> None:
        """st.global: what was there is kept, so that an estimate changes nothing."""
        for allocation, _lanes, offsets in parts:
            self._touch(self.written, allocation.address, np.size(offsets) * info.nbytes)
            self.keep(allocation, offsets, info.nbytes)
        for warp in self.M.units(C).gw.tolist():
            self._writes(warp)

    def global_atomic(self, C: Cohort, parts: list[Any], info: Any) -> None:
        """atom.global: a CTA that draws from a counter stands for all that are not sampled."""
        value = getattr(self.M.body[info.index].operands[-1], "value", None)
        for allocation, _lanes, offsets in parts:
            self.keep(allocation, offsets, info.nbytes)
            if info.op == "add" and info.returns:
                self.counters.update((allocation.address, offset) for offset in np.ravel(offsets).tolist())
            if self.scale <= 1 or info.op != "add" or not info.returns or not isinstance(value, int) or info.nbytes != 4:
                continue
            if self.draws is not None and self.counter in (-1, info.index):
                self.counter = info.index
                self._each(C, (DRAW, info.index))
                allocation.view(4)[np.asarray(offsets) >> 2] = self.draws.pop(0) if self.draws else DONE
            else:
                allocation.view(4)[np.asarray(offsets) >> 2] += np.uint32(value * (self.scale - 1) & 0xFFFFFFFF)

    def keep(self, allocation: Any, offsets: Any, nbytes: int) -> None:
        """What stands there now comes back with `restore`."""
        places = np.atleast_1d(np.asarray(offsets)).astype(np.int64)[:, None] + np.arange(nbytes)
        self.undo.append((allocation, places, allocation.view(1)[places]))

    def restore(self) -> None:
        """Global memory as it was."""
        for allocation, places, old in reversed(self.undo):
            allocation.view(1)[places] = old
        self.undo = []
