# SPDX-License-Identifier: Apache-2.0
"""Happens-before: what every thread knows of every other agent of its CTA, as vector clocks.

Agents (columns) are the warps' plain accesses, each warpgroup's wgmma groups, each warp's bulk groups and cp.async groups,
and each mbarrier (its completed phases stand for the asynchronous copies that signalled it). Holders (rows, lane_rows.py) are warps, and lanes
that have learned something apart from their warp. Planes: what is ordered before me (V: a time for a whole warp; X: a code for lanes of which more is
known, lane_times.py), and both again for what a proxy fence has made visible to the async proxy (P, PX; G, GX the same of global memory, where a kernel
has fences of one space only). Two more where they matter: V without what came by synchronisation of CTA scope from
another CTA (W), and V with what came by .relaxed arrivals and waits, which order no ordinary access (R).
A lane publishes what it did and knows, and no other lane of its warp does, until they have synchronised. reference: PTX ISA, Memory Consistency Model
(causality order, proxies).
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.machine_constants import FIRST_BARRIERS
from ..machine.units import Units, lane_masks
from .lane_groups import LaneGroups
from .lane_rows import LaneRows
from .lane_times import LaneTimes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..machine.cohort import Cohort
    from ..machine.machine import Machine

V, X, P, PX = range(4)
MANY = 256              # lookups that are worth computing their places for
Planes = tuple[int, int]        # of times of whole warps, and of codes for lanes
Rows = tuple[np.ndarray, np.ndarray | None]     # rows, and the unit of each (None: one after the other)


class Clocks:
    """Vector clocks of all resident clusters: `domains` of them, each `ctas` CTAs of `cta_warps` warps (ctas = 1: no clusters).

    `warps` is the number of warps of a domain, so that a global warp id splits as (domain, warp) by it. spaces: those of the kernel's proxy fences
    ('' for all, 'global', 'shared'); threads: of a CTA, where the last warp is not full.
    """

    def __init__(self, domains: int, ctas: int, cta_warps: int, cp_async: bool, bulk: bool, scoped: bool = False, relaxed: bool = False,
                 spaces: frozenset[str] = frozenset([""]), threads: int = 0) -> None:
        self.scoped, self.relaxed, self.cta_warps = scoped, relaxed, cta_warps
        self.width = np.minimum((threads or 32 * cta_warps) - 32 * np.arange(cta_warps), 32)        # lanes that a warp of a CTA begins with
        self.fenced_shared: Planes = (P, PX)
        self.fenced_global: Planes | None = (P, PX) if not spaces - {""} else None if spaces == {"shared"} else (4, 5)
        self.pairs: tuple[Planes, ...] = ((V, X), (P, PX), (4, 5)) if self.fenced_global == (4, 5) else ((V, X), (P, PX))
        self.lane_planes = [codes for _, codes in self.pairs]
        self.paired = 2 * len(self.pairs)                      # planes for lanes; W and R follow
        self.W, self.planes = self.paired, self.paired + scoped + relaxed
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
        self.rows = LaneRows(slots * warps)
        self.row_of = self.rows.of                             # of every thread
        self.K = np.zeros((self.rows.count, self.planes, self.columns), np.int32)
        self.epoch = np.ones(slots * warps, np.int32)
        self.learned = np.ones(slots * warps, np.int32)        # epoch of each warp at which some lane last learned something
        self.touched = False
        self.cp, self.bulk = LaneGroups(slots * warps * 32), LaneGroups(slots * warps * 32)
        self.cp_done, self.cp_issued = self.cp.done, self.cp.started
        self.bulk_done, self.bulk_issued = self.bulk.done, self.bulk.started        # done: have read their source (wait_group.read)
        self.bulk_written = np.zeros(slots * warps * 32, np.int32)                  # groups that are complete (wait_group)
        self.barrier_now = np.zeros((slots * ctas * self.bars, self.planes, self.columns), np.int32)
        self.barrier_done = np.zeros_like(self.barrier_now)
        self.cluster, self.cluster_done = (np.zeros((slots, self.planes, self.columns), np.int32) for _ in range(2))
        self.named = np.zeros((slots * ctas * 16, self.planes, self.columns), np.int32)
        self.named_done = np.zeros_like(self.named)
        self.lanes = LaneTimes()
        self.lanes.holders.append(self._codes)

    @staticmethod
    def of_launch(machine: Machine) -> "Clocks":
        """The clocks that a kernel needs: columns for the kinds of copies that it has, planes for scopes, .relaxed and proxy fences of one space where it uses them."""
        M, uses = machine, machine.layout.features
        scoped = M.cluster > 1 and any(i.op == "mbarrier" and i.mods[0].startswith("arrive") for i in M.body)
        relaxed = any("relaxed" in i.mods and (i.op == "mbarrier" or i.mods[0] == "cluster") for i in M.body)
        fences = [i for i in M.body if i.op == "fence" and i.mods[:2] == ("proxy", "async")]
        spaces = frozenset("".join(i.mods[2:3]).split("::")[0] for i in fences)
        return Clocks(M.slots // M.cluster, M.cluster, M.warps, "cp.async" in uses, "bulk_group" in uses, scoped, relaxed, spaces, M.T)

    def _codes(self) -> Iterable[np.ndarray]:
        for table in (self.K, self.barrier_now, self.barrier_done, self.cluster, self.named, self.named_done):
            for plane in self.lane_planes:
                yield table[:, plane]

    # --- growth and reuse -------------------------------------------------------------------------------------------
    def grow_barriers(self) -> None:
        """Double the number of mbarriers a CTA may have."""
        old = self.bars
        self.bars *= 2
        pad = [(0, 0), (0, 0), (0, old * self.ctas)]
        self.columns += old * self.ctas
        self.K, self.named, self.named_done, self.cluster, self.cluster_done = (np.pad(a, pad) for a in (self.K, self.named, self.named_done, self.cluster,
                self.cluster_done))
        self.barrier_now, self.barrier_done = (self._regrow(a, old, pad) for a in (self.barrier_now, self.barrier_done))

    def _regrow(self, table: np.ndarray, old: int, pad: list[tuple[int, int]]) -> np.ndarray:
        slots = self.domains * self.ctas
        shaped = np.pad(table, pad).reshape(slots, old, self.planes, self.columns)
        out = np.zeros((slots, self.bars, self.planes, self.columns), np.int32)
        out[:, :old] = shaped
        return out.reshape(-1, self.planes, self.columns)

    def barrier_column(self, ids: Any) -> Any:
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
        self.epoch.reshape(count, w)[domains] = self.learned.reshape(count, w)[domains] = 1
        gw = (domains[:, None] * w + np.arange(w)).reshape(-1)
        for rows in self.rows.reset(gw):
            self.K[rows] = 0
        self.cp.reset(count, domains)
        self.bulk.reset(count, domains)
        for table in (self.bulk_written, self.barrier_now, self.barrier_done, self.named, self.named_done, self.cluster, self.cluster_done):
            table.reshape(count, -1)[domains] = 0

    # --- publish and learn ------------------------------------------------------------------------------------------
    def join(self, old: np.ndarray, new: np.ndarray, pairs: tuple[Planes, ...] = ()) -> np.ndarray:
        """What a holder of `old` knows after it also learned `new` (both (..., planes, columns), with all planes, or with these pairs)."""
        out: np.ndarray = np.maximum(old, new)
        lanes = self.lanes
        for whole, codes in pairs or self.pairs:
            one, other = old[..., codes, :], new[..., codes, :]
            if lanes.several or np.count_nonzero(other) and lanes.clash(one, other):
                out[..., codes, :] = lanes.join(one, other, out[..., whole, :])
        return out

    def join_at(self, table: np.ndarray, index: np.ndarray, vec: np.ndarray, pairs: tuple[Planes, ...] = ()) -> None:
        """Join vec[k] into table[index[k]] for every k, also where places repeat."""
        runs = np.concatenate(([True], index[1:] != index[:-1])).nonzero()[0]
        each = len(index) // len(runs)
        if each * len(runs) != len(index) or (runs[1:] - runs[:-1] != each).any() or (index[runs[1:]] < index[runs[:-1]]).any():
            order = np.argsort(index, kind="stable")
            for k in np.split(order, np.unique(index[order], return_index=True)[1][1:]):
                self.join_at(table, index[k], vec[k], pairs)
            return
        vec = vec.reshape(len(runs), each, *vec.shape[1:])
        while each > 1:                                     # as many for every place: halves at a time
            half = each // 2
            vec = np.concatenate([self.join(vec[:, :half], vec[:, half:2 * half], pairs), vec[:, 2 * half:]], axis=1)
            each -= half
        place = index[runs]
        table[place] = self.join(table[place], vec[:, 0], pairs)

    def publish(self, cohort: Cohort, units: Units) -> np.ndarray:
        """(units, planes, columns): what a release by these lanes makes known; starts a new epoch of their warps."""
        self.touched = True
        self.lanes.tidy()
        gw = units.gw
        vec = self.known(cohort, units)
        at, own = np.arange(len(gw)), gw % self.warps
        epoch = self.epoch[gw]
        for plane in range(self.paired, self.planes):
            vec[at, plane, own] = epoch
        self._add_own(vec, cohort, units, own, epoch, V, X)
        self._own_groups(vec, cohort, units, (V, X))
        self.epoch[gw] = epoch + 1
        return vec

    def codes_of(self, cohort: Cohort, units: Units, epoch: np.ndarray) -> np.ndarray:
        """Codes of the lanes of each unit at a time of their warp."""
        if cohort.n == len(units.gw):
            own: np.ndarray = epoch << 5 | units.lanes.astype(np.int32)
            return own
        return self.lanes.of_lanes(lane_masks(cohort, units), epoch)

    def whole(self, units: Units) -> np.ndarray:
        """True for units that are all lanes with which their warps began."""
        if units.counts is None:
            return units.full
        whole: np.ndarray = units.counts == self.width[units.gw % self.cta_warps]
        return whole

    def _add_own(self, vec: np.ndarray, cohort: Cohort, units: Units, own: np.ndarray, epoch: np.ndarray, plane: int, codes: int) -> None:
        """Enter what the lanes themselves have done up to now: a warp as a whole, unless lanes of it are elsewhere or have ended."""
        at, whole = np.arange(len(own)), self.whole(units)
        if whole.all():
            vec[at, plane, own] = epoch
            return
        part = np.flatnonzero(~whole)
        vec[at[whole], plane, own[whole]] = epoch[whole]
        new = self.codes_of(cohort, units, epoch)[part]
        vec[part, codes, own[part]] = self.lanes.join(vec[part, codes, own[part]], new, vec[part, plane, own[part]])

    def finished(self, vec: np.ndarray) -> np.ndarray:
        """What a .relaxed arrival or wait still tells: which reads by the async proxy are over, and (R) what came before in time."""
        out = vec.copy()
        out[..., :self.R, :self.wgmma0] = 0
        out[..., :self.R, self.cp0:] = 0
        return out

    def past(self, rows: np.ndarray) -> np.ndarray:
        """(rows, columns): what has happened before these rows' holders, in whatever way they know it."""
        held = self.K[rows]
        known = self.newest(held)
        return np.maximum(known, held[:, self.R]) if self.relaxed else known

    def newest(self, vec: np.ndarray) -> np.ndarray:
        """(…, columns): up to when something of each agent, of whichever lane, is known in (…, planes, columns)."""
        known: np.ndarray = np.maximum(vec[..., V, :], self.lanes.newest(vec[..., X, :]))
        return known

    def foreign(self, gw: np.ndarray) -> np.ndarray:
        """(warps, columns): which columns are warps of another CTA than that of each warp `gw`."""
        column = np.arange(self.columns)
        away: np.ndarray = (column < self.warps) & (column // self.cta_warps != (gw % self.warps // self.cta_warps)[:, None])
        return away

    def narrow(self, gids: np.ndarray, column: np.ndarray | int, epoch: np.ndarray | int) -> np.ndarray:
        """True where an ordinary access of another CTA's warp is ordered before threads `gids` by synchronisation of CTA scope only."""
        warp = gids >> 5
        away = (column < self.wgmma0) & (column // self.cta_warps != warp % self.warps // self.cta_warps) & (epoch > 0)
        doubtful: np.ndarray = away & (self.K[self.row_of[gids], self.W, np.minimum(column, self.columns - 1)] < epoch)
        return doubtful

    def known(self, cohort: Cohort, units: Units) -> np.ndarray:
        """(units, planes, columns): what the lanes of each unit know, together where they know different things."""
        first = self.row_of[cohort.gids[units.starts]]
        vec: np.ndarray = self.K[first]
        if self.rows.any_apart:
            for which, rows in self.rows.beside(cohort, units, first):
                vec[which] = self.join(vec[which], self.K[rows])
        return vec

    def _own_groups(self, vec: np.ndarray, cohort: Cohort, units: Units, planes: Planes) -> None:
        """Completed cp.async and bulk groups belong to a thread."""
        if self.has_cp:
            self._add_groups(vec, cohort, units, planes, self.cp, self.cp_done, self.cp0)
        if self.has_bulk:
            self._add_groups(vec, cohort, units, planes, self.bulk, self.bulk_done, self.bulk0)
            self._add_groups(vec, cohort, units, planes, self.bulk, self.bulk_written, self.written0)

    def _add_groups(self, vec: np.ndarray, cohort: Cohort, units: Units, planes: Planes, groups: LaneGroups, done: np.ndarray, first: int) -> None:
        """What all lanes' groups have reached, where all with which the warp began are here, and further ones of single lanes."""
        if not done[cohort.gids].any():
            return
        (plane, codes), whole, times = planes, self.whole(units), None
        at, column = np.arange(len(units.gw)), first + units.gw % self.warps
        if not whole.all():
            times = np.zeros((len(at), 32), np.int32)
            times[np.repeat(at, np.diff(np.append(units.starts, cohort.n))), cohort.gids & 31] = done[cohort.gids]
        if whole.any():
            least, most = groups.reached(units.gw[whole], done)
            vec[at[whole], plane, column[whole]] = np.maximum(vec[at[whole], plane, column[whole]], least)
            if times is not None or (most > least).any():
                times = np.zeros((len(at), 32), np.int32) if times is None else times
                lanes = done.reshape(-1, 32)[units.gw[whole]]
                times[whole] = np.where(lanes > least[:, None], lanes, 0)
        if times is not None and times.any():
            vec[at, codes, column] = self.lanes.join(vec[at, codes, column], self.lanes.codes(times), vec[at, plane, column])

    def bulk_waited(self, cohort: Cohort, units: Units, warps: set[int]) -> None:
        """All living lanes of warps among `warps` have waited for bulk groups in one instruction: each knows what all of them have done."""
        asked, vec = units.full & np.isin(units.gw, list(warps)), np.zeros((len(units.gw), self.planes, self.columns), np.int32)
        for done, first in ((self.bulk_done, self.bulk0), (self.bulk_written, self.written0)):
            self._add_groups(vec, cohort, units, (V, X), self.bulk, done, first)
        vec[~asked] = 0
        self.learn(cohort, units, vec)

    def learn(self, cohort: Cohort, units: Units, vec: np.ndarray) -> Rows:
        """These lanes acquire `vec` (units, planes, columns). Returns their rows."""
        self.touched = True
        self.learned[units.gw] = self.epoch[units.gw]
        rows, which = self._rows_to_write(cohort, units)
        self.K[rows] = self.join(self.K[rows], vec if which is None else vec[which])
        return rows, which

    def reach(self, cohort: Cohort, units: Units, column: np.ndarray, time: np.ndarray) -> Rows:
        """These lanes learn of one agent (column, by unit) up to when it has come."""
        self.touched = True
        self.learned[units.gw] = self.epoch[units.gw]
        rows, which = self._rows_to_write(cohort, units)
        column, time = (column, time) if which is None else (column[which], time[which])
        self.K[rows, V, column] = np.maximum(self.K[rows, V, column], time)
        return rows, which

    def _rows_to_write(self, cohort: Cohort, units: Units) -> Rows:
        """Rows that belong to these lanes alone, and the unit of each (None: one after the other)."""
        if units.all_full and not self.rows.any_apart:
            return units.gw, None
        rows, which, copies = self.rows.own(cohort, units)
        if len(self.K) < self.rows.count:
            self.K = np.concatenate([self.K, np.zeros((self.rows.count - len(self.K), *self.K.shape[1:]), np.int32)])
        for old, new in copies:
            self.K[new] = self.K[old]
        return rows, which

    def warp_sync(self, cohort: Cohort, units: Units) -> None:
        """A warp-level synchronisation (`bar.warp.sync` or a converged collective) of the lanes that take part."""
        self.touched = True
        whole = self.whole(units)
        if not whole.all() and (units.counts is None or (units.counts > 1).any()):
            parts = self.learn(cohort, units, self.publish(cohort, units))
            for follower in self.rows.followers:
                follower.shared(cohort, units, parts)
        gw = units.gw[units.full]
        if not len(gw):
            return
        self.learned[gw] = self.epoch[gw]
        if self.rows.any_apart:
            for main, others in self.rows.together(units.gw[whole]):
                self.K[main] = self.join(self.K[main], self.K[others])
            self._left(cohort, units, units.full & ~whole)
        if not whole.all():
            return                                          # these lanes have learned what they published
        epoch, own = self.epoch[gw], gw % self.warps
        self.K[gw, V, own] = epoch
        self.K[gw, X, own] = 0
        for plane in range(self.paired, self.planes):
            self.K[gw, plane, own] = epoch
        self.epoch[gw] = epoch + 1
        if self.has_cp or self.has_bulk:
            rows = self.K[gw]
            self._own_groups(rows, cohort, units, (V, X))
            self.K[gw] = rows

    def _left(self, cohort: Cohort, units: Units, which: np.ndarray) -> None:
        """Of these units some lanes have ended, and the others know the same now: all have the warp's row again, unless the ended ones know more."""
        for k in np.flatnonzero(which & self.rows.apart[units.gw]).tolist():
            gw, row = units.gw[k:k + 1], self.row_of[cohort.gids[units.starts[k]]]
            living, others = self.K[row], self.rows.of_warps(gw)
            if all((self.join(living, self.K[other]) == living).all() for other in others) and all(f.covers(row, others) for f in self.rows.followers):
                self.K[gw] = living
                self.rows.left(gw, row)

    def proxy_fence(self, cohort: Cohort, units: Units, space: str = "") -> None:
        """`fence.proxy.async`: all that these lanes made or acquired so far becomes visible to the async proxy, by way of them."""
        self.touched = True
        rows, which = self._rows_to_write(cohort, units)
        gw, epoch = units.gw, self.epoch[units.gw]
        own = np.zeros((len(gw), self.paired, self.columns), np.int32)
        held = self.K[rows]
        for planes in {self.fenced_shared if space != "global" else None, self.fenced_global if not space.startswith("shared") else None} - {None}:
            whole, codes = planes  # type: ignore[misc]  # none of them is None
            self._add_own(own, cohort, units, gw % self.warps, epoch, whole, codes)
            self._own_groups(own, cohort, units, (whole, codes))
            held[:, whole] = np.maximum(held[:, whole], held[:, V])
            held[:, codes] = self.lanes.join(held[:, codes], held[:, X], held[:, whole])
        held[:, :self.paired] = self.join(held[:, :self.paired], own if which is None else own[which])
        self.epoch[gw] = epoch + 1
        self.K[rows] = held

    # --- questions --------------------------------------------------------------------------------------------------
    def ordered(self, table: np.ndarray, rows: np.ndarray, column: np.ndarray | int, lane: np.ndarray | int, epoch: np.ndarray | int,
                fenced: bool = False, planes: Planes | None = None) -> np.ndarray:
        """True where an access (column, lane, epoch) is ordered before the holder `rows` of `table`
        (with `fenced`: and visible to the async proxy in shared memory; planes: others than these two pairs)."""
        whole, codes = planes or ((P, PX) if fenced else (V, X))
        ok: np.ndarray = self.times(table, rows, whole, column) >= epoch
        if not ok.all():
            ok = ok | self.lanes.reach(table[rows, codes, column], lane, epoch)
        return ok

    def times(self, table: np.ndarray, rows: np.ndarray, plane: int, column: np.ndarray | int) -> np.ndarray:
        """table[rows, plane, column], quicker where they are many."""
        found: np.ndarray = table[rows, plane, column] if rows.size * np.size(column) < MANY else table.reshape(-1).take(rows * table[0].size
                + (plane * table.shape[2] + column))
        return found

    def own_access(self, gids: np.ndarray, column: np.ndarray, lane: np.ndarray, epoch: np.ndarray) -> np.ndarray:
        """True where the access was made by the asking thread itself (and, for groups, has completed)."""
        warp, same = (gids >> 5) % self.warps, lane == (gids & 31)
        mine: np.ndarray = same & (column == warp)
        if self.has_bulk:
            mine |= same & (column == self.bulk0 + warp) & (epoch <= self.bulk_done[gids])
        if self.has_cp:
            mine |= same & (column == self.cp0 + warp) & (epoch <= self.cp_done[gids])
        return mine

    def own_groups(self, gids: np.ndarray, column: np.ndarray, lane: np.ndarray, epoch: np.ndarray) -> np.ndarray:
        """True where the asking thread itself has waited for the group, of bulk stores (that they have read, or are written) or of cp.async."""
        warp, mine = (gids >> 5) % self.warps, np.zeros(len(gids), bool)
        groups = ((self.has_bulk, self.bulk0, self.bulk_done), (self.has_bulk, self.written0, self.bulk_written), (self.has_cp, self.cp0, self.cp_done))
        for present, first, done in groups:
            if present:
                mine |= (lane == (gids & 31)) & (column == first + warp) & (epoch <= done[gids])
        return mine
