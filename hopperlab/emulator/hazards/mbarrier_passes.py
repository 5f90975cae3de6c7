# SPDX-License-Identifier: Apache-2.0
"""Whether every arrival, and every copy's bytes, can only count in the phase in which they did.

An arrival in phase n must come after the end of phase n - 1: its thread has seen that phase complete, or comes after a thread that has, or after all of
its arrivals. Else it may take the place of another one: the mbarrier was initialised for fewer arrivals than a pass brings, or somebody arrives again without
having waited. For bytes that is an expect_tx too small for two copies. The order of landings plays no part. PTX ISA 9.7.13.15.5.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import findings_barriers
from ..machine.units import lane_masks
from .clocks import V
from .dropped import Dropped
from .findings_barriers import Surplus
from .kinds import Kind

if TYPE_CHECKING:
    from ..machine.cohort import Cohort
    from ..machine.units import Units
    from .clocks import Clocks
    from .findings import Watched

ALL_LANES = 0xFFFFFFFF


def rows_of(ids: np.ndarray) -> np.ndarray | slice:
    """The rows of these mbarriers in a table; of one alone, as when a copy ends its phase, a slice, which costs least."""
    return ids if len(ids) > 1 else slice(int(ids[0]), int(ids[0]) + 1)


class Passes:
    """By barrier and warp: the epoch of the arrivals of the running phase and of the one before, and the lanes that arrived."""

    PER_WARP = ("arrived", "before", "lanes", "lanes_before", "seen", "forms", "forms_before", "ever")
    PER_BARRIER = ("several", "bytes_now", "bytes_before", "twice", "twice_before", "wanted")
    arrived: np.ndarray
    before: np.ndarray
    lanes: np.ndarray
    lanes_before: np.ndarray
    ever: np.ndarray            # lanes of each warp that have arrived in any pass
    seen: np.ndarray            # when each warp first saw the latest phase complete
    forms: np.ndarray           # of each warp's latest arrival: 1, or 2 where it announces bytes; one thread may do both in a pass
    forms_before: np.ndarray
    several: np.ndarray         # whether a lane brings several arrivals a pass
    bytes_now: np.ndarray
    bytes_before: np.ndarray
    twice: np.ndarray
    twice_before: np.ndarray
    wanted: np.ndarray

    def __init__(self, machine: Watched, clocks: Clocks, size: int) -> None:
        self.M, self.clocks = machine, clocks
        for name in self.PER_WARP:
            setattr(self, name, np.zeros((size, clocks.warps), np.int64))
        for name in self.PER_BARRIER:
            setattr(self, name, np.zeros(size, bool))
        self.extra: dict[int, int] = {}                 # surplus arrivals of the running pass
        self.counted: dict[int, dict[int, int]] = {}    # the lanes of each warp that are among them, in whatever pass
        self.flooded: dict[int, dict[int, int]] = {}    # mbarriers of which one instruction ended several phases: the lanes of each warp that have arrived in that pass
        self.dropped = Dropped()
        self.surplus: dict[int, Surplus] = {}
        self.told: set[int] = set()                     # of whose surplus enough has been said
        self.astray: set[tuple[int, int]] = set()       # (barrier, warp) whose latest arrivals are all surplus

    def grow(self, slots: int, old: int, new: int) -> None:
        """A CTA may have `new` barriers instead of `old`."""
        for name in (*self.PER_BARRIER, *self.PER_WARP):
            table = getattr(self, name)
            wide = np.zeros((slots, new, *table.shape[1:]), table.dtype)
            wide[:, :old] = table.reshape(slots, old, *table.shape[1:])
            setattr(self, name, wide.reshape(slots * new, *table.shape[1:]))
        self.dropped.grow(old, new)
        self.extra = {b // old * new + b % old: count for b, count in self.extra.items()}
        self.surplus = {b // old * new + b % old: one for b, one in self.surplus.items()}
        self.counted = {b // old * new + b % old: lanes for b, lanes in self.counted.items()}
        self.flooded = {b // old * new + b % old: lanes for b, lanes in self.flooded.items()}
        self.told = {b // old * new + b % old for b in self.told}

    def born(self, ids: np.ndarray) -> None:
        """mbarrier.init: a new life."""
        for name in (*self.PER_WARP, *self.PER_BARRIER[:-1]):
            getattr(self, name)[ids] = 0
        self.dropped.born(ids)
        for b in ids.tolist() if self.extra or self.flooded else ():
            self.extra.pop(b, None), self.flooded.pop(b, None), self.counted.pop(b, None)

    # --- what counts in a phase -----------------------------------------------------------------------------------------
    def arrive(self, C: Cohort, ids: np.ndarray, units: Units, vec: np.ndarray, known: np.ndarray, waited: np.ndarray, counts: np.ndarray, index: int) -> None:
        """Warps (or parts of them) arrive, each on one mbarrier, `ids`. vec: what they publish; known: what has happened before them in whatever way; waited: when
        each warp saw the latest phase of theirs complete; counts: arrivals by lane."""
        mine, own, form = ids, units.gw % self.clocks.warps, self._form(index)
        epoch, at = self.clocks.epoch[units.gw] - 1, np.arange(len(mine))
        mask = np.full(len(mine), ALL_LANES, np.int64) if units.counts is None else lane_masks(C, units)
        known = known.copy()
        known[at, own] = epoch
        seen = waited
        self.ever[mine, own] |= mask
        self.several[mine] |= (np.maximum.reduceat(counts, units.starts) > 1) | (self.lanes[mine, own] & mask != 0) & (self.forms[mine, own] != form)
        self.astray.clear()
        ok = (self.M.barriers.phase[mine] == 0) | ((seen > 0) & (known >= seen)).any(axis=1)
        if not ok.all():
            total = np.add.reduceat(counts, units.starts)
            for k in np.flatnonzero(~ok).tolist():
                ok[k] = self._in_turn(int(mine[k]), int(own[k]), int(mask[k]), known[k], int(vec[k, V, own[k]]))
                if not ok[k]:
                    self.astray.add((int(mine[k]), int(own[k])))
                    self._out_of_turn(int(mine[k]), int(own[k]), int(mask[k]), int(total[k]), int(C.gids[units.starts[k]]), index)
        if self.extra:
            for b in mine[ok].tolist():
                self.extra.pop(b, None)                 # a new pass
        again = (self.lanes[mine, own] & mask != 0) & (self.forms[mine, own] == form)
        if again.any():
            self.twice[mine[again]] = True
        self.arrived[mine, own], self.lanes[mine, own], self.forms[mine, own] = epoch, mask, form

    def arrive_later(self, barrier: int, gids: np.ndarray, known: np.ndarray, waited: np.ndarray, index: int) -> None:
        """Lanes of one warp issue asynchronous arrivals (known: as above, of that warp)."""
        own, mask = int(gids[0] >> 5) % self.clocks.warps, int(np.bitwise_or.reduce(np.int64(1) << (gids & 31)))
        if self.M.barriers.phase[barrier] and not self._seen(known, waited) and not self._in_turn(barrier, own, mask, known, int(known[own])):
            self._out_of_turn(barrier, own, mask, len(gids), int(gids[0]), index)
        self.arrived[barrier, own], self.lanes[barrier, own] = known[own], self.lanes[barrier, own] | mask

    def too_many(self, gids: np.ndarray, barrier: int, together: int, index: int) -> None:
        """Lanes of one warp arrive together, and fewer arrivals are pending: others have arrived in the pass, so the mbarrier was initialised for too few; or
        nobody else has, and then one lane may have been meant. Where none is pending, `arrive` has not heard of it, and bytes that land first would end the phase."""
        own, mask = int(gids[0] >> 5) % self.clocks.warps, int(np.bitwise_or.reduce(np.int64(1) << (gids & 31)))
        pending, expected = int(self.M.barriers.pending[barrier]), int(self.M.barriers.expected[barrier])
        astray = (barrier, own) in self.astray
        others = barrier in self.surplus or bool(np.delete(self.lanes[barrier], own).any())
        form = self._form(index)
        here = self.lanes[barrier, own] & mask and self.forms[barrier, own] == form
        before = self.lanes_before[barrier, own] & mask and self.forms_before[barrier, own] == form
        again = bool(self.twice[barrier] or not pending and here or astray and before)
        if together > pending + expected and not again:
            self.flooded.setdefault(barrier, {own: mask})
        if together > 1 and (not others or again and together > expected) and barrier not in self.dropped.again:
            findings_barriers.past_the_phase(self.M, index, int(gids[0]), barrier, together)
            self.told |= {barrier} - self.surplus.keys()
            if others:
                return
        if not pending or not astray:
            self._count(barrier, own, mask, together - pending)
        self._keep(barrier, int(gids[0]), index, again, 1)
        one = self.surplus[barrier]
        one.seen |= again and not pending
        if (pending or together > expected) and not again:
            one.together = max(one.together, together)

    def too_many_landed(self, barrier: int, gid: int, missing: int, extra: int, index: int) -> None:
        """The asynchronous arrivals of one instruction are more than the phase has missing."""
        self._count(barrier, (gid >> 5) % self.clocks.warps, 1 << (gid & 31), extra)
        self._keep(barrier, gid, index, False, 1)

    def copied(self, barrier: int, gid: int, known: np.ndarray, waited: np.ndarray) -> bool:
        """A copy that signals `barrier` is issued, not in the first phase, and nothing has been announced in the running one. False where its bytes belong to a phase
        that was not told of them: nothing orders it after the phase before."""
        if self._seen(known, waited):
            return True
        own = (gid >> 5) % self.clocks.warps
        return self._in_turn(barrier, own, 1 << (gid & 31), known, int(known[own]))

    def announced(self, ids: np.ndarray, nbytes: np.ndarray) -> None:
        """expect_tx."""
        self.bytes_now[ids] |= nbytes > 0

    def observed(self, ids: np.ndarray, column: np.ndarray, epoch: np.ndarray) -> None:
        """Warps see the latest phase of these barriers complete, perhaps not for the first time."""
        old = self.seen[ids, column]
        self.seen[ids, column] = np.where(old == 0, epoch, old)

    def completed(self, done: np.ndarray | slice) -> None:
        """Phases are over."""
        self.seen[done] = 0
        for now, then in ((self.arrived, self.before), (self.lanes, self.lanes_before), (self.forms, self.forms_before), (self.bytes_now, self.bytes_before),
                          (self.twice, self.twice_before)):
            then[done] = now[done]
            now[done] = 0

    def _form(self, index: int) -> int:
        return 2 if "expect_tx" in self.M.body[index].mods else 1

    @staticmethod
    def _seen(known: np.ndarray, waited: np.ndarray) -> bool:
        return bool(((waited > 0) & (known >= waited)).any())

    def _in_turn(self, barrier: int, own: int, mask: int, known: np.ndarray, synced: int) -> bool:
        """Whether a warp that has not seen the phase before comes after all of its arrivals, and no bytes were to come. synced: up to which epoch
        its lanes know of each other."""
        if barrier in self.flooded:                     # no phase's own arrivals tell this pass from the one before
            if not self.flooded[barrier].get(own, 0) & mask:
                self.flooded[barrier][own] = self.flooded[barrier].get(own, 0) | mask
                return False
            del self.flooded[barrier]
        before = self.before[barrier]
        if self.bytes_before[barrier]:
            return False
        late = before > known
        late[own] = before[own] > synced and self.lanes_before[barrier, own] != mask
        return not late.any()

    # --- what is said of it ---------------------------------------------------------------------------------------------
    def _out_of_turn(self, barrier: int, own: int, mask: int, count: int, gid: int, index: int) -> None:
        self._count(barrier, own, mask, count)
        before = self.lanes_before[barrier, own] & mask and self.forms_before[barrier, own] == self._form(index)
        again = bool(before) or bool(self.twice_before[barrier])
        self._keep(barrier, gid, index, again)

    def _count(self, barrier: int, own: int, mask: int, more: int) -> None:
        """Lanes of a warp bring `more` surplus arrivals. A lane counts once: what its pass leaves over, the next one has beside its own."""
        lanes = self.counted.setdefault(barrier, {})
        if not lanes.get(own, 0) & mask:
            self.extra[barrier] = self.extra.get(barrier, 0) + more
        lanes[own] = lanes.get(own, 0) | mask

    def _keep(self, barrier: int, gid: int, index: int, again: bool, ahead: int = 0) -> None:
        expected, old = int(self.M.barriers.expected[barrier]), self.surplus.get(barrier)
        received = expected + self.extra.get(barrier, 0)
        most = sum(int(lanes).bit_count() for lanes in self.ever[barrier].tolist())
        if most > expected and not self.several[barrier]:                          # who came to the next pass counts once
            received = min(received, most)
        if old is None:
            self.surplus[barrier] = Surplus(index, gid, int(self.M.barriers.phase[barrier]) + ahead, expected, received, again)
        else:
            old.received = max(old.received, received)

    def too_few(self, barrier: int) -> bool:
        """Whether more arrivals come in a pass than the mbarrier counts: its phases end too early, and what follows from that is not said again."""
        one = self.surplus.get(barrier)
        return one is not None and not one.again

    def report(self, saw: np.ndarray, init_site: np.ndarray, init_count: np.ndarray) -> None:
        """The launch is over: name the mbarriers of which somebody has waited for a phase (saw: which ones), and those whose phases hold fewer than
        arrive together. Who arrives again without having waited has mostly overwritten something by that, and then
        that has been said."""
        errors = any(h.kind != Kind.DEADLOCK for h in self.M.findings.hazards)
        for barrier, one in sorted(self.surplus.items()):
            if barrier in self.told or not (one.together or one.seen or self.wanted[barrier] or saw[barrier].any()):
                continue
            if barrier in self.dropped.again:
                findings_barriers.after_drop(self.M, barrier, one, int(init_site[barrier]), int(init_count[barrier]), *self.dropped.again[barrier])
            elif not one.again:
                findings_barriers.init_too_few(self.M, barrier, one, int(init_site[barrier]), int(init_count[barrier]))
            elif one.seen or not errors:
                findings_barriers.arrives_again(self.M, barrier, one)
