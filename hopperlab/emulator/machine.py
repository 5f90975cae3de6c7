"""The state of one launch and its scheduler: which threads run, which wait, which asynchronous operations are in flight.

Threads that stand at the same block run together (cohort.py); among runnable cohorts the one at the lowest block goes
first, so that laggards catch up and merge. A cohort whose instruction must wait is parked with a Wait (waits.py). When
nothing can run, the schedule decides which operations land; when nothing is in flight either, that is a deadlock.
"""
from __future__ import annotations

import heapq

import numpy as np

from . import deadlock, reports
from .clocks import Clocks, Units
from .cohort import ZERO, Cohort, Frame, merge, take
from .errors import MemoryFault
from .landing import Landing
from .shadow import SharedShadow
from .translate import EXIT
from .waits import ConvergeWait, SpuriousFalse

MAX_BACK_EDGES = 20000                # a cohort that loops this long gives way to the others


class Machine:
    """One launch. Built by launch.py; `run()` executes it to the end."""

    def __init__(self, translation, layout, geometry, params: bytes, memory, session, kernel_info):
        self.translation, self.layout, self.geometry = translation, layout, geometry
        self.blocks = translation.blocks
        self.body = translation.function.body
        self.params, self.memory, self.session, self.info = params, memory, session, kernel_info
        self.warps, self.T, self.slots = geometry.warps, geometry.warps * 32, geometry.slots
        self.cluster = geometry.cluster_ctas
        self.rng = np.random.default_rng(session.seed)
        self.step = 0
        self.ticks = 0
        self.rounds = 0
        self.progress = 0
        self.ready: dict[int, list[Cohort]] = {}
        self.heap: list[int] = []
        self.parked: list[tuple[Cohort, object]] = []
        self.polling: list[Cohort] = []
        self.later: list[Cohort] = []
        self.polled_at = self.spurious_at = -1
        self.converging: dict[int, list[Cohort]] = {}
        self.next_cta = 0
        self.alive = np.zeros(self.slots * self.warps, np.int64)
        self.slot_cta = np.full(self.slots, -1, np.int64)
        self.slot_threads = np.zeros(self.slots, np.int64)
        self.uncleaned = np.zeros(self.slots, bool)
        self.symbols = layout.symbols
        self._init_shared()
        uses = layout.features
        self.clocks = Clocks(self.slots // self.cluster, self.cluster, self.warps, "cp.async" in uses, "bulk_group" in uses)
        self.shadow = SharedShadow(self, self.clocks, self.slots, self.stride) if session.check and self.stride else None
        self.landing = Landing(self)
        self.wgmma_groups = -(-self.warps // 4)
        self.wgmma_commits = np.zeros(self.slots * self.warps, np.int64)
        self.wgmma_done = np.zeros(self.slots * self.warps, np.int64)
        self.local = None
        self.special_cache: dict[str, object] = {}
        self.reported: set = set()
        self.hazards: list = []
        from .barriers import Barriers
        from .cluster import ClusterBarrier
        from .named import NamedBarriers
        self.barriers = Barriers(self)
        self.named = NamedBarriers(self)
        self.cluster_barrier = ClusterBarrier(self)

    def _init_shared(self) -> None:
        self.shared_limit = self.layout.shared_bytes
        self.stride = -(-self.shared_limit // 1024) * 1024 if self.layout.uses_shared else 0
        self.smem = np.zeros(self.slots * self.stride, np.uint8)
        self.smem_views = {1: self.smem, **{w: self.smem.view(f"u{w}") for w in (2, 4, 8)}}
        self.smem16 = self.smem.view(np.uint64).reshape(-1, 2)
        self.smem_wide = self.smem.view(np.complex128)       # 16-byte granules, moved but never computed with

    # --- threads and their names ------------------------------------------------------------------------------------
    def slot_of(self, C: Cohort) -> np.ndarray:
        """Slot of every lane."""
        return C.cached("slot", lambda: C.gids // self.T)

    def shared_base(self, C: Cohort) -> np.ndarray:
        """First byte of every lane's shared memory in `smem`."""
        return C.cached("sbase", lambda: (C.gids // self.T) * self.stride)

    def units(self, C: Cohort) -> Units:
        """The cohort's warps for clocks (recomputed when threads have exited)."""
        known = C._cache.get("units")
        if known is None or known[0] is not self.alive:
            known = C._cache["units"] = (self.alive, Units(C, self.alive))
        return known[1]

    def whole(self, C: Cohort) -> bool:
        """True when no living lane of any of its warps is missing."""
        return C.whole(self.alive)

    def special(self, C: Cohort, name: str):
        """Value of a special register: a scalar when it is the same for all, else one a lane."""
        from .special import read
        return read(self, C, name)

    def block_index(self, gid: int) -> tuple[int, int, int]:
        """blockIdx of a thread."""
        return self.geometry.block_index(int(self.slot_cta[gid // self.T]))

    # --- admission --------------------------------------------------------------------------------------------------
    def admit(self) -> bool:
        """Start as many waiting CTAs as there are free slots; True when any started."""
        size, left = self.cluster, self.geometry.ctas - self.next_cta
        if left <= 0:
            return False
        idle = (self.slot_cta.reshape(-1, size) < 0).all(axis=1)
        domains = np.flatnonzero(idle)[:left // size]
        if not len(domains):
            return False
        free = (domains[:, None] * size + np.arange(size)).reshape(-1)
        self.slot_cta[free] = self.geometry.cta_order[self.next_cta:self.next_cta + len(free)]
        self.next_cta += len(free)
        threads = self.geometry.threads
        self.slot_threads[free] = threads
        used = free[self.uncleaned[free]]
        if len(used):
            self._clean(used)
        self.uncleaned[free] = True
        gids = (free[:, None] * self.T + np.arange(threads)).reshape(-1)
        counts = np.full(self.warps, 32)
        counts[-1] = threads - 32 * (self.warps - 1)
        self.alive = self.alive.copy()
        self.alive.reshape(self.slots, self.warps)[free] = counts
        self.enqueue(Cohort(gids.astype(np.int64), Frame(len(self.translation.slots), len(gids)), 0))
        return True

    def _clean(self, slots: np.ndarray) -> None:
        self.clocks.reset_domains(np.unique(slots // self.cluster))
        if self.shadow is not None:
            self.shadow.reset_slots(slots)
        if self.stride:
            self.smem.reshape(self.slots, self.stride)[slots] = 0
        self.barriers.reset_slots(slots)
        for table in (self.wgmma_commits, self.wgmma_done):
            table.reshape(self.slots, self.warps)[slots] = 0
        for table in (self.landing.cp_commits, self.landing.bulk_commits):
            table.reshape(self.slots, self.T)[slots] = 0
        self.named.reset_slots(slots)
        self.cluster_barrier.reset(np.unique(slots // self.cluster))

    # --- queues -----------------------------------------------------------------------------------------------------
    def enqueue(self, C: Cohort) -> None:
        """Make a cohort runnable."""
        waiting = self.ready.get(C.pc)
        if waiting is None:
            self.ready[C.pc] = [C]
            heapq.heappush(self.heap, C.pc)
        else:
            waiting.append(C)

    def pick(self) -> Cohort:
        """The runnable cohort at the lowest block, merged with all others there."""
        pc = heapq.heappop(self.heap)
        cohorts = self.ready.pop(pc)
        if len(cohorts) == 1:
            return cohorts[0]
        fresh = [c for c in cohorts if c.resume is None]
        for c in cohorts:
            if c.resume is not None:
                self.enqueue(c)
        if not fresh:
            waiting = self.ready[pc]
            first = waiting.pop()
            if not waiting:
                del self.ready[pc]
                self.heap.remove(pc)
                heapq.heapify(self.heap)
            return first
        return merge(fresh, self.blocks[pc].live_in)

    def park(self, C: Cohort, wait) -> None:
        """Set a cohort aside until its wait may be over."""
        C.resume = None if wait.retries else wait
        self.parked.append((C, wait))

    def wake(self) -> bool:
        """Make runnable every parked cohort of which some lane may now go on."""
        woken, still = False, []
        for C, wait in self.parked:
            if wait.may_pass(self):
                self.enqueue(C)
                woken = True
            else:
                still.append((C, wait))
        self.parked = still
        return woken

    # --- the loop ---------------------------------------------------------------------------------------------------
    def run(self) -> None:
        """Execute the launch to its end, or to a deadlock."""
        self.admit()
        with np.errstate(all="ignore"):
            while True:
                if not self.heap:
                    if not self.unblock():
                        break
                    continue
                self.execute(self.pick())
                if self.barriers.flipped or self.named.flipped or self.cluster_barrier.flipped:
                    self.barriers.flipped = self.named.flipped = self.cluster_barrier.flipped = False
                    self.wake()

    def unblock(self) -> bool:
        """Nothing can run: admit CTAs, poll again, let operations land, release partial warps; False at the end."""
        if self.later:
            self.rounds += 1
            for C in self.later:
                self.enqueue(C)
            self.later = []
            return True
        self.step += 1
        if self.admit():
            return True
        if self.polling and self.polled_at != self.progress:
            self._poll_again()
            return True
        if self.landing.advance():
            self.progress += 1
            self.wake()
            if self.heap or self.polling or self.landing.pending():
                return True
        if self.wake():
            return True
        if self._release_partial():
            return True
        if self.polling:
            self._stuck()
        if self._spurious():
            return True
        if self.parked:
            self._stuck()
        return False

    def _poll_again(self) -> None:
        self.polled_at = self.progress
        for C in self.polling:
            self.enqueue(C)
        self.polling = []

    def _release_partial(self) -> bool:
        """Lanes that waited for the rest of their warp at a masked collective go on without it."""
        released = False
        for pc in list(self.converging):
            if not self.blocks[pc].masked:
                continue
            for C in self.converging.pop(pc):
                C.resume = SpuriousFalse()
                self.enqueue(C)
                released = True
        return released

    def _spurious(self) -> bool:
        """try_wait may return false after a time limit: give its waiters that answer once while nothing changes."""
        if self.spurious_at == self.progress:
            return False
        self.spurious_at, self.polled_at = self.progress, -1
        waiting = [(C, wait) for C, wait in self.parked if wait.can_time_out]
        self.parked = [(C, wait) for C, wait in self.parked if not wait.can_time_out]
        for C, _ in waiting:
            C.resume = SpuriousFalse()
            self.enqueue(C)
        return bool(waiting)

    def _stuck(self) -> None:
        stuck = self.parked + [(C, ConvergeWait()) for cs in self.converging.values() for C in cs]
        stuck += [(C, None) for C in self.polling]
        deadlock.report(self, stuck)
        self.parked, self.polling, self.converging = [], [], {}

    def execute(self, C: Cohort) -> None:
        """Run a cohort until it parks, exits, or another cohort should go first."""
        blocks, ready, heap = self.blocks, self.ready, self.heap
        while True:
            block = blocks[C.pc]
            if block.releases and heap and C.gave_way != self.rounds and self._others_wait(C):
                C.gave_way = self.rounds + 1
                self.later.append(C)
                return
            C = self.enter(C, block)
            if C is None:
                return
            frame = C.frame
            R = frame.R
            for slot in block.uses:
                if R[slot] is None:
                    frame.need(block.uses)
                    break
            following = block.fn(self, C, R)
            if frame.base is not None:
                frame.dirty |= block.defs
            if following.__class__ is not int:
                C = self.branch(C, following)
                if C is None:
                    return
                following = C.pc
            if following == EXIT:
                self.exit(C)
                return
            if following <= block.id:
                C.backs += 1
                if C.polled or C.backs % MAX_BACK_EDGES == 0:
                    C.pc, C.polled = following, False
                    self.polling.append(C)
                    return
                if heap and self._others_wait(C):
                    C.pc = following
                    self.later.append(C)
                    return
            C.pc = following
            if heap and (heap[0] <= following or following in ready):
                self.enqueue(C)
                return

    def _others_wait(self, C: Cohort) -> bool:
        """True when warps that are not in this cohort could run. Loops give way to them once an iteration, and so does a
        block that arrives at a barrier, so that no role runs far ahead before the others have started."""
        mine = C.warp_counts()[0]
        return any(not np.isin(c.warp_counts()[0], mine, assume_unique=True).any() for cs in self.ready.values() for c in cs)

    def branch(self, C: Cohort, outcome) -> Cohort | None:
        """Follow a conditional branch; a divergent cohort splits and both halves queue."""
        taken, yes, no = outcome
        if not taken.ndim:
            C.pc = yes if taken else no
            return C
        hits = int(np.count_nonzero(taken))
        if hits == C.n or hits == 0:
            C.pc = yes if hits else no
            return C
        live = self._live
        first, second = C.split(taken, yes, no, live(yes), live(no))
        for child in (first, second):
            if child.pc == EXIT:
                self.exit(child)
            else:
                if child.pc <= C.pc and child.polled:
                    child.polled = False
                    self.polling.append(child)
                else:
                    self.enqueue(child)
        return None

    def _live(self, pc: int):
        return self.blocks[pc].live_in if pc >= 0 else ()

    # --- block entry ------------------------------------------------------------------------------------------------
    def enter(self, C: Cohort, block) -> Cohort | None:
        """Convergence and gates at a block's head; the cohort that may run it, or None."""
        if block.collective and type(C.resume) is not SpuriousFalse and (
                block.id in self.converging or not C.whole(self.alive)):
            C = self.converge(C, block)
            if C is None:
                return None
        if block.gate is not None:
            return self.pass_gate(C, block)
        C.resume = None
        return C

    def converge(self, C: Cohort, block) -> Cohort | None:
        """Wait at a collective until the warps are whole; whole warps go on."""
        if C.resume is None:
            waiting = self.converging.pop(block.id, None)
            if waiting:
                C = merge([C, *waiting], block.live_in)
        if C.whole(self.alive):
            return C
        short = C.incomplete_lanes(self.alive)
        if short.all():
            self.converging.setdefault(block.id, []).append(C)
            return None
        rest, go = C.split(short, block.id, block.id, block.live_in, block.live_in)
        self.converging.setdefault(block.id, []).append(rest)
        return go

    def pass_gate(self, C: Cohort, block) -> Cohort | None:
        """Evaluate a blocking instruction; lanes that must wait are parked."""
        wait = C.resume
        C.resume = None
        if type(wait) is SpuriousFalse:
            if block.gate_dsts and block.gate_dsts[0] is not None:
                self._set(C, block.gate_dsts[0][0], np.bool_(False))
                C.polled = True
                return C
            wait = None
        if wait is None:
            if block.gate_guard is not None:
                C = self._guarded_gate(C, block)
                if C is None:
                    return None
                if C.resume == "skip":
                    C.resume = None
                    return C
            values = [self._gate_value(C, s) for s in block.gate_srcs]
            wait = block.gate.fn(self, C, block.gate.info, *values)
            if wait is None:
                return C
        mask = wait.mask(self)
        if mask.all():
            passed = C
        elif not mask.any():
            self.park(C, wait)
            return None
        else:
            passed, failed = C.split(mask, C.pc, C.pc, block.live_in, block.live_in)
            self.park(failed, wait.subset(np.flatnonzero(~mask)))
            wait = wait.subset(np.flatnonzero(mask))
        wait.passed(self, passed)
        if block.gate_dsts and block.gate_dsts[0] is not None:
            self._set(passed, block.gate_dsts[0][0], np.bool_(True))
        return passed

    def _guarded_gate(self, C: Cohort, block) -> Cohort | None:
        """Lanes whose guard is false pass a blocking instruction by."""
        slot, negated = block.gate_guard
        guard = C.frame.get(slot)
        guard = np.broadcast_to(~guard if negated else guard, C.n)
        if guard.all():
            return C
        if not guard.any():
            C.resume = "skip"
            return C
        held, free = C.split(guard, C.pc, C.pc, block.live_in, block.live_in)
        free.resume = "skip"
        self.enqueue(free)
        return held

    def _set(self, C: Cohort, slot: int, value) -> None:
        C.frame.R[slot] = value
        if C.frame.base is not None:
            C.frame.dirty.add(slot)

    def _gate_value(self, C: Cohort, source):
        kind, key, offset = source
        if kind == "reg":
            value = C.frame.get(key)
            value = ZERO if value is None else value
            return value + value.dtype.type(offset & 0xFFFFFFFF) if offset else value
        if kind == "sym":
            return self.symbols[key] + np.uint64(offset)
        return key

    # --- exit -------------------------------------------------------------------------------------------------------
    def exit(self, C: Cohort) -> None:
        """Threads end; CTAs all of whose threads ended give their slot back."""
        self.progress += 1
        warps, counts = C.warp_counts()
        self.alive = self.alive.copy()
        self.alive[warps] -= counts
        slots = np.unique(warps // self.warps)
        np.subtract.at(self.slot_threads, C.gids // self.T, 1)
        if self.named.in_use:
            self.named.threads_left(slots)
        self.cluster_barrier.threads_left(np.unique(slots // self.cluster))
        for pc in list(self.converging):
            for waiting in self.converging.pop(pc):
                self.enqueue(waiting)
        ended = slots[self.slot_threads[slots] == 0]
        if len(ended):
            self.cluster_barrier.cta_ends(ended)
            self.landing.cta_ends(ended)
            self.slot_cta[ended] = -1

    # --- helpers of handlers ----------------------------------------------------------------------------------------
    def guarded(self, C: Cohort, fn, info, guard, old: tuple, args: tuple):
        """Run a handler for the lanes whose guard holds; the others keep their old values."""
        guard = np.broadcast_to(guard, C.n) if not getattr(guard, "ndim", 0) else guard
        hits = int(np.count_nonzero(guard))
        if hits == C.n:
            return fn(self, C, info, *args)
        if hits == 0:
            return old[0] if len(old) == 1 else (old or None)
        index = np.flatnonzero(guard)
        sub = Cohort(C.gids[index], None, C.pc)
        out = fn(self, sub, info, *(take(a, index) for a in args))
        if not old:
            return None
        results = out if len(old) > 1 else (out,)
        merged = tuple(self._blend(o, r, index, C.n) for o, r in zip(old, results))
        return merged if len(old) > 1 else merged[0]

    @staticmethod
    def _blend(old, new, index, n):
        if old is None:
            return new
        out = np.empty(n, new.dtype)
        out[:] = old if old.dtype == new.dtype else old.view(new.dtype)
        out[index] = new
        return out

    def settled(self, C: Cohort, value, index: int):
        """A register that may hold an accumulator in flight, as an array (register-in-flight if it is not done)."""
        return value.settle(self, C, index) if hasattr(value, "settle") else value

    def synced(self, C: Cohort) -> None:
        """A converged collective orders memory inside its warps."""
        if C.unsynced:
            C.unsynced = False
            self.clocks.warp_sync(C, self.units(C))

    def clock(self) -> int:
        """Virtual time for clock64 and globaltimer: it only ever grows."""
        self.ticks += 1
        return self.step * 1000 + self.ticks

    def wgmma_started(self, warps: np.ndarray) -> np.ndarray:
        """Groups that all four warps of a warp's warpgroup have committed, by global warp id of the lanes."""
        slot, group = warps // self.warps, warps % self.warps // 4
        table = self.wgmma_commits.reshape(self.slots, self.warps)
        full = -(-self.warps // 4) * 4 - self.warps
        if full:
            table = np.pad(table, ((0, 0), (0, full)), constant_values=np.iinfo(np.int64).max)
        return table.reshape(self.slots, -1, 4).min(axis=2)[slot, group]

    def finish_wgmma(self, C: Cohort, warps: np.ndarray, done: np.ndarray) -> None:
        """wait_group returned: land what is due and learn that its reads are over."""
        units = self.units(C)
        gw, number = units.gw, done[units.starts]
        self.wgmma_done[gw] = np.maximum(self.wgmma_done[gw], number)
        for acc in list(self.landing.accumulators):
            if acc.pending:
                acc.land_until(self.wgmma_done)
            if not acc.pending:
                self.landing.accumulators.discard(acc)
        groups = gw // self.warps * self.wgmma_groups + gw % self.warps // 4
        vec = self.clocks.wgmma[groups]
        column = self.clocks.wgmma0 + groups % (self.wgmma_groups * self.cluster)
        at = np.arange(len(gw))
        vec[at, 0, column] = np.maximum(vec[at, 0, column], number)
        self.clocks.learn(C, units, vec)
        self.synced(C)

    def register_in_flight(self, C: Cohort, acc, index: int) -> None:
        """An accumulator is used before wait_group."""
        reports.register_in_flight(self, index, int(C.gids[0]))

    def count_shared(self, C: Cohort, flat: np.ndarray, nbytes: int, write: bool) -> None:
        """Count bytes that plain accesses move to or from shared memory."""
        self.session.count("shared_store_bytes" if write else "shared_load_bytes", nbytes * len(flat))

    def rank_of(self, C: Cohort) -> np.ndarray:
        """Rank of every lane's CTA in its cluster."""
        return C.cached("rank", lambda: self.slot_of(C) % self.cluster)

    def target_slot(self, C: Cohort, address: np.ndarray, cluster: bool, index: int) -> np.ndarray:
        """Slot that per-lane shared addresses point into. Bits 24 and up of an address are a rank in the cluster; without
        them a shared::cta address means the own CTA, a shared::cluster address rank 0 (measured on an H200)."""
        slot = self.slot_of(C)
        if self.cluster == 1 and not (int(address.max()) >> 24) & 0xFF:
            return slot
        rank = (address.astype(np.int64) >> 24) & 0xFF
        own = self.rank_of(C)
        if not cluster:
            rank = np.where(rank == 0, own, rank)
            if (rank != own).any():
                lane = int(np.flatnonzero(rank != own)[0])
                raise self.fault(C, index, lane, f"shared address {int(address[lane]) & 0xFFFFFFFF:#x} belongs to rank {int(rank[lane])} of "
                                 f"the cluster, but this instruction reaches only its own CTA (rank {int(own[lane])}): use the "
                                 "shared::cluster form", "out-of-bounds", int(address[lane]))
            return slot
        if (rank >= self.cluster).any():
            lane = int(np.argmax(rank))
            raise self.fault(C, index, lane, f"rank {int(rank[lane])} in a cluster of {self.cluster} CTAs", "cluster-lifetime",
                             int(address[lane]))
        target = slot - own + rank
        gone = self.slot_threads[target] == 0
        if gone.any():
            reports.exited_peer(self, index, int(C.gids[int(np.flatnonzero(gone)[0])]), int(rank[gone][0]))
        self.cluster_barrier.note_remote(C, target, slot, index)
        return target

    def lanes(self, C: Cohort, value) -> np.ndarray:
        """A register value as one element a lane."""
        return value if value.ndim else np.full(C.n, value)

    def fault(self, C: Cohort, index: int, lane: int, text: str, kind: str, address: int) -> MemoryFault:
        """A memory fault at a lane, with block, thread and line."""
        gid = int(C.gids[lane])
        instr = self.body[index]
        where = reports.place(instr)
        return MemoryFault(f"{kind}: {reports.name(instr)} at {where}, block {self.block_index(gid)}, thread {gid % self.T}: "
                           f"{text}", kind, address, instr.site)

    def report_pair(self, verb: str, site: int, other_verb: str, other: int, column: int, gid: int, flat: int) -> None:
        """Two accesses without an order (shadow.py)."""
        reports.unordered(self, verb, site, other_verb, other, column, gid, flat)

    def report_early(self, site: int, other: int, gid: int, flat: int) -> None:
        """Bytes were read before anything was written there (shadow.py)."""
        reports.read_too_early(self, site, other, gid, flat)

    def report_fence(self, site: int, other: int, gid: int, flat: int) -> None:
        """Ordered, but not made visible to the async proxy (shadow.py)."""
        reports.missing_fence(self, site, other, gid, flat)
