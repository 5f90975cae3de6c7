# SPDX-License-Identifier: Apache-2.0
"""Order of accesses to global memory between launches that may overlap.

A grid knows all of the grids that were over before it started, and what those had learned; its threads learn of those in front of it by griddepcontrol.wait, and of
running ones by flags, which tell all that the other one knows. Between devices a flag needs system scope at both ends.

reference: PTX ISA 8.7 to 8.10 and griddepcontrol; CUDA Programming Guide, Streams, Events, Programmatic Dependent Launch.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.events import Listener
from . import findings_grids
from .global_order import GlobalOrder
from .global_words import COLUMN, LANE, SERIAL, SYNC, words_at
from .grid_knowledge import GridKnowledge, merge, of_vector
from .grid_table import ALL, GridTable, device_key, mark, system_key

if TYPE_CHECKING:
    from ..machine.cohort import Cohort
    from .async_reads import Box, Ends
    from .clocks import Clocks
    from .findings import Watched
    from .global_words import Part, Stamped
    from .grid_knowledge import Known

KEPT = 4            # fences remembered of a warp


@dataclass
class Fence:
    """A fence of wider than CTA scope by the threads `gids` of a warp, at its epoch, and what they knew."""

    gids: np.ndarray
    epoch: int
    system: bool
    known: Known


class GridOrder(GlobalOrder):
    """Order of accesses to global memory in a launch beside others, whose place among them is machine.grid (emulator/grid.py). GridFlags tells it of flags."""

    def __init__(self, machine: Watched, clocks: Clocks) -> None:
        super().__init__(machine, clocks)
        self.grid: Any = machine.grid
        self.table: GridTable = self.grid.table
        self.across = GridKnowledge(clocks)
        self.run: dict[int, list[Fence]] = {}                        # warp -> its latest fences
        self.late: dict[int, list[tuple[np.ndarray, Known]]] = {}    # warp -> what relaxed reads of its lanes saw of other devices
        self.inherited: Known = self._inherit()

    def _enter(self, domains: np.ndarray) -> np.ndarray:
        for domain in domains.tolist():
            self.across.forget(domain)
            for warp in range(domain * self.clocks.warps, (domain + 1) * self.clocks.warps):
                self.late.pop(warp, None)
                self.run.pop(warp, None)
        return self.table.enter(self.grid.number, self.M.slot_cta[domains * self.M.cluster])

    def foreign(self, who: np.ndarray) -> np.ndarray:
        """True for stamps of other grids."""
        serial = who >> SERIAL
        found: np.ndarray = (serial != 0) & (self.table.numbers(serial) != self.grid.number)
        return found

    # --- what is known of other grids ---------------------------------------------------------------------------------
    def _inherit(self) -> Known:
        """What all threads know from the start, as far as it still matters: grids that are over, and what their threads had learned. A launch's
        start is a proxy fence too."""
        noted, found = {number for grids in self.table.touched.values() for number in grids}, {}  # type: ignore[var-annotated]
        for number in self.grid.known_before:
            if number in noted:
                merge(found, {mark(number): ALL})
            merge(found, {key: table for key, table in self.table.learned.get(number, {}).items() if self.table.of_key(key) in noted})
        return {key: np.stack([table[0], table.max(axis=0)]) for key, table in found.items()}

    def _learn_across(self, gids: np.ndarray, known: Known) -> None:
        self.across.learn(gids, self.M.alive, known)
        merge(self.table.learned.setdefault(self.grid.number, {}), known)

    def _ordered(self, gids: np.ndarray, who: np.ndarray, when: np.ndarray, P_needed: bool) -> np.ndarray:
        ok = super()._ordered(gids, who, when, P_needed)
        left = ~ok & ~np.isin(self.table.numbers(who >> SERIAL), self.grid.before)
        ok |= ~left
        if left.any():
            gids = np.broadcast_to(gids, who.shape)
            ok[left] = self._known_across(gids[left], who[left] >> SERIAL, who[left] >> COLUMN & 0xFFFF, when[left] >> 20, int(P_needed))
        return ok

    def _known_across(self, gids: np.ndarray, serial: np.ndarray, column: np.ndarray, epoch: np.ndarray, plane: int) -> np.ndarray:
        ok, domain = np.zeros(len(gids), bool), (gids >> 5) // self.clocks.warps
        for d, s in np.unique(np.stack([domain, serial], axis=1), axis=0).tolist():
            pick = (domain == d) & (serial == s)
            if mark(int(self.table.owner[s])) in self.inherited:
                ok[pick] = True
            elif s in self.inherited:
                told = self.inherited[s][plane]
                ok[pick] = (column[pick] < len(told)) & (told[np.minimum(column[pick], len(told) - 1)] >= epoch[pick])
            if d in self.across.events and not ok[pick].all():
                nought = np.zeros(int(pick.sum()), np.int64)
                ok[pick] |= self.across.covers(gids[pick], s, column[pick], epoch[pick], plane)
                ok[pick] |= self.across.covers(gids[pick], mark(int(self.table.owner[s])), nought, nought + 1, plane)
        return ok

    def waited(self, C: Cohort) -> None:
        """griddepcontrol.wait: its threads know all of the grids in front."""
        known = {mark(number): ALL for number in self.grid.learned_by_waiting()}
        if known:
            self._learn_across(C.gids, known)

    def proxy_fence(self, C: Cohort) -> None:
        """fence.proxy.async on global memory."""
        super().proxy_fence(C)
        for domain in np.unique((C.gids >> 5) // self.clocks.warps).tolist():
            self.across.fenced(domain)

    # --- accesses: what each grid did in an array is kept apart -------------------------------------------------------
    def read(self, gids: np.ndarray, allocation: Stamped, offset: np.ndarray, nbytes: int, site: int, sync: bool = False, constant: bool = False,
             groups: np.ndarray | None = None) -> None:
        """Lanes read."""
        at, mask = words_at(offset, nbytes)
        self._touch(gids, allocation, at, mask, site, sync, "read", groups)
        super().read(gids, allocation, offset, nbytes, site, sync, constant, groups)

    def write(self, gids: np.ndarray, allocation: Stamped, offset: np.ndarray, nbytes: int, site: int, sync: bool = False,
              value: Callable[[Any], np.ndarray] | None = None, blind: bool = False) -> None:
        """Lanes write."""
        at, mask = words_at(offset, nbytes)
        self._touch(gids, allocation, at, mask, site, sync, "write")
        super().write(gids, allocation, offset, nbytes, site, sync, value, blind)

    def async_read(self, gid: int, allocation: Stamped, box: Box, site: int, ends: Ends) -> None:
        """A copy by the engine reads. A multicast, which several barriers end, other grids take for a read that is over at once."""
        at = box.words(allocation.nbytes)
        gids = np.full(len(at), gid)
        if len(ends) == 1:
            who, when = (np.full(len(at), stamp) for stamp in ends[0])
            self._note(gids, allocation, at, who, when, site, "async read")
        else:
            self._touch(gids, allocation, at, 15, site, False, "async read")
        super().async_read(gid, allocation, box, site, ends)

    def async_write(self, gid: int, allocation: Stamped, at: np.ndarray, group: int, site: int, reduction: bool = False) -> None:
        """A bulk or tensor store writes."""
        column = self.clocks.written0 + (gid >> 5) % self.clocks.warps                  # it is known by its bulk group
        who = int(self.serial[(gid >> 5) // self.clocks.warps]) << SERIAL | column << COLUMN | (gid & 31) << LANE | int(reduction) << SYNC | 15
        self._note(np.full(len(at), gid), allocation, at, np.full(len(at), who), np.full(len(at), group << 20 | site), site, "async write")
        super().async_write(gid, allocation, at, group, site, reduction)

    def _touch(self, gids: np.ndarray, allocation: Stamped, at: np.ndarray, mask: np.ndarray | int, site: int, sync: bool, verb: str,
               groups: np.ndarray | None = None) -> None:
        who, when = self._stamps(gids, site, mask, sync, groups)
        if at.ndim == 2:
            gids, who, when = (np.broadcast_to(a[:, None], at.shape) for a in (gids, who, when))
        self._note(gids, allocation, at, who, when, site, verb)

    def _note(self, gids: np.ndarray, allocation: Stamped, at: np.ndarray, who: np.ndarray, when: np.ndarray, site: int, verb: str) -> None:
        """An access comes after those of other grids, or is a finding; it is noted for theirs."""
        kind = verb.removeprefix("async ")
        for number, touched in self.table.touched.get(allocation.address, {}).items():
            if number == self.grid.number or number in self.grid.known_before:
                continue
            for other, (whos, whens) in touched.tables.items():
                if other == "write" or kind == "write":
                    self._compare(gids, allocation, at, who, (whos[at], whens[at]), site, verb, other)
        self.table.of(allocation, self.grid.number).note(kind, at, who, when)

    def _compare(self, gids: np.ndarray, allocation: Stamped, at: np.ndarray, mine: np.ndarray, theirs: tuple[np.ndarray, np.ndarray], site: int, verb: str,
                 other: str) -> None:
        who, when = theirs
        bad = ((who & mine & 15) != 0) & ((who & mine) >> SYNC & 1 == 0)
        if bad.any():
            bad[bad] = ~self._ordered(gids[bad], who[bad], when[bad], P_needed=False)
        if bad.any():
            self._report(gids, allocation, who, when, at, bad, site, verb, other)
        elif verb == "async read" and (who != 0).any():
            self._check_proxy(gids, allocation, at, who, when, site)

    def _check_proxy(self, gids: np.ndarray, allocation: Stamped, at: np.ndarray, who: np.ndarray, when: np.ndarray, site: int) -> None:
        """What another grid's threads stored, this one's copies see only with a proxy fence between."""
        other = self.table.grids[int(self.table.owner[int(who[who != 0][0]) >> SERIAL])]
        stored = (who != 0) & ((who >> COLUMN & 0xFFFF) < other.warps * other.cluster)
        if stored.any():
            stored[stored] = ~self._ordered(gids[stored], who[stored], when[stored], P_needed=True)
        for k in np.flatnonzero(stored)[:1].tolist():
            findings_grids.unfenced(self.M, site, int(who[k]), int(when[k]), int(gids[k]), allocation, int(at[k]) * 4)

    # --- what is found ----------------------------------------------------------------------------------------------
    def _report(self, gids: np.ndarray, allocation: Stamped, who: np.ndarray, when: np.ndarray, at: np.ndarray, bad: np.ndarray, site: int, verb: str,
                other_verb: str) -> None:
        foreign = bad & self.foreign(who)
        if foreign.any():
            gids = np.broadcast_to(gids, bad.shape)
            findings_grids.between(self.M, verb, site, other_verb, who[foreign], when[foreign], gids[foreign], allocation, at[foreign] * 4)
        if (bad & ~foreign).any():
            super()._report(gids, allocation, who, when, at, bad & ~foreign, site, verb, other_verb)

    # --- flags ------------------------------------------------------------------------------------------------------
    def _snapshot_across(self, gw: int, vec: np.ndarray) -> Known:
        """What lanes of a warp that have published `vec` tell other grids."""
        known = self.across.of(gw, vec)
        merge(known, self.inherited)
        merge(known, {int(self.serial[gw // self.clocks.warps]): of_vector(self.clocks, vec)})
        return known

    def fence_ran(self, C: Cohort, narrow: bool, system: bool) -> None:
        """fence or membar. One of system scope acquires what relaxed reads have seen of other devices, and what it covers may be published to them."""
        if narrow:
            return
        for warp in np.unique(C.gids >> 5).tolist() if system and self.late else ():
            for lanes, known in self.late.get(warp, ()):
                ran = lanes[np.isin(lanes, C.gids)]
                if len(ran):
                    self._learn_across(ran, known)
        units = self.M.units(C)
        vec, ends = self.clocks.publish(C, units), np.append(units.starts[1:], C.n)
        for k, gw in enumerate(units.gw.tolist()):
            fences = self.run.setdefault(gw, [])
            fences.append(Fence(C.gids[units.starts[k]:ends[k]], int(self.clocks.epoch[gw]) - 1, system, self._snapshot_across(gw, vec[k])))
            del fences[:-KEPT]

    def _covered_across(self, gids: np.ndarray, system: bool) -> Known:
        """What fences (of system scope) before a write by threads `gids` of a warp covered: their own, and those of threads that they have met since."""
        clocks, found, cta = self.clocks, {}, int(gids[0]) // self.M.T  # type: ignore[var-annotated]
        for warp in range(cta * self.M.warps, (cta + 1) * self.M.warps):
            for fence in self.run.get(warp, ()):
                if system and not fence.system:
                    continue
                met = np.isin(gids, fence.gids).any()
                if met or clocks.ordered(clocks.K, clocks.row_of[gids[:1]], np.array([warp % clocks.warps]), int(fence.gids[0] & 31), fence.epoch).all():
                    merge(found, fence.known)
        return found

    def released(self, C: Cohort, parts: list[Part], info: Any) -> None:
        """A synchronising write to global memory: to its device, and with system scope to other devices."""
        for allocation, where, offset in parts if not info.narrow else ():
            one = C if where is None else type(C)(C.gids[where], None, C.pc)  # type: ignore[arg-type]  # reads no registers
            units = self.M.units(one)
            vec: Any = self.clocks.publish(one, units) if info.release else None
            ends = np.append(units.starts[1:], one.n)
            for k, gw in enumerate(units.gw.tolist()):
                lanes = slice(units.starts[k], ends[k])
                known = self._snapshot_across(gw, vec[k]) if info.release else None
                for key in (device_key(self.grid.device), *([system_key(self.grid.device)] if info.system else ())):
                    told = known if known is not None else self._covered_across(one.gids[lanes], key == system_key(self.grid.device))
                    for word in np.unique(np.broadcast_to(offset, one.n)[lanes] >> 2).tolist() if told else ():
                        merge(self.table.published.setdefault((allocation.address, word, key), {}), told)

    def acquired(self, C: Cohort, parts: list[Part], info: Any) -> None:
        """A synchronising read of global memory. What another device published, it learns only with system scope, and where it is relaxed only with the next fence
        of system scope."""
        for allocation, where, offset in parts if self.table.published and not info.narrow else ():
            gids = C.gids if where is None else C.gids[where]
            offset = np.broadcast_to(offset, gids.shape)
            for word in np.unique(offset >> 2).tolist():
                lanes = gids[offset >> 2 == word]
                for key, abroad in self._publishers(info.system):
                    known = self.table.published.get((allocation.address, word, key))
                    if known and abroad and not info.acquire:
                        for warp in np.unique(lanes >> 5).tolist():
                            self.late.setdefault(warp, []).append((lanes[lanes >> 5 == warp], dict(known)))
                    elif known:
                        self._learn_across(lanes, known)

    def _publishers(self, system: bool) -> Iterable[tuple[int, bool]]:
        """(key in `published`, whether of another device)."""
        yield device_key(self.grid.device), False
        for device in sorted(self.table.devices - {self.grid.device}) if system else ():
            yield system_key(device), True


class GridFlags(Listener):
    """Hears the flags and fences by which grids that run at once may know of each other."""

    def __init__(self, order: GridOrder) -> None:
        self.order = order

    def global_read(self, C: Cohort, address: np.ndarray, parts: list[Part], info: Any) -> None:
        """ld; a synchronising one may learn of other grids."""
        if info.volatile:
            self.order.acquired(C, parts, info)

    def global_written(self, C: Cohort, address: np.ndarray, parts: list[Part], info: Any, value: Callable[..., Any]) -> None:
        """st; a synchronising one may tell other grids."""
        if info.volatile:
            self.order.released(C, parts, info)

    def global_atomic(self, C: Cohort, parts: list[Part], info: Any) -> None:
        """atom and red."""
        self.order.acquired(C, parts, info)
        self.order.released(C, parts, info)

    def memory_fenced(self, C: Cohort, narrow: bool, system: bool) -> None:
        """fence and membar."""
        self.order.fence_ran(C, narrow, system)
