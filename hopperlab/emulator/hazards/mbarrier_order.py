# SPDX-License-Identifier: Apache-2.0
"""mbarriers and the order of accesses: what arrivals publish, what a completed phase stands for, and what waiters learn from it.

checks_mbarrier.py asks whether barriers are used by their rules; here is also which copies they stand for.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.cohort import Cohort
from ..machine.events import Listener
from ..machine.waits import MbarrierWait
from . import findings_barriers
from .checks_mbarrier import BarrierChecks
from .mbarrier_passes import rows_of
from .clocks import V, X
from .parts import parts

if TYPE_CHECKING:
    from ..machine.units import Units
    from ..machine.waits import Wait
    from .clocks import Clocks
    from .findings import Watched
    from .relaxed_barriers import RelaxedBarriers
    from .shared_order import SharedOrder


@dataclass
class Copy:
    """The newest copy that signals a barrier: the phase it completes, its thread, instruction, and the CTA's slot it writes to."""

    phase: int
    gid: int
    index: int
    slot: int


class MbarrierOrder(Listener):
    """copies: barrier -> its newest Copy; waited: newest phase that some thread has seen complete; from_afar: barriers that other CTAs have
    arrived on; known: asynchronous arrivals in flight -> what they make known; unread: (barrier, warp) -> (instruction, thread) of waits at whose
    result nobody looked; ended: by thread, the cp.async group that its latest one ended."""

    def __init__(self, machine: Watched, clocks: Clocks, shared: SharedOrder, relaxed: RelaxedBarriers) -> None:
        self.M, self.clocks, self.shared, self.relaxed = machine, clocks, shared, relaxed
        size = machine.slots * clocks.bars
        self.checks = BarrierChecks(machine, clocks, shared, size)
        self.waited = np.zeros(size, np.int64)
        self.copies: dict[int, Copy] = {}
        self.from_afar: set[int] = set()
        self.known: dict[int, np.ndarray] = {}
        clocks.lanes.holders.append(lambda: (known[X] for known in self.known.values()))
        self.ended = np.zeros(machine.slots * machine.T, np.int32)
        self.unread: dict[tuple[int, int], tuple[int, int]] = {}

    def mbarriers_grew(self, old: int, new: int) -> None:
        """Tables for `new` barriers per CTA."""
        self.clocks.grow_barriers()
        wide = np.zeros((self.M.slots, new), np.int64)
        wide[:, :old] = self.waited.reshape(-1, old)
        self.waited = wide.reshape(-1)
        self.checks.grow(self.M.slots, old, new)

    # --- life -------------------------------------------------------------------------------------------------------
    def mbarrier_born(self, C: Cohort, ids: np.ndarray, flat: np.ndarray, live: np.ndarray, count: np.ndarray, index: int) -> None:
        """mbarrier.init: what was waited for in an earlier life is done with."""
        self.checks.initialised(C, ids, flat, live, count, index)
        for barrier in ids.tolist():
            last = self.copies.get(barrier)
            if last is not None and self.waited[barrier] >= last.phase:
                del self.copies[barrier]
        self.waited[ids] = 0
        self.clocks.barrier_now[ids] = self.clocks.barrier_done[ids] = 0

    def mbarrier_gone(self, C: Cohort, ids: np.ndarray, flat: np.ndarray, index: int) -> None:
        """mbarrier.inval."""
        self.checks.invalidated(C, ids, index)
        for gid, barrier in zip(C.gids.tolist(), ids.tolist(), strict=True):
            last = self.copies.get(barrier)
            if last is not None and not self.clocks.ordered(self.clocks.K, self.clocks.row_of[[gid]], self.clocks.barrier_column(barrier), 0,
                                                                         last.phase + int(self.M.barriers.lived[barrier])).all():
                findings_barriers.inval_in_use(self.M, index, last.index, gid, barrier)
        self.shared.barrier_gone(C.gids, flat, index)

    def mbarrier_used(self, C: Cohort, ids: np.ndarray, index: int) -> None:
        """The init must be visible."""
        self.checks.used(C.gids, ids, index)

    def mbarrier_missing(self, gid: int, slot: int, offset: int, index: int) -> None:
        """No barrier there."""
        findings_barriers.no_barrier(self.M, index, gid, slot, offset)

    # --- arrivals ---------------------------------------------------------------------------------------------------
    def arrived(self, C: Cohort, ids: np.ndarray, count: np.ndarray, expect: np.ndarray | None, info: Any) -> None:
        """A release, unless it is .relaxed and no fence stands before it, by the warps of the cohort.
        Where none is pending, it is no part of the running phase (too_many_arrivals)."""
        clocks, fits = self.clocks, self.M.barriers.pending[ids] > 0
        if not fits.all():
            if not fits.any():
                return
            C, ids, count = Cohort(C.gids[fits], None, C.pc), ids[fits], count[fits]  # type: ignore[arg-type]  # reads no registers
        self.checks.passes.dropped.arrived(C.gids, ids, info)
        C, units, mine = parts(self.M, C, ids)
        vec = clocks.publish(C, units)
        told = vec if info.release else self.relaxed.told(C, units, vec, info.wide)
        if clocks.scoped:
            told = self._of_scope(mine, units, told, info.wide)
        clocks.join_at(clocks.barrier_now, mine, told)
        self.checks.contribute(C, mine, units, vec, count, info.index)

    def _of_scope(self, ids: np.ndarray, units: Units, vec: np.ndarray, wide: bool) -> np.ndarray:
        """What arrivals on barriers of other CTAs publish in the scope of the cluster: nothing, when they are of CTA scope."""
        away = ids // self.M.barriers.capacity != units.gw // self.M.warps
        self.from_afar.update(ids[away].tolist())
        if not wide and away.any():
            vec = vec.copy()
            vec[away, self.clocks.W] = 0
        return vec

    def too_many_arrivals(self, gids: np.ndarray, barrier: int, together: int, index: int) -> None:
        """More than the phase has pending."""
        self.checks.passes.too_many(gids, barrier, together, index)

    def no_complete_completes(self, gid: int, barrier: int, index: int) -> None:
        """Undefined behaviour."""
        findings_barriers.completes(self.M, index, gid, barrier)

    # --- copies -----------------------------------------------------------------------------------------------------
    def copy_issued(self, barrier: int, phase: int, gid: int, nbytes: int, index: int, slot: int) -> None:
        """A copy of `nbytes` that completes `phase` of a barrier is on its way."""
        self.copies[barrier] = Copy(phase, gid, index, slot)
        self.checks.copied(barrier, gid, nbytes, index)

    def sent(self, barrier: int, gid: int) -> None:
        """A copy into another CTA begins where it is issued, and its complete-tx is a release of the cluster's scope (PTX ISA 9.7.9.25.4.1):
        who has seen it complete knows what its thread knew then."""
        lane = Cohort(np.array([gid]), None, 0)  # type: ignore[arg-type]  # reads no registers
        self.clocks.join_at(self.clocks.barrier_now, np.array([barrier]), self.clocks.publish(lane, self.M.units(lane)))

    def cp_closed(self, C: Cohort) -> None:
        """cp.async.mbarrier.arrive ends the running groups of its threads."""
        self.ended[C.gids] = self.clocks.cp.close(C.gids)

    def arrival_issued(self, op: Any) -> None:
        """An asynchronous arrival: it will make known that these threads' copies have landed, and nothing else of them."""
        clocks, gids = self.clocks, op.gids
        known = self.known[id(op)] = np.zeros((clocks.planes, clocks.columns), np.int32)
        number = self.ended[gids]
        for warp in np.unique(gids >> 5):
            here = (gids >> 5 == warp) & (number > 0)
            column = clocks.cp0 + int(warp) % clocks.warps
            if here.sum() == clocks.width[warp % clocks.cta_warps]:
                known[V, column] = number[here].min()
            else:
                times = np.zeros((1, 32), np.int32)
                times[0, gids[here] & 31] = number[here]
                known[X, column] = clocks.lanes.codes(times)[0]
        self.checks.arrival_issued(op.barrier, gids, op.index)

    def too_many_landed(self, op: Any, pending: int) -> None:
        """The lanes of one asynchronous arrival are more than are missing."""
        self.checks.passes.too_many_landed(op.barrier, int(op.gids[0]), pending, len(op.gids) - pending, op.index)

    def landed(self, op: Any, pick: Any) -> None:
        """An asynchronous arrival arrives."""
        known = self.known.pop(id(op), None)
        if known is not None:
            clocks = self.clocks
            known = np.pad(known, [(0, 0), (0, clocks.columns - known.shape[-1])])        # barriers may have been added meanwhile
            clocks.barrier_now[op.barrier] = clocks.join(clocks.barrier_now[op.barrier], known)

    def announced(self, ids: np.ndarray, nbytes: np.ndarray, index: int) -> None:
        """expect_tx."""
        self.checks.announced(ids, nbytes, index)

    def bytes_unannounced(self, barrier: int, nbytes: int) -> None:
        """Bytes of the newest copy that no expect_tx announced."""
        last = self.copies.get(barrier)
        if last is not None:
            findings_barriers.unannounced(self.M, barrier, nbytes, last.gid, last.index, int(self.checks.expect_site[barrier]) or None)

    # --- phases -----------------------------------------------------------------------------------------------------
    def phases_completed(self, ids: np.ndarray, index: int | None, gid: int) -> None:
        """What was published in the phase is what its waiters will learn; the phase also stands for its copies."""
        for op in self.M.landing.in_flight(ids):
            self.bytes_unannounced(op.barrier, op.nbytes)
        self.checks.completed(ids, index, self.copies)
        clocks, age, at = self.clocks, self.M.barriers.age(ids), rows_of(ids)
        now = clocks.barrier_now[at]
        for plane in (V, clocks.R) if clocks.relaxed else (V,):
            now[np.arange(len(ids)), plane, clocks.barrier_column(ids)] = age
        clocks.barrier_done[at] = clocks.join(clocks.barrier_done[at], now)
        clocks.barrier_now[at] = 0

    def phase_seen(self, C: Cohort, ids: np.ndarray, info: Any) -> None:
        """An acquire; a .relaxed wait learns only which asynchronous operations are over, until a fence."""
        clocks = self.clocks
        if self.unread:
            for key in zip(ids.tolist(), (C.gids >> 5).tolist()):
                self.unread.pop(key, None)
        if self.M.findings.doubts:
            for key in zip((C.gids >> 5).tolist(), ids.tolist()):
                self.M.findings.doubts.pop(key, None)
        self.waited[ids] = self.M.barriers.phase[ids]
        C.unsynced = True
        C, units, mine = parts(self.M, C, ids)
        self.checks.observed(C, units, mine, info.index, self.copies)
        vec = clocks.barrier_done[mine]
        if not info.release:
            self.relaxed.waited(C, units, vec, info.wide)
            vec = clocks.finished(vec)
        if clocks.scoped and not info.wide and self.from_afar.intersection(mine.tolist()):
            vec = vec.copy()
            vec[:, clocks.W] = np.where(clocks.foreign(units.gw), 0, vec[:, clocks.W])
        self.checks.moments.learn(clocks.learn(C, units, vec), self.checks.passed[mine])

    def parked(self, C: Cohort, wait: Wait, index: int) -> None:
        """Somebody waits for a phase."""
        if type(wait) is MbarrierWait:
            self.checks.passes.wanted[wait.keys] = True

    def wait_unread(self, C: Cohort, ids: np.ndarray, index: int) -> None:
        """Nothing is known after it. It may be a mere hint, where the same warp waits properly later."""
        for barrier, gid in zip(ids.tolist(), C.gids.tolist()):
            self.unread.setdefault((barrier, gid >> 5), (index, gid))

    def answered_no(self, gids: np.ndarray, ids: np.ndarray, index: int) -> None:
        """What these threads touch before they have waited may come too early."""
        for gid, barrier in zip(gids.tolist(), ids.tolist()):
            self.M.findings.doubts[gid >> 5, barrier] = index

    def sure(self, C: Cohort, ids: np.ndarray) -> np.ndarray:
        """Lanes to which the end of the latest phase is known: they have seen it, or what saw it comes before them, or all its arrivals do."""
        clocks, phase = self.clocks, self.M.barriers.phase[ids]
        known: np.ndarray = clocks.ordered(clocks.K, clocks.row_of[C.gids], clocks.barrier_column(ids), np.zeros(C.n, np.int64), self.M.barriers.age(ids))
        for lane in np.flatnonzero(~known).tolist():
            gid, barrier = int(C.gids[lane]), int(ids[lane])
            last = self.copies.get(barrier)
            if last is None or last.phase < phase[lane]:
                known[lane] = bool((clocks.newest(self.checks.passed[barrier]) <= self.checks.before(gid)).all())
        return known

    # --- the end ----------------------------------------------------------------------------------------------------
    def closed(self) -> None:
        """Arrivals that no phase can be sure of."""
        self.checks.passes.report(self.checks.saw, self.checks.init_site, self.checks.init_count)
        for (barrier, _), (index, gid) in self.unread.items():
            findings_barriers.wait_unread(self.M, index, gid, barrier)

    def copies_left(self, gone: set[int]) -> None:
        """CTAs end (slots): every copy into them was seen to be complete."""
        for barrier, last in list(self.copies.items()):
            if last.slot in gone:
                del self.copies[barrier]
                if self.waited[barrier] < last.phase:
                    findings_barriers.copy_not_waited_for(self.M, last.index, last.gid, barrier, last.phase - 1, int(self.waited[barrier]))
