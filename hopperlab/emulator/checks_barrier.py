"""What can be wrong with an mbarrier although every instruction on it is legal: initialisation that others have not seen,
phases that overrun a waiter, byte counts that do not match. Tables beside barriers.py, indexed by barrier id; barriers.py
calls them and nothing else does. Sources: PTX ISA 9.7.13.15; docs of each rule at its method.
"""
from __future__ import annotations

import numpy as np

from . import reports_misuse as reports
from .clocks import V, X


class BarrierChecks:
    """Tables of all mbarriers: who initialised, who has waited since the last flip, and what the running phase is made of."""

    PER_BARRIER = ("init_site", "init_warp", "init_lane", "init_epoch", "init_met", "expect_site")
    PER_WARP = ("seen", "waited", "wait_site", "wait_thread", "contributed", "passed")

    def __init__(self, machine, size: int):
        self.M, self.clocks = machine, machine.clocks
        self.warps = machine.clocks.warps
        for name in self.PER_BARRIER:
            setattr(self, name, np.zeros(size, np.int64))
        for name in self.PER_WARP:
            setattr(self, name, np.zeros((size, self.warps), np.int64))
        # What has happened before each warp's present moment, also by ways that publish no memory (bytes that arrived).
        self.past = np.zeros((len(machine.clocks.epoch), self.warps), np.int64)
        self.met = np.zeros((machine.slots * 16, self.warps), np.int64)

    def reset_slots(self, slots: np.ndarray) -> None:
        """New CTAs have no past."""
        for table in (self.past, self.met):
            table.reshape(self.M.slots, -1)[slots] = 0

    def grow(self, slots: int, old: int, new: int) -> None:
        """A CTA may have `new` barriers instead of `old`."""
        for name in (*self.PER_BARRIER, *self.PER_WARP):
            table = getattr(self, name)
            wide = np.zeros((slots, new, *table.shape[1:]), np.int64)
            wide[:, :old] = table.reshape(slots, old, *table.shape[1:])
            setattr(self, name, wide.reshape(slots * new, *table.shape[1:]))

    # --- initialisation ---------------------------------------------------------------------------------------------
    def initialised(self, C, ids: np.ndarray, flat: np.ndarray, live: np.ndarray, count: np.ndarray, info) -> None:
        """mbarrier.init by every lane. Twice without mbarrier.inval is undefined; so is a count of 0 or above 2^20 - 1."""
        M = self.M
        if live.any():
            lane = int(np.flatnonzero(live)[0])
            reports.init_twice(M, info.index, int(self.init_site[ids[lane]]), int(C.gids[lane]), int(flat[lane]))
        elif len(np.unique(ids)) < len(ids):
            reports.init_twice(M, info.index, info.index, int(C.gids[0]), int(flat[0]))
        if ((count < 1) | (count > 0xFFFFF)).any():
            lane = int(np.flatnonzero((count < 1) | (count > 0xFFFFF))[0])
            reports.bad_count(M, info.index, int(C.gids[lane]), int(count[lane]))
        fresh = np.flatnonzero(~live)
        if M.shadow is not None and len(fresh):
            M.shadow.barrier_born(C.gids[fresh], flat[fresh], info.index)
        warp = C.gids >> 5
        self.init_met[ids] = 0
        self.init_site[ids], self.init_lane[ids] = info.index, C.gids & 31
        self.init_warp[ids], self.init_epoch[ids] = warp % self.warps, self.clocks.epoch[warp]
        for table in (self.seen, self.waited, self.contributed, self.passed):
            table[ids] = 0

    def init_fenced(self, C) -> None:
        """fence.mbarrier_init.release.cluster: what these threads initialised is visible after the next cluster barrier, also a
        relaxed one."""
        barriers = self.M.barriers
        for gid in C.gids.tolist():
            ids = gid // self.M.T * barriers.capacity + np.arange(len(barriers.offsets))
            mine = barriers.live[ids] & (self.init_warp[ids] == (gid >> 5) % self.warps) & (self.init_lane[ids] == (gid & 31))
            self.init_met[ids[mine]] = self.M.cluster_barrier.generation[gid // self.M.T // self.M.cluster] + 1

    def used(self, C, ids: np.ndarray, info) -> None:
        """Every use by another thread must come after the init: a barrier, or __syncwarp inside the warp, lies between."""
        self._used(C.gids, ids, info.index)

    def _used(self, threads: np.ndarray, ids: np.ndarray, site: int) -> None:
        warp = (threads >> 5) % self.warps
        unknown = np.flatnonzero(self.seen[ids, warp] == 0)
        if not len(unknown):
            return
        clocks, gids, mine = self.clocks, threads[unknown], ids[unknown]
        column, lane, epoch = self.init_warp[mine], self.init_lane[mine], self.init_epoch[mine]
        ok = clocks.ordered(clocks.K, clocks.row_of[gids], column, lane, epoch)
        if self.M.cluster > 1:
            met, barrier = self.init_met[mine], self.M.cluster_barrier
            ok |= (met > 0) & (barrier.joined[gids] + 1 >= met) & (barrier.generation[gids // self.M.T // self.M.cluster] >= met)
        self.seen[mine[ok], warp[unknown][ok]] = 1
        ok |= (column == warp[unknown]) & (lane == (gids & 31))
        if not ok.all():
            k = int(np.flatnonzero(~ok)[0])
            self.seen[mine[~ok], warp[unknown][~ok]] = 1
            reports.init_unseen(self.M, site, int(self.init_site[mine[k]]), int(gids[k]))

    def signalled(self, barrier: int, gid: int, site: int) -> None:
        """A copy that thread `gid` issues will signal `barrier`, perhaps of another CTA: its init must come before."""
        self._used(np.array([gid]), np.array([barrier]), site)

    # --- phases -----------------------------------------------------------------------------------------------------
    def contribute(self, C, ids: np.ndarray, units, vec) -> None:
        """Arrivals: what their threads know when they arrive (vec) belongs to the running phase."""
        known = np.maximum(np.maximum(vec[:, V, :self.warps], vec[:, X, :self.warps] >> 5), self.past[units.gw])
        ends = np.append(units.starts[1:], C.n)
        if C.n == len(units.starts) or (ids == np.repeat(ids[units.starts], ends - units.starts)).all():
            np.maximum.at(self.contributed, ids[units.starts], known)
        else:
            np.maximum.at(self.contributed, ids, np.repeat(known, ends - units.starts, axis=0))

    def issued(self, barrier: int, gid: int, site: int) -> None:
        """A copy (or asynchronous arrival) that will signal `barrier` was issued by thread `gid`: it comes after what that
        thread did."""
        self.signalled(barrier, gid, site)
        clocks, warp = self.clocks, gid >> 5
        row = clocks.K[clocks.row_of[gid]]
        known = np.maximum(np.maximum(row[V, :self.warps], row[X, :self.warps] >> 5), self.past[warp])
        known[warp % self.warps] = clocks.epoch[warp]
        self.contributed[barrier] = np.maximum(self.contributed[barrier], known)
        clocks.epoch[warp] += 1

    def observed(self, C, ids: np.ndarray, site: int) -> None:
        """Lanes saw that the latest phase of their barrier has completed."""
        warp = C.gids >> 5
        column = warp % self.warps
        self.waited[ids, column] = self.clocks.epoch[warp]
        self.wait_site[ids, column], self.wait_thread[ids, column] = site, C.gids
        units = self.M.units(C)
        self.past[units.gw] = np.maximum(self.past[units.gw], self.passed[ids[units.starts]])

    def meet(self, C, keys: np.ndarray) -> None:
        """Lanes arrive at named barriers (or leave them): whoever leaves has all arrivals in its past."""
        if len(self.M.barriers.offsets):
            units = self.M.units(C)
            np.maximum.at(self.met, keys[units.starts], self.past[units.gw])
            self.past[units.gw] = np.maximum(self.past[units.gw], self.met[keys[units.starts]])

    def completing(self, done: np.ndarray, site: int | None, gid: int) -> None:
        """Phases end. A wait on the phase before is safe if and only if something in this phase came after that wait;
        else this phase could have ended before the waiter looked, and its parity test would have gone wrong."""
        waited = self.waited[done]
        late = (waited > 0) & (self.contributed[done] < waited)
        if late.any():
            for k, column in zip(*np.nonzero(late)):
                where = int(self.wait_site[done[k], column])
                reports.phase_overrun(self.M, where, site, int(self.wait_thread[done[k], column]), int(done[k]))
        self.passed[done] = np.maximum(self.passed[done], self.contributed[done])
        self.waited[done] = 0
        self.contributed[done] = 0

    # --- bytes ------------------------------------------------------------------------------------------------------
    def announced(self, ids: np.ndarray, site: int) -> None:
        """expect_tx, with or without an arrival."""
        self.expect_site[ids] = site
