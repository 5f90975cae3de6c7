# SPDX-License-Identifier: Apache-2.0
"""The state of one launch: resident CTAs, their threads and memory, and what handlers of instructions need to ask.

Which threads run next is scheduler.py's; what an instruction does is ops/'s; when operations land is in_flight.py's.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import MemoryFault
from ..ptx import places
from .cluster_barrier import ClusterBarrier
from .cohort import Cohort, Frame, take
from .events import Events
from .fence_counts import FenceCounts
from .in_flight import Landing
from .mbarriers import Barriers
from .meetings import Meetings
from .named_barriers import NamedBarriers
from .register_pool import RegisterPool
from .scheduler import Scheduler
from .special import read as read_special
from .units import Units

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..isa.value import Value


class Machine:
    """One launch. Built by launch.py; `scheduler.run()` executes it to the end. `tell` says what happens (events.py); `runs` counts the warps
    that ran each block. listen(machine): who listens; `findings` is a place for what they find, at which the machine never looks. `grid`: its place
    among other launches (emulator/grids.py), or None."""

    def __init__(self, translation, layout, geometry, params: bytes, memory, session, kernel_info, listen, grid=None):
        self.translation, self.layout, self.geometry = translation, layout, geometry
        self.blocks = translation.blocks
        self.body = translation.function.body
        self.params, self.memory, self.session, self.info = params, memory, session, kernel_info
        self.grid = grid
        self.warps, self.T, self.slots = geometry.warps, geometry.warps * 32, geometry.slots
        self.cluster = geometry.cluster_ctas
        self.altered = session.altered
        self.rng = np.random.default_rng(session.seed)
        self.step = 0
        self.ticks = 0
        self.seen = 0              # a hash of what polling loops have loaded (recurrence.py)
        self.progress = 0
        self.printed = 0           # characters that printf wrote
        self.next_cta = self.ended = 0
        self.alive = np.zeros(self.slots * self.warps, np.int64)
        self.slot_cta = np.full(self.slots, -1, np.int64)
        self.slot_threads = np.zeros(self.slots, np.int64)
        self.uncleaned = np.zeros(self.slots, bool)
        self.symbols = layout.symbols
        self._init_shared()
        self.runs = [0] * len(self.blocks)
        self.landing = Landing(self)
        self.scheduler = Scheduler(self)
        self.wgmma_groups = -(-self.warps // 4)
        self.wgmma_commits = np.zeros(self.slots * self.warps, np.int64)
        self.wgmma_done = np.zeros(self.slots * self.warps, np.int64)
        self.wgmma_issued = np.zeros(self.slots * self.warps, np.int64)     # instructions, by warp
        self.meetings = Meetings(self)
        self.local = self.workspace = None
        self.barriers = Barriers(self)
        self.named = NamedBarriers(self)
        self.cluster_barrier = ClusterBarrier(self)
        self.registers = RegisterPool(self)
        self.fences = FenceCounts(self.slots, self.warps)
        self.findings = None
        self.sure: Callable[[Cohort, np.ndarray], np.ndarray] | None = None      # set by who listens: lanes that know of the end of their barrier's latest phase
        self.tell = Events(listen(self))

    def _init_shared(self) -> None:
        self.shared_limit = self.layout.shared_bytes
        self.stride = -(-self.shared_limit // 1024) * 1024 if self.layout.uses_shared else 0
        self.smem = np.zeros(self.slots * self.stride, np.uint8)
        self.smem_views = {1: self.smem, **{w: self.smem.view(f"u{w}") for w in (2, 4, 8)}}
        self.smem16 = self.smem.view(np.uint64).reshape(-1, 2)
        self.smem_wide = self.smem_views[16] = self.smem.view(np.complex128)       # 16-byte granules, moved but never computed with

    # --- threads and their names ------------------------------------------------------------------------------------
    def slot_of(self, C: Cohort) -> np.ndarray:
        """Slot of every lane."""
        return C.cached("slot", lambda: C.gids // self.T)

    def shared_base(self, C: Cohort) -> np.ndarray:
        """First byte of every lane's shared memory in `smem`."""
        return C.cached("sbase", lambda: (C.gids // self.T) * self.stride)

    def units(self, C: Cohort) -> Units:
        """The cohort's warps (recomputed when threads have exited)."""
        known = C._cache.get("units")
        if known is None or known[0] is not self.alive:
            known = C._cache["units"] = (self.alive, Units(C, self.alive))
        return known[1]

    def whole(self, C: Cohort) -> bool:
        """True when no living lane of any of its warps is missing."""
        return C.whole(self.alive)

    def special(self, C: Cohort, name: str) -> Value:
        """Value of a special register: a scalar when it is the same for all, else one a lane."""
        return read_special(self, C, name)

    def block_index(self, gid: int) -> tuple[int, int, int]:
        """blockIdx of a thread."""
        return self.geometry.block_index(int(self.slot_cta[gid // self.T]))

    # --- admission --------------------------------------------------------------------------------------------------
    def admit(self, most: int | None = None) -> bool:
        """Start as many waiting CTAs as there are free slots (at most `most`); True when any started."""
        size, left = self.cluster, self.geometry.ctas - self.next_cta
        if left <= 0:
            return False
        idle = (self.slot_cta.reshape(-1, size) < 0).all(axis=1)
        domains = np.flatnonzero(idle)[:(left if most is None else min(left, most)) // size]
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
        self.tell.admitted(domains, used)
        gids = (free[:, None] * self.T + np.arange(threads)).reshape(-1)
        counts = np.full(self.warps, 32)
        counts[-1] = threads - 32 * (self.warps - 1)
        self.alive = self.alive.copy()
        self.alive.reshape(self.slots, self.warps)[free] = counts
        self.scheduler.enqueue(Cohort(gids.astype(np.int64), Frame(len(self.translation.slots), len(gids)), 0))
        return True

    def _clean(self, slots: np.ndarray) -> None:
        if self.stride:
            self.smem.reshape(self.slots, self.stride)[slots] = 0
        self.barriers.reset_slots(slots)
        for table in (self.wgmma_commits, self.wgmma_done, self.wgmma_issued):
            table.reshape(self.slots, self.warps)[slots] = 0
        for groups in (self.landing.cp_groups, self.landing.bulk_groups):
            groups.reset(self.slots, slots)
        self.meetings.reset_slots(slots)
        self.named.reset_slots(slots)
        self.registers.reset_slots(slots)
        self.fences.reset_slots(slots)
        self.cluster_barrier.reset(np.unique(slots // self.cluster))

    # --- exit -------------------------------------------------------------------------------------------------------
    def exit(self, C: Cohort) -> None:
        """Threads end; CTAs all of whose threads ended give their slot back."""
        self.progress += 1
        warps, counts = C.warp_counts()
        self.alive = self.alive.copy()
        self.alive[warps] -= counts
        slots = np.unique(warps // self.warps)
        np.subtract.at(self.slot_threads, warps // self.warps, counts)
        if self.named.in_use:
            self.named.threads_left(slots)
        if self.cluster_barrier.in_use:
            self.cluster_barrier.threads_left(C)
        self.scheduler.threads_left()
        ended = slots[self.slot_threads[slots] == 0]
        if len(ended):
            self.tell.ctas_end(ended)
            self.landing.cta_ends(ended)
            self.slot_cta[ended] = -1
            self.ended += len(ended)

    def dissolve(self) -> None:
        """The launch is over and nobody asks any more: its parts point at each other, and without this their memory would wait for the garbage collector."""
        vars(self).clear()

    # --- helpers of handlers ----------------------------------------------------------------------------------------
    def guarded(self, C: Cohort, fn: Callable[..., Any], info: Any, guard: Value, old: tuple, args: tuple) -> Any:
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
        C.unsynced = True
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

    def settled(self, C: Cohort, value: Value, index: int) -> Value:
        """A register that may hold an accumulator in flight, as an array (register-in-flight if it is not done)."""
        return value.settle(self, C, index) if hasattr(value, "settle") else value

    def watch(self, value: Value) -> None:
        """A polling loop depends on this loaded value."""
        self.seen = hash((self.seen, value.tobytes()))

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
        """wait_group returned: land what is due."""
        units = self.units(C)
        gw, number = units.gw, done[units.starts]
        self.wgmma_done[gw] = np.maximum(self.wgmma_done[gw], number)
        for acc in list(self.landing.accumulators):
            if acc.pending:
                acc.land_until(self.wgmma_done)
            if not acc.pending:
                self.landing.accumulators.discard(acc)
        self.tell.products_waited(C, number)

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
            self.tell.peer_gone(int(C.gids[int(np.flatnonzero(gone)[0])]), int(rank[gone][0]), index)
        self.tell.remote_touched(C, target, slot, index)
        return target

    def lanes(self, C: Cohort, value: Value) -> np.ndarray:
        """A register value as one element a lane."""
        return value if value.ndim else np.full(C.n, value)

    def fault(self, C: Cohort, index: int, lane: int, text: str, kind: str, address: int) -> MemoryFault:
        """A memory fault at a lane, with block, thread and line."""
        gid = int(C.gids[lane])
        instr = self.body[index]
        where = places.place(instr)
        return MemoryFault(f"{kind}: {places.name(instr)} at {where}, block {self.block_index(gid)}, thread {gid % self.T}: "
                           f"{text}", kind, address, instr.site, index, self.block_index(gid), gid % self.T, text)
