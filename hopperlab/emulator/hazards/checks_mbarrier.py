# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with an mbarrier although every instruction on it is legal: initialisation that others have not seen,
phases that overrun a waiter, byte counts that do not match. Tables beside those of machine/mbarriers.py, indexed by barrier id.
mbarrier_order.py asks them; sync_order.py, cluster_order.py and product_order.py where other barriers, fences and products matter to mbarriers.
Sources: PTX ISA 9.7.13.15; docs of each rule at its method.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.shared_names import name_of
from ..ptx.places import Place
from . import findings_barriers, phase_turns
from .clocks import V, X
from .mbarrier_passes import Passes, rows_of
from .moments import MOMENT, Moments

if TYPE_CHECKING:
    from ..machine.cohort import Cohort
    from ..machine.units import Units
    from .clocks import Clocks
    from .findings import Watched
    from .shared_order import SharedOrder


class BarrierChecks:
    """Tables of all mbarriers: who initialised, who has waited since the last flip, and what the running phase is made of."""

    PER_BARRIER = ("init_site", "init_warp", "init_lane", "init_epoch", "init_met", "expect_site", "gone_site", "end_site", "counted", "counted_before", "init_count")
    PER_WARP = ("seen", "wait_site", "wait_thread", "saw", "used_at", "used_site", "turn", "saw_at")
    PER_LANE = ("waited", "contributed", "passed", "passed_before")          # a time for whole warps and a code for lanes of each, as V and X of clocks.py
    init_site: np.ndarray
    init_warp: np.ndarray
    init_lane: np.ndarray
    init_epoch: np.ndarray
    init_met: np.ndarray
    init_count: np.ndarray
    expect_site: np.ndarray
    seen: np.ndarray
    waited: np.ndarray
    wait_site: np.ndarray
    wait_thread: np.ndarray
    contributed: np.ndarray
    passed: np.ndarray
    saw: np.ndarray             # phases that each warp has seen complete; saw_at: at which of its epochs; turn: how many it has counted (phase_turns.py)
    turn: np.ndarray
    saw_at: np.ndarray
    end_site: np.ndarray        # 1 + the instruction that ended the latest phase
    passed_before: np.ndarray   # `passed` without the latest phase
    counted: np.ndarray         # the latest phase that counted bytes, from 1 (0: none did); counted_before: without the very latest phase
    counted_before: np.ndarray
    used_at: np.ndarray         # last use, in kernels that end barriers by mbarrier.inval; gone_site: where that was
    used_site: np.ndarray
    gone_site: np.ndarray

    def __init__(self, machine: Watched, clocks: Clocks, order: SharedOrder, size: int) -> None:
        self.M, self.clocks, self.order, self.warps = machine, clocks, order, clocks.warps
        for name in self.PER_BARRIER:
            setattr(self, name, np.zeros(size, np.int64))
        for name in self.PER_WARP:
            setattr(self, name, np.zeros((size, self.warps), np.int64))
        for name in self.PER_LANE:
            setattr(self, name, np.zeros((size, 2, self.warps), np.int32))
        self.moments = Moments(clocks, machine.slots * 16)
        clocks.lanes.holders.append(lambda: (table[:, X] for table in (self.waited, self.contributed, self.passed, self.passed_before)))
        self.passes = Passes(machine, clocks, size)
        self.arrivals: dict[int, np.ndarray] = {}       # by instruction: on which mbarriers of a CTA it has arrived
        self.ends = any(i.op == "mbarrier" and i.mods[0] == "inval" for i in machine.body)

    def grow(self, slots: int, old: int, new: int) -> None:
        """A CTA may have `new` barriers instead of `old`."""
        for name in (*self.PER_BARRIER, *self.PER_WARP, *self.PER_LANE):
            table = getattr(self, name)
            wide = np.zeros((slots, new, *table.shape[1:]), table.dtype)
            wide[:, :old] = table.reshape(slots, old, *table.shape[1:])
            setattr(self, name, wide.reshape(slots * new, *table.shape[1:]))
        self.passes.grow(slots, old, new)

    # --- initialisation ---------------------------------------------------------------------------------------------
    def initialised(self, C: Cohort, ids: np.ndarray, flat: np.ndarray, live: np.ndarray, count: np.ndarray, site: int) -> None:
        """mbarrier.init by every lane. Twice without mbarrier.inval is undefined; so is a count of 0 or above 2^20 - 1."""
        M = self.M
        if live.any():
            lane = int(np.flatnonzero(live)[0])
            before = int(ids[lane]) // M.barriers.capacity * M.T + int(self.init_warp[ids[lane]]) % M.warps * 32 + int(self.init_lane[ids[lane]])
            findings_barriers.init_twice(M, site, int(self.init_site[ids[lane]]), int(C.gids[lane]), before, int(ids[lane]))
        elif len(np.unique(ids)) < len(ids):
            findings_barriers.init_twice(M, site, site, int(C.gids[0]), -1, int(ids[0]))
        if ((count < 1) | (count > 0xFFFFF)).any():
            lane = int(np.flatnonzero((count < 1) | (count > 0xFFFFF))[0])
            findings_barriers.bad_count(M, site, int(C.gids[lane]), int(count[lane]))
        fresh = np.flatnonzero(~live)
        if len(fresh):
            self.order.barrier_born(C.gids[fresh], flat[fresh], site)
        warp = C.gids >> 5
        self.init_met[ids] = 0
        self.init_site[ids], self.init_lane[ids], self.init_count[ids] = site, C.gids & 31, count
        self.init_warp[ids], self.init_epoch[ids] = warp % self.warps, self.clocks.epoch[warp]
        for table in (self.seen, self.waited, self.contributed, self.passed, self.saw, self.used_at, self.turn, self.saw_at, self.passed_before, self.counted):
            table[ids] = 0
        self.passes.born(ids)

    def invalidated(self, C: Cohort, ids: np.ndarray, site: int) -> None:
        """mbarrier.inval by these lanes: every other thread's last use of the barrier, and every copy that signals it, is over by then."""
        M = self.M
        for lane, barrier in enumerate(ids.tolist()):
            gid = int(C.gids[lane])
            late = np.flatnonzero(self.used_at[barrier] > self.before(gid))
            if len(late):
                findings_barriers.inval_in_use(M, site, int(self.used_site[barrier, late[0]]), gid, barrier)
            self.gone_site[barrier] = site

    def init_fenced(self, C: Cohort) -> None:
        """fence.mbarrier_init.release.cluster: what these threads initialised is visible after the next cluster barrier, also a
        relaxed one."""
        barriers = self.M.barriers
        for gid in C.gids.tolist():
            ids = gid // self.M.T * barriers.capacity + np.arange(len(barriers.offsets))
            mine = barriers.live[ids] & (self.init_warp[ids] == (gid >> 5) % self.warps) & (self.init_lane[ids] == (gid & 31))
            self.init_met[ids[mine]] = self.M.cluster_barrier.generation[gid // self.M.T // self.M.cluster] + 1

    def used(self, threads: np.ndarray, ids: np.ndarray, site: int) -> None:
        """Every use by another thread must come after the init: a barrier, or __syncwarp inside the warp, lies between."""
        warp = (threads >> 5) % self.warps
        if self.ends:
            self.used_at[ids, warp], self.used_site[ids, warp] = self.clocks.epoch[threads >> 5], site
        seen = self.seen[ids, warp]
        if (seen == -1).all():                                  # the usual case: known to all lanes
            return
        unknown = np.flatnonzero(seen >> (threads & 31) & 1 == 0)
        if not len(unknown):
            return
        clocks, gids, mine = self.clocks, threads[unknown], ids[unknown]
        column, lane, epoch = self.init_warp[mine], self.init_lane[mine], self.init_epoch[mine]
        ok = clocks.ordered(clocks.K, clocks.row_of[gids], column, lane, epoch)
        if self.M.cluster > 1:
            met, barrier = self.init_met[mine], self.M.cluster_barrier
            ok |= (met > 0) & (barrier.joined[gids] + 1 >= met) & (barrier.generation[gids // self.M.T // self.M.cluster] >= met)
        alone = clocks.rows.apart[gids >> 5]                    # what one lane knows, the others may not
        told, some = ok & ~alone, ok & alone
        self.seen[mine[told], warp[unknown][told]] = -1
        if some.any():
            np.bitwise_or.at(self.seen, (mine[some], warp[unknown][some]), np.int64(1) << (gids[some] & 31))
        ok |= (column == warp[unknown]) & (lane == (gids & 31))
        if not ok.all():
            k = int(np.flatnonzero(~ok)[0])
            self.seen[mine[~ok], warp[unknown][~ok]] = -1
            findings_barriers.init_unseen(self.M, site, int(self.init_site[mine[k]]), int(gids[k]))

    def signalled(self, barrier: int, gids: np.ndarray, site: int) -> None:
        """Copies (or asynchronous arrivals) that these threads issue will signal `barrier`, perhaps of another CTA: its init must come before."""
        if self.ends or len(gids) > 1 or not self.seen[barrier, (gids[0] >> 5) % self.warps] >> (gids[0] & 31) & 1:
            self.used(gids, np.full(len(gids), barrier), site)

    # --- phases -----------------------------------------------------------------------------------------------------
    def contribute(self, C: Cohort, ids: np.ndarray, units: Units, vec: np.ndarray, counts: np.ndarray, site: int) -> None:
        """Arrivals (ids by unit): what their threads know when they arrive (vec) belongs to the running phase."""
        clocks = self.clocks
        self.arrived(ids, site)
        past = self.moments.known(C, units)
        self.passes.arrive(C, ids, units, vec, self.in_time(vec, past), self.passes.seen[ids], counts, site)
        known = clocks.join(vec[:, :2, :self.warps], past, MOMENT)
        clocks.join_at(self.contributed, ids, known, MOMENT)

    def arrived(self, ids: np.ndarray, site: int) -> None:
        """Instruction `site` arrives on these mbarriers."""
        capacity, here = self.M.barriers.capacity, self.arrivals.get(site)
        if here is None or len(here) < capacity:
            here = self.arrivals[site] = np.concatenate([np.zeros(0, bool) if here is None else here, np.zeros(capacity - (0 if here is None else len(here)), bool)])
        here[ids % capacity] = True

    def arrivals_on(self, barrier: int, sites: list[int]) -> tuple[list[int], list[int]]:
        """Of these instructions, those that have arrived on this mbarrier or on one of its kin (initialised at the same line, with the same count, and of one array
        where it has a name: the other slots of a ring); and those that have arrived nowhere yet."""
        b, capacity = self.M.barriers, self.M.barriers.capacity
        first = barrier // capacity * capacity
        ids = first + np.arange(len(b.offsets))
        line = [Place.of(self.M.body[int(site)]).text() for site in self.init_site[ids].tolist()]
        array = [name_of(self.M.layout.variables, offset).partition("[")[0].partition(" ")[0] for offset in b.offsets]
        same = [line[k] == line[barrier - first] and array[k] == array[barrier - first] for k in range(len(ids))]
        kin = np.array(same) & (b.expected[ids] == b.expected[barrier])
        return [site for site in sites if site in self.arrivals and self.arrivals[site][:len(ids)][kin[:len(self.arrivals[site])]].any()], [site
                for site in sites if site not in self.arrivals]

    def in_time(self, vec: np.ndarray, past: np.ndarray) -> np.ndarray:
        """(units, warps): up to which epochs other warps' pasts lie before warps that publish `vec` and have this past."""
        clocks = self.clocks
        known: np.ndarray = np.maximum(clocks.newest(vec[:, :2])[:, :self.warps], clocks.newest(past))
        return np.maximum(known, vec[:, clocks.R, :self.warps]) if clocks.relaxed else known

    def before(self, gid: int) -> np.ndarray:
        """(warps,): the same of a thread that issues something, after all that its own warp did."""
        clocks, warp = self.clocks, gid >> 5
        row = clocks.K[clocks.row_of[gid]]
        known: np.ndarray = np.maximum(clocks.newest(row[:2])[:self.warps], clocks.newest(self.moments.of_thread(gid)))
        if clocks.relaxed:
            known = np.maximum(known, row[clocks.R, :self.warps])
        known[warp % self.warps] = clocks.epoch[warp]
        return known

    def arrival_issued(self, barrier: int, gids: np.ndarray, site: int) -> None:
        """Lanes issue asynchronous arrivals."""
        self.arrived(np.array([barrier]), site)
        for warp in np.unique(gids >> 5):
            here = gids[gids >> 5 == warp]
            self.passes.arrive_later(barrier, here, self.before(int(here[0])), self.passes.seen[barrier], site)
        self.issued(barrier, gids, site)

    def copied(self, barrier: int, gid: int, nbytes: int, site: int) -> None:
        """A copy of `nbytes` that will signal `barrier` was issued."""
        passes = self.passes
        if self.M.barriers.phase[barrier] and not passes.bytes_now[barrier] and not passes.copied(barrier, gid, self.before(gid), passes.seen[barrier]):
            findings_barriers.unannounced(self.M, barrier, nbytes, gid, site, int(self.expect_site[barrier]) or None)
        self.issued(barrier, np.array([gid]), site)

    def issued(self, barrier: int, gids: np.ndarray, site: int) -> None:
        """A copy (or asynchronous arrival) that will signal `barrier` was issued by these threads: it comes after what they did."""
        clocks, warps = self.clocks, gids >> 5
        self.signalled(barrier, gids, site)
        here = self.contributed[barrier]
        for warp in np.unique(warps).tolist() if len(gids) > 1 else warps.tolist():
            lanes, own, epoch = gids[warps == warp] & 31, warp % self.warps, int(clocks.epoch[warp])
            code = int(here[X, own])
            if len(lanes) > 1 or code <= 0 or code & 31 != lanes[0] or code >> 5 < clocks.learned[warp]:        # else all but this moment is in it already
                times = np.zeros((1, 32), np.int32)
                times[0, lanes] = epoch
                known = clocks.join(clocks.K[clocks.row_of[warp << 5 | lanes[0]], :2, :self.warps], self.moments.of_thread(warp << 5 | lanes[0]), MOMENT)
                here[:] = clocks.join(here, known, MOMENT)
                here[X, own] = clocks.lanes.join(here[X, own:own + 1], clocks.lanes.codes(times), here[V, own:own + 1])[0]
            else:
                here[X, own] = epoch << 5 | lanes[0]
            clocks.epoch[warp] = epoch + 1

    def observed(self, C: Cohort, units: Units, ids: np.ndarray, site: int, copies: dict[int, Any]) -> None:
        """Lanes saw that the latest phase of their barrier (ids by unit) has completed. copies: as below."""
        clocks, gw = self.clocks, units.gw
        column, epoch = gw % self.warps, clocks.epoch[gw]
        if units.all_full and C.n == 32 * len(gw):
            self.waited[ids, V, column] = epoch
        else:
            code = clocks.codes_of(C, units, epoch)
            self.waited[ids, X, column] = clocks.lanes.join(self.waited[ids, X, column], code, self.waited[ids, V, column])
        self.wait_site[ids, column], self.wait_thread[ids, column] = site, C.gids[units.starts]
        phase_turns.seen(self, ids, column, C.gids[units.starts], site, copies)
        self.saw[ids, column] = self.M.barriers.phase[ids]
        self.passes.observed(ids, column, epoch)

    def completed(self, done: np.ndarray, site: int | None, copies: dict[int, Any]) -> None:
        """Phases have ended (copies: barrier -> its newest copy, mbarrier_order.py). A wait on the phase before is safe if and only if something in
        this phase came after that wait; else this phase could have ended before the waiter looked, and its parity test would have gone wrong. Where the
        mbarrier counts too few arrivals, that is why."""
        at = rows_of(done)
        late, heard = self._late(self.waited[at], self.contributed[at])
        for k, column in zip(*np.nonzero(late)) if late.any() else ():
            if self.passes.too_few(int(done[k])):
                continue
            where = int(self.wait_site[done[k], column])
            last = copies.get(int(done[k]))
            findings_barriers.phase_overrun(self.M, where, site, int(self.wait_thread[done[k], column]), int(done[k]), None if last is None else last.index,
                                            bool(heard[k, column]))
        self.passed_before[at], self.counted_before[at] = self.passed[at], self.counted[at]
        self.counted[at] = np.where(self.passes.bytes_now[at], self.M.barriers.phase[at], self.counted[at])
        self.passed[at] = self.clocks.join(self.passed[at], self.contributed[at], MOMENT)
        self.waited[at] = 0
        self.end_site[at] = 0 if site is None else site + 1
        self.contributed[at] = 0
        self.passes.completed(at)

    def _late(self, waited: np.ndarray, contributed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """True for warps (n, columns) some lane of which waited later than what is known of it; and for those of which another lane is known."""
        lanes = self.clocks.lanes
        newest = np.maximum(waited[:, V], lanes.newest(waited[:, X])) if waited[:, X].any() else waited[:, V]
        late: np.ndarray = newest > contributed[:, V]
        if late.any() and contributed[:, X].any():              # perhaps it is known of each lane that waited
            known = np.maximum(contributed[:, V][late][:, None], lanes.times(contributed[:, X][late]))
            late[late] = (np.maximum(waited[:, V][late][:, None], lanes.times(waited[:, X][late])) > known).any(axis=1)
        return late, late & (lanes.newest(contributed[:, X]) >= newest) if late.any() else late

    # --- bytes ------------------------------------------------------------------------------------------------------
    def announced(self, ids: np.ndarray, nbytes: np.ndarray, site: int) -> None:
        """expect_tx, with or without an arrival."""
        self.expect_site[ids] = site
        self.passes.announced(ids, nbytes)
