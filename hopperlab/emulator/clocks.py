"""Happens-before: what every warp knows of every other agent of its CTA, as vector clocks.

Agents (columns) are the warps' plain accesses, each warpgroup's wgmma groups, each warp's bulk groups and cp.async groups,
and each mbarrier (its completed phases stand for the asynchronous copies that signalled it). Holders (rows) are warps, and
a second row a warp for lanes that synchronised while the warp was diverged. Four planes: what is ordered before me (V),
the same for one single lane of the column's warp (X, packed epoch << 5 | lane), and both again for what a proxy fence has
made visible to the async proxy (P, PX). Two more where they matter: V without what came by synchronisation of CTA scope from
another CTA (W), and V with what came by .relaxed arrivals and waits, which order no ordinary access (R). reference: PTX ISA, Memory Consistency Model (causality order, proxies).
"""
from __future__ import annotations

import numpy as np

from .lane_fences import LaneFences

V, X, P, PX, W = range(5)
FIRST_BARRIERS = 16


class Units:
    """The warps of a cohort: global warp id, first lane's position, and whether all living lanes are present."""

    __slots__ = ("gw", "starts", "full", "all_full", "single", "lanes")

    def __init__(self, cohort, alive: np.ndarray):
        gids = cohort.gids
        if cohort.full32():
            self.gw = gids[::32] >> 5
            self.starts = np.arange(0, cohort.n, 32)
            self.full = np.ones(len(self.gw), bool)
            counts = None
        else:
            warps = gids >> 5
            self.starts = np.flatnonzero(np.concatenate(([True], warps[1:] != warps[:-1])))
            self.gw = warps[self.starts]
            counts = np.diff(np.append(self.starts, cohort.n))
            self.full = counts == alive[self.gw]
        self.all_full = bool(self.full.all())
        self.single = None if counts is None else (counts == 1) & ~self.full
        self.lanes = gids[self.starts] & 31


