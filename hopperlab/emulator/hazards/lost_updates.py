# SPDX-License-Identifier: Apache-2.0
"""Updates in two steps: a volatile or relaxed load and a store to the same word that follows from it, where another thread stores there as well.

Strong accesses are no data race (PTX ISA 8.7), but a load and a store are not one atomic: what another thread stores between the two is lost. A store is an
update if its value is made of the loaded one (a ticket, a counter), or if the loaded one is kept elsewhere (a letter that is taken, and its box emptied). Told are
two stores to one word by different threads, one of them an update, that nothing orders: neither synchronisation, nor that the second thread has looked at the
first one's store: in a loop that waits, or, where its value is not made of the word's, at all.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.events import Listener
from ..ptx.cfg import successors
from ..ptx.graphs import components
from .findings import in_array, shared
from .global_words import words_at
from .hazard import End
from .letters import FLOWS, STRONG

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..compile.translate import Translation
    from ..machine.cohort import Cohort
    from .clocks import Clocks
    from .findings import Watched
    from .global_order import GlobalOrder
    from .global_words import Part

STORES = ("st", "atom", "red", "cp")


@dataclass(frozen=True)
class Updates:
    """made: stores -> the strong loads of which their values are made; kept: strong loads whose value is stored somewhere; spins: those in loops that only wait."""

    made: dict[int, frozenset[int]]
    kept: frozenset[int]
    spins: frozenset[int]


def find(translation: Translation) -> Updates | None:
    """What the kernel has of it; None where it cannot lose anything."""
    body, ops = translation.function.body, translation.ops
    loads = [i for i in body if i.op == "ld" and STRONG.intersection(i.mods)]
    stores = [i for i in body if i.op == "st" and STRONG.intersection(i.mods)]
    if not loads or not stores:
        return None
    held: dict[str, set[int]] = {}                   # strong loads that flow into a register
    for load in loads:
        for reg in load.dsts():
            held.setdefault(reg.name, set()).add(load.index)
    grown = True
    while grown:
        grown = False
        for i in body:
            if i.index in ops and i.op not in FLOWS:
                continue
            given = set().union(*(held.get(r.name, ()) for r in i.srcs())) if i.op != "setp" else set()
            for reg in i.dsts() if given else ():
                if not given <= held.setdefault(reg.name, set()):
                    held[reg.name] |= given
                    grown = True
    flows = {i.index: frozenset().union(*(held.get(r.name, ()) for r in _values(i))) for i in body if i.op in ("st", "atom", "red")}
    made = {i.index: flows[i.index] for i in stores if flows[i.index]}
    return Updates(made, frozenset().union(*flows.values()), _spins(translation, loads))


def _values(instr: Any) -> list[Any]:
    """Registers whose values a store, or an atomic, takes."""
    found: list[Any] = []
    for operand in instr.operands[2 if instr.op == "atom" else 1:]:
        found += [o for o in getattr(operand, "items", (operand,)) if hasattr(o, "type")]
    return found


def _spins(translation: Translation, loads: list[Any]) -> frozenset[int]:
    """Strong loads in loops that store nothing."""
    body = translation.function.body
    starts, following = successors(translation.function)
    ends = [*starts[1:], len(body)]
    idle = [not any(i.op in STORES for i in body[a:b]) for a, b in zip(starts, ends, strict=True)]

    def ways(k: int) -> list[int]:
        return [n for n in following[k] if n < len(starts) and idle[n]] if idle[k] else []
    inside: set[int] = set()
    for k in range(len(starts)):
        if idle[k] and k not in inside:
            for part in components(k, ways):
                if len(part) > 1 or part[0] in ways(part[0]):
                    inside.update(part)
    return frozenset(i.index for i in loads if any(starts[k] <= i.index < ends[k] for k in inside))


class Table:
    """Of one array, or of shared memory, by word: the latest strong store (thread + 1, CTA's number, epoch, instruction, whether an update), and, as bits by warp,
    who has looked at it since (spun: in a loop that waits), and who has ever taken its value."""

    def __init__(self, words: int) -> None:
        self.who, self.life, self.epoch, self.site = (np.zeros(words, np.int64) for _ in range(4))
        self.update = np.zeros(words, np.int64)        # the load on which it rests, + 1
        self.spun, self.looked = np.zeros(words, np.uint64), np.zeros(words, np.uint64)
        self.took: dict[int, np.ndarray] = {}          # by load


class LostUpdates(Listener):
    """Hears strong accesses before they are entered anywhere."""

    def __init__(self, machine: Watched, clocks: Clocks, everywhere: GlobalOrder, updates: Updates) -> None:
        self.M, self.clocks, self.everywhere, self.updates = machine, clocks, everywhere, updates
        self.tables: dict[int, Table] = {}

    def admitted(self, domains: np.ndarray, reused: np.ndarray) -> None:
        """Shared memory of new CTAs has no history."""
        table = self.tables.get(-1)
        if table is not None and len(reused):
            for words in (table.who, table.spun, table.looked, *table.took.values()):
                words.reshape(self.M.slots, -1)[reused] = 0

    def _table(self, key: int, nbytes: int) -> Table:
        table = self.tables.get(key)
        if table is None:
            table = self.tables[key] = Table(-(-nbytes // 4) + 4 if key >= 0 else nbytes // 4)
        return table

    # --- loads ------------------------------------------------------------------------------------------------------
    def global_read(self, C: Cohort, address: np.ndarray, parts: list[Part], info: Any) -> None:
        """Somebody looks."""
        for allocation, where, offset in parts if info.volatile else ():
            gids = C.gids if where is None else C.gids[where]
            self._look(self._table(allocation.address, allocation.nbytes), gids, words_at(np.broadcast_to(offset, gids.shape), info.nbytes)[0], info.index)

    def shared_read(self, C: Cohort, flat: np.ndarray, info: Any) -> None:
        """The same."""
        if info.volatile:
            self._look(self._table(-1, len(self.M.smem)), C.gids, words_at(flat, info.nbytes)[0], info.index)

    def _look(self, table: Table, gids: np.ndarray, at: np.ndarray, site: int) -> None:
        bits = _bits(gids, at)
        np.bitwise_or.at(table.looked, at, bits)
        if site in self.updates.spins:
            np.bitwise_or.at(table.spun, at, bits)
        if site in self.updates.kept:
            took = table.took.get(site)
            if took is None:
                took = table.took[site] = np.zeros(len(table.who), np.uint64)
            np.bitwise_or.at(took, at, bits)

    # --- stores -----------------------------------------------------------------------------------------------------
    def global_written(self, C: Cohort, address: np.ndarray, parts: list[Part], info: Any, value: Callable[..., Any]) -> None:
        """Is it an update, or does it meet one?"""
        for allocation, where, offset in parts if info.volatile else ():
            gids = C.gids if where is None else C.gids[where]
            at = words_at(np.broadcast_to(offset, gids.shape), info.nbytes)[0]
            k = self._store(self._table(allocation.address, allocation.nbytes), gids, at, info.index)
            if k is not None:
                self._tell(info.index, int(gids[k[0]]), k, in_array(allocation, int(at[k]) * 4))

    def shared_written(self, C: Cohort, flat: np.ndarray, info: Any, value: Callable[..., Any]) -> None:
        """The same."""
        if info.volatile:
            at = words_at(flat, info.nbytes)[0]
            k = self._store(self._table(-1, len(self.M.smem)), C.gids, at, info.index)
            if k is not None:
                self._tell(info.index, int(C.gids[k[0]]), k, shared(self.M, int(at[k]) * 4))

    def _store(self, table: Table, gids: np.ndarray, at: np.ndarray, site: int) -> tuple[int, ...] | None:
        """Enter it; returns the first lane (and word) that meets another thread's store, if one of the two is an update and nothing orders them."""
        wide = gids if at.ndim == 1 else np.broadcast_to(gids[:, None], at.shape)
        bits, made = _bits(gids, at), self.updates.made.get(site, frozenset())
        update = np.zeros(at.shape, np.int64)
        for load, took in table.took.items():
            update = np.where((took[at] & bits != 0) & (update == 0), load + 1, update)
        mine = np.isin(update - 1, list(made))                           # its own value is made of the word's
        other = (table.who[at] != 0) & (table.who[at] != wide + 1) & ((update != 0) | (table.update[at] != 0))
        seen = np.where(mine, table.spun[at], table.looked[at]) & bits != 0
        bad = other & ~seen
        if bad.any():
            bad[bad] = ~self._ordered(table, wide[bad], at[bad])
        found = tuple(int(axis[0]) for axis in np.nonzero(bad)) if bad.any() else None
        self._other = (int(table.site[at[found]]), int(update[found]), int(table.update[at[found]])) if found else None
        table.who[at], table.epoch[at] = wide + 1, self.clocks.epoch[wide >> 5]
        table.life[at] = self.everywhere.serial[(wide >> 5) // self.clocks.warps]
        table.site[at], table.update[at] = site, update
        table.spun[at] = table.looked[at] = 0
        if found is None and mine.any() and len(np.unique(at)) < at.size:      # lanes of one instruction that read the same value
            words, first, count = np.unique(at[mine], return_index=True, return_counts=True)
            if count.max() > 1:
                k = int(np.flatnonzero(mine.reshape(-1))[first[count.argmax()]])
                found = tuple(int(axis) for axis in np.unravel_index(k, at.shape))
                self._other = (site, int(update[found]), 0)
        return found

    def _ordered(self, table: Table, gids: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Which of the words' stores come before these threads."""
        gid = table.who[at] - 1
        warps = self.clocks.warps
        who = table.life[at] << 32 | (gid >> 5) % warps << 16 | (gid & 31) << 8 | 0x1F
        return self.everywhere._ordered(gids, who, table.epoch[at] << 20 | table.site[at], P_needed=False)

    def _tell(self, site: int, gid: int, k: tuple[int, ...], where: dict[str, Any]) -> None:
        other, mine, theirs = self._other  # type: ignore[misc]  # _store has set it
        load = (mine or theirs) - 1
        self.M.findings.add("update-lost", site, other, gid, **where, update=End.of(self.M.body[site if mine else other]).place.text(),
                            looked=End.of(self.M.body[load]).text())


def _bits(gids: np.ndarray, at: np.ndarray) -> np.ndarray:
    bits: np.ndarray = np.uint64(1) << (gids >> 5).astype(np.uint64) % np.uint64(64)
    return bits if at.ndim == 1 else np.broadcast_to(bits[:, None], at.shape)


def listeners(machine: Watched, clocks: Clocks, everywhere: GlobalOrder) -> list[Listener]:
    """One, where the kernel has such loads and stores."""
    found = machine.translation.once("updates", find)
    return [LostUpdates(machine, clocks, everywhere, found)] if found is not None and found.kept else []