class Clocks:
    """Vector clocks of all resident clusters: `domains` of them, each `ctas` CTAs of `cta_warps` warps (ctas = 1: no clusters).

    `warps` is the number of warps of a domain, so that a global warp id splits as (domain, warp) by it.
    """

    def __init__(self, domains: int, ctas: int, cta_warps: int, cp_async: bool, bulk: bool, scoped: bool = False, relaxed: bool = False):
        self.scoped, self.relaxed, self.planes, self.cta_warps = scoped, relaxed, 4 + scoped + relaxed, cta_warps
        self.R = self.planes - 1                               # where `relaxed`
        self.domains, self.ctas, self.warps = domains, ctas, ctas * cta_warps
        slots, warps = domains, self.warps
        groups = ctas * -(-cta_warps // 4)
        self.wgmma0 = warps
        self.bulk0 = self.wgmma0 + groups
        self.readers = self.bulk0 + (warps if bulk else 0)      # columns that can be readers of shared memory
        self.cp0 = self.readers
        self.written0 = self.cp0 + (warps if cp_async else 0)      # bulk groups again: what they have written, not only read
        self.bar0 = self.written0 + (warps if bulk else 0)
        self.has_cp, self.has_bulk = cp_async, bulk
        self.bars = FIRST_BARRIERS
        self.columns = self.bar0 + self.bars * ctas
        self.K = np.zeros((slots * 2 * warps, self.planes, self.columns), np.int32)
        self.epoch = np.ones(slots * warps, np.int32)
        self.row_of = np.repeat(self.primary(np.arange(slots * warps)), 32).astype(np.int32)
        self.fragmented = np.zeros(slots * warps, bool)
        self.any_fragment = False
        self.touched = False
        self.lane_fences = LaneFences(slots * warps)
        self.cp_done = np.zeros(slots * warps * 32, np.int32)
        self.bulk_done = np.zeros(slots * warps * 32, np.int32)         # groups that have read their source (wait_group.read)
        self.bulk_written = np.zeros(slots * warps * 32, np.int32)      # groups that are complete (wait_group)
        self.cp_issued = np.zeros(slots * warps * 32, np.int32)         # latest group in which a thread started a copy
        self.bulk_issued = np.zeros(slots * warps * 32, np.int32)
        self.barrier_now = np.zeros((slots * ctas * self.bars, self.planes, self.columns), np.int32)
        self.barrier_done = np.zeros_like(self.barrier_now)
        self.cluster = np.zeros((slots, self.planes, self.columns), np.int32)
        self.named = np.zeros((slots * ctas * 16, self.planes, self.columns), np.int32)
        self.named_done = np.zeros_like(self.named)
        self.wgmma = np.zeros((slots * groups, self.planes, self.columns), np.int32)

    def primary(self, gw):
        """Row of what warps know as a whole (their second row comes `warps` later)."""
        return (gw // self.warps) * (2 * self.warps) + gw % self.warps

    # --- growth and reuse -------------------------------------------------------------------------------------------
    def grow_barriers(self) -> None:
        """Double the number of mbarriers a CTA may have."""
        old = self.bars
        self.bars *= 2
        pad = [(0, 0), (0, 0), (0, old * self.ctas)]
        self.columns += old * self.ctas
        self.K, self.named, self.named_done, self.wgmma, self.cluster = (
            np.pad(a, pad) for a in (self.K, self.named, self.named_done, self.wgmma, self.cluster))
        self.barrier_now, self.barrier_done = (self._regrow(a, old, pad) for a in (self.barrier_now, self.barrier_done))

    def _regrow(self, table: np.ndarray, old: int, pad) -> np.ndarray:
        slots = self.domains * self.ctas
        shaped = np.pad(table, pad).reshape(slots, old, self.planes, self.columns)
        out = np.zeros((slots, self.bars, self.planes, self.columns), np.int32)
        out[:, :old] = shaped
        return out.reshape(-1, self.planes, self.columns)

    def barrier_column(self, ids):
        """Column of an mbarrier by its id (slot * bars + number). Numbers grow, so the CTA varies fastest."""
        return self.bar0 + ids % self.bars * self.ctas + ids // self.bars % self.ctas

    def barrier_number(self, column: int) -> int:
        """Number within its CTA of the mbarrier that a column stands for."""
        return (column - self.bar0) // self.ctas

    def reset_domains(self, domains: np.ndarray) -> None:
        """New CTAs move into `domains`: nobody knows anything."""
        if not self.touched:
            return                                          # nobody has synchronised in this launch: all is as it was made
        w, count = self.warps, self.domains
        self.epoch.reshape(count, w)[domains] = 1
        gw = (domains[:, None] * w + np.arange(w)).reshape(-1)
        self.row_of.reshape(count, w, 32)[domains] = self.primary(gw).reshape(len(domains), w, 1)
        self.fragmented.reshape(count, w)[domains] = False
        self.lane_fences.reset(gw)
        for table in (self.cp_done, self.bulk_done, self.bulk_written, self.cp_issued, self.bulk_issued, self.K, self.barrier_now, self.barrier_done,
                      self.named, self.named_done, self.wgmma, self.cluster):
            table.reshape(count, -1)[domains] = 0

    # --- publish and learn ------------------------------------------------------------------------------------------
    @staticmethod
    def join(old: np.ndarray, new: np.ndarray) -> np.ndarray:
        """What a holder of `old` knows after it also learned `new` (both (..., 4, columns)).

        A lane plane has room for one lane: where two meet, the older one's time counts for its whole warp, so that what
        several lanes published one by one is never forgotten (at worst another lane's race up to that time is not seen).
        """
        out = np.maximum(old, new)
        for plane, lanes in ((V, X), (P, PX)):
            one, other = old[..., lanes, :], new[..., lanes, :]
            if one.any() and other.any():
                differ = (one != 0) & (other != 0) & ((one ^ other) & 31 != 0)
                if differ.any():
                    older = np.where(differ, np.minimum(one, other) >> 5, 0)
                    out[..., plane, :] = np.maximum(out[..., plane, :], older)
        return out

    def publish(self, cohort, units: Units) -> np.ndarray:
        """(units, 4, columns): what a release by these lanes makes known; starts a new epoch of their warps."""
        self.touched = True
        gw = units.gw
        vec = self._known(cohort, units)
        at, own = np.arange(len(gw)), gw % self.warps
        epoch = self.epoch[gw]
        for plane in range(4, self.planes):
            vec[at, plane, own] = epoch
        if units.all_full:
            vec[at, V, own] = epoch
        else:
            single = units.single
            many = ~single
            vec[at[many], V, own[many]] = epoch[many]
            vec[at[single], X, own[single]] = epoch[single] << 5 | units.lanes[single]
        self._own_groups(vec, cohort, units, V, X)
        self.epoch[gw] = epoch + 1
        return vec

    def finished(self, vec: np.ndarray) -> np.ndarray:
        """What a .relaxed arrival or wait still tells: which reads by the async proxy are over, and (R) what came before in time."""
        out = vec.copy()
        out[..., :self.R, :self.wgmma0] = 0
        out[..., :self.R, self.cp0:] = 0
        return out

    def past(self, rows) -> np.ndarray:
        """(rows, columns): what has happened before these rows' holders, in whatever way they know it."""
        held = self.K[rows]
        known = np.maximum(held[:, V], held[:, X] >> 5)
        return np.maximum(known, held[:, self.R]) if self.relaxed else known

    def foreign(self, gw) -> np.ndarray:
        """(warps, columns): which columns are warps of another CTA than that of each warp `gw`."""
        column = np.arange(self.columns)
        return (column < self.warps) & (column // self.cta_warps != (gw % self.warps // self.cta_warps)[:, None])

    def narrow(self, gids: np.ndarray, column, epoch) -> np.ndarray:
        """True where an ordinary access of another CTA's warp is ordered before threads `gids` by synchronisation of CTA scope only."""
        warp = gids >> 5
        away = (column < self.wgmma0) & (column // self.cta_warps != warp % self.warps // self.cta_warps) & (epoch > 0)
        return away & (self.K[self.row_of[gids], W, np.minimum(column, self.columns - 1)] < epoch)

    def _known(self, cohort, units: Units) -> np.ndarray:
        gw = units.gw
        vec = self.K[self.row_of[cohort.gids[units.starts]]]
        if self.any_fragment:
            mixed = units.full & self.fragmented[gw]
            if mixed.any():
                primary = self.primary(gw[mixed])
                vec[mixed] = np.maximum(self.K[primary], self.K[primary + self.warps])
        return vec

    def _own_groups(self, vec, cohort, units: Units, plane: int, lane_plane: int) -> None:
        """Completed cp.async and bulk groups belong to a thread: what all lanes' groups have reached, or one lane's own."""
        for present, done, issued, first in ((self.has_cp, self.cp_done, self.cp_issued, self.cp0),
                                             (self.has_bulk, self.bulk_done, self.bulk_issued, self.bulk0),
                                             (self.has_bulk, self.bulk_written, self.bulk_issued, self.written0)):
            if not present or not done[cohort.gids].any():
                continue
            at, column = np.arange(len(units.gw)), first + units.gw % self.warps
            least = self._reached(units.gw, done, issued)
            if units.all_full:
                vec[at, plane, column] = np.maximum(vec[at, plane, column], least)
                continue
            single = units.single
            many = ~single
            vec[at[many], plane, column[many]] = np.maximum(vec[at[many], plane, column[many]], least[many])
            own = done[cohort.gids[units.starts[single]]]
            vec[at[single], lane_plane, column[single]] = own << 5 | units.lanes[single]

    @staticmethod
    def _reached(gw, done, issued) -> np.ndarray:
        """The group up to which all lanes of each warp are complete. A lane with nothing in flight holds nobody back, and its
        count catches up, so that what it starts later is newer than what is published now."""
        lanes, started = done.reshape(-1, 32)[gw], issued.reshape(-1, 32)[gw]
        idle = started <= lanes
        least = np.minimum(np.where(idle, np.iinfo(np.int32).max, lanes).min(axis=1), lanes.max(axis=1))
        done.reshape(-1, 32)[gw] = np.where(idle, np.maximum(lanes, least[:, None]), lanes)
        return least

    def learn(self, cohort, units: Units, vec: np.ndarray) -> None:
        """These lanes acquire `vec` (units, 4, columns)."""
        self.touched = True
        rows = self._rows_to_write(cohort, units)
        self.K[rows] = self.join(self.K[rows], vec)
        if self.any_fragment:
            mixed = units.full & self.fragmented[units.gw]
            if mixed.any():
                second = self.primary(units.gw[mixed]) + self.warps
                self.K[second] = self.join(self.K[second], vec[mixed])

    def _rows_to_write(self, cohort, units: Units) -> np.ndarray:
        """Primary rows for whole warps; the second row for lanes that synchronise on their own."""
        primary = self.primary(units.gw)
        if units.all_full:
            return primary
        part = ~units.full
        second = primary + self.warps
        fresh = part & ~self.fragmented[units.gw]
        self.K[second[fresh]] = self.K[primary[fresh]]
        again = part & self.fragmented[units.gw]
        self.K[second[again]] = np.maximum(self.K[second[again]], self.K[primary[again]])
        self.fragmented[units.gw[part]] = True
        self.any_fragment = True
        rows = np.where(part, second, primary)
        counts = np.diff(np.append(units.starts, cohort.n))
        self.row_of[cohort.gids] = np.repeat(rows, counts)
        return rows

    def warp_sync(self, cohort, units: Units) -> None:
        """A warp-level synchronisation (`bar.warp.sync` or a converged collective) of the lanes that take part."""
        self.touched = True
        if not units.all_full:
            if not units.single.all():
                self.learn(cohort, units, self.publish(cohort, units))
            return
        gw = units.gw
        primary = self.primary(gw)
        if self.any_fragment:
            torn = self.fragmented[gw]
            if torn.any():
                p = primary[torn]
                self.K[p] = np.maximum(self.K[p], self.K[p + self.warps])
                self.fragmented[gw[torn]] = False
                self.row_of.reshape(-1, 32)[gw[torn]] = p[:, None]
                self.any_fragment = bool(self.fragmented.any())
        epoch = self.epoch[gw]
        self.K[primary, V, gw % self.warps] = epoch
        for plane in range(4, self.planes):
            self.K[primary, plane, gw % self.warps] = epoch
        self.epoch[gw] = epoch + 1
        if self.has_cp or self.has_bulk:
            rows = self.K[primary]
            self._own_groups(rows, cohort, units, V, X)
            self.K[primary] = rows

    def proxy_fence(self, cohort, units: Units) -> None:
        """`fence.proxy.async`: all these lanes made or acquired so far becomes visible to the async proxy through them (of their own
        warp's writes since it last synchronised, only their own: lane_fences)."""
        self.touched = True
        rows = self.row_of[cohort.gids[units.starts]]
        vec = self._known(cohort, units)
        gw = units.gw
        vec[:, P] = np.maximum(vec[:, P], vec[:, V])
        vec[:, PX] = np.maximum(vec[:, PX], vec[:, X])
        at, own, epoch = np.arange(len(gw)), gw % self.warps, self.epoch[gw]
        vec[at, P, own] = epoch
        self._own_groups(vec, cohort, units, P, PX)
        self.epoch[gw] = epoch + 1
        self.K[rows] = np.maximum(self.K[rows], vec)
        if self.any_fragment:
            mixed = units.full & self.fragmented[gw]
            primary = self.primary(gw[mixed])
            for row in (primary, primary + self.warps):
                self.K[row] = np.maximum(self.K[row], vec[mixed])

    # --- questions --------------------------------------------------------------------------------------------------
    def ordered(self, table: np.ndarray, rows, column, lane, epoch, fenced: bool = False) -> np.ndarray:
        """True where an access (column, lane, epoch) is ordered before the holder `rows` of `table`
        (with `fenced`: and visible to the async proxy)."""
        plane, lane_plane = (P, PX) if fenced else (V, X)
        reached = table[rows, plane, column]
        ok = reached >= epoch
        if fenced and self.lane_fences.any:
            domain = rows // (len(table) // self.domains)
            own = np.minimum(column, self.warps - 1) + domain * self.warps
            ok &= (column >= self.warps) | ~self.lane_fences.missed(own, lane, epoch, reached)
        if ok.all():
            return ok
        single = table[rows, lane_plane, column]
        return ok | ((single >> 5 >= epoch) & (single & 31 == lane))

    def own_access(self, gids: np.ndarray, column, lane, epoch) -> np.ndarray:
        """True where the access was made by the asking thread itself (and, for groups, has completed)."""
        warp, same = (gids >> 5) % self.warps, lane == (gids & 31)
        mine = same & (column == warp)
        if self.has_bulk:
            mine |= same & (column == self.bulk0 + warp) & (epoch <= self.bulk_done[gids])
        if self.has_cp:
            mine |= same & (column == self.cp0 + warp) & (epoch <= self.cp_done[gids])
        return mine
