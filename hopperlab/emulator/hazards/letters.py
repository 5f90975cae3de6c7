# SPDX-License-Identifier: Apache-2.0
"""Volatile and relaxed words that nobody waits for: letters, whose value goes into results, beside the flags that say when to read them.

Strong accesses are no data race (PTX ISA 8.7), so a letter that is read before it has come, or overwritten before it was read, breaks no rule: the
reader gets the one before, or the one after. It is told as a warning where nothing orders the two accesses. Which loads read letters follows from the kernel:
their result decides about nothing (no branch, comparison, address or atomic), nor is it thrown away where a flag behind it has changed (a sequence lock). A word
that some deciding load has read as well is a flag. A letter may be handed on: where its value goes into a word that others poll, it decides after all. Which
words those are shows when the launch is over, and what depends on it is told then.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.events import Listener
from ..ptx.graphs import components
from .findings import in_array, shared
from .global_words import SYNC, words_at
from .shared_order import words_of
from .stamps import LANE_MASK, R_EPOCH, R_LANE, R_MASK, R_SITE_MASK, W_COLUMN, W_COLUMN_MASK, W_EPOCH, W_LANE, W_SITE_MASK, WHOLE, pack_write

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..compile.translate import Translation
    from ..machine.cohort import Cohort
    from ..ptx.ir import Instr
    from .clocks import Clocks
    from .findings import Watched
    from .global_order import GlobalOrder
    from .global_words import Part
    from .shared_order import SharedOrder

STRONG = frozenset(("volatile", "relaxed", "mmio"))
FLOWS = ("shfl", "redux", "mma", "wgmma", "wmma")        # hand values on, as arithmetic does
COMPARES = ("bra", "brx", "ret", "exit", "setp", "set", "slct", "call")
SPACES = ("global", "shared", "local", "param", "const")


@dataclass(frozen=True)
class Loads:
    """Instructions: loads of letters (`all`), those among them that are none where a word that one of `handing` has stored to is a flag, and these stores."""

    all: frozenset[int]
    doubtful: frozenset[int] = frozenset()
    handing: frozenset[int] = frozenset()


def letter_loads(translation: Translation) -> Loads:
    """Volatile and relaxed loads whose result decides about nothing; updates of a word in two steps (lost_updates.py) may decide."""
    body = translation.function.body
    loads = [i for i in body if i.op == "ld" and STRONG.intersection(i.mods)]
    if not loads:
        return Loads(frozenset())
    surely, perhaps = (_letters(translation, loads, handed) for handed in (True, False))
    handing = {load: _handing(translation, load) for load in perhaps - surely}
    doubtful = frozenset(load for load, stores in handing.items() if all(body[i].operands[0] != body[load].operands[1] for i in stores))     # no updates
    return Loads(doubtful | surely, doubtful, frozenset().union(*(handing[load] for load in doubtful)))


def _letters(translation: Translation, loads: list[Instr], handed: bool) -> set[int]:
    """handed: what is stored by a strong store to global memory decides where any load that decides may read it."""
    body, ops = translation.function.body, translation.ops
    wanted = {name for i in body for name in _decides(i, ops)}
    before = -1
    while len(wanted) > before:
        before = len(wanted)
        told = [i for i in body if i.op == "ld" and any(r.name in wanted for r in i.dsts())]
        for i in body:
            hands_on = any(_may_return(i, load, handed) for load in told) if i.op == "st" else (
                (i.index not in ops or i.op in FLOWS) and any(r.name in wanted for r in i.dsts()))
            if hands_on:
                wanted.update(r.name for r in i.srcs())
    found = [i for i in loads if not any(r.name in wanted for r in i.dsts()) and translation.wants_result(i.index)]
    return {i.index for i in found} - _checked(translation, found, [i for i in loads if i not in found])


def _handing(translation: Translation, load: int) -> set[int]:
    """Strong stores to global memory into which the value of this load may go, as far as registers lead there."""
    body = translation.function.body
    held, uses, before = {r.name for r in body[load].dsts()}, set(), -1
    while len(held) > before:
        before = len(held)
        for i in body:
            if any(r.name in held for r in i.srcs()):
                held.update(r.name for r in i.dsts())
                if i.op == "st" and STRONG.intersection(i.mods):
                    uses.add(i.index)
    return uses


def _checked(translation: Translation, letters: list[Instr], deciding: list[Instr]) -> set[int]:
    """Letters in a loop that a flag behind them decides about, of which nothing is kept when the loop comes round: a sequence lock, whose reader looks whether anybody
    wrote meanwhile."""
    if not letters or not deciding:
        return set()
    body, checked = translation.function.body, set()
    names = list(translation.slots)
    for part in components(0, lambda k: translation.successors[k]):
        spans = [translation.spans[k] for k in part]
        instrs = [body[i] for a, b in spans for i in range(a, b)]
        here = {i.index for i in instrs}
        for letter in letters if len(part) > 1 or part[0] in translation.successors[part[0]] else ():
            if letter.index in here and any(d.index in here and d.index > letter.index for d in deciding):
                held, uses = _held(letter, instrs, translation.ops)
                carried = {names[slot] for slot in translation.blocks[part[0]].live_in}
                if not uses and not held & carried:
                    checked.add(letter.index)
    return checked


def _held(letter: Instr, instrs: list[Instr], ops: dict[int, Any]) -> tuple[set[str], bool]:
    """Registers of these instructions that a letter's value flows into, and whether any of them stores or otherwise uses it."""
    held, before, uses = {r.name for r in letter.dsts()}, -1, False
    while len(held) > before:
        before = len(held)
        for i in instrs:
            if any(r.name in held for r in i.srcs()):
                uses |= i.index in ops
                held.update(r.name for r in i.dsts())
    return held, uses


def _decides(instr: Instr, ops: dict[int, Any]) -> list[str]:
    """Registers on which it depends what happens: not the value that is stored, and not what arithmetic makes another value of."""
    if instr.op in COMPARES or instr.index in ops and instr.op != "st" and instr.op not in FLOWS:
        return [r.name for r in instr.srcs()]
    guard = [] if instr.guard is None else [instr.guard[0].name]
    if instr.op != "st":
        return guard
    bases: list[Any] = [getattr(o, "base", None) for o in instr.operands]
    return guard + [b.name for b in bases if hasattr(b, "type")]


def _space(instr: Instr) -> str:
    return next((space for space in SPACES for mod in instr.mods if mod.split("::")[0] == space), "")


def _may_return(store: Instr, load: Instr, handed: bool) -> bool:
    """May this load read what that store wrote? Of global memory only where both are strong: results are plain stores. handed: ask of global memory."""
    one, other = _space(store), _space(load)
    if "" not in (one, other) and one != other:
        return False
    if one == "global":
        return handed and bool(STRONG.intersection(store.mods) and STRONG.intersection(load.mods))
    return one != "" or bool(STRONG.intersection(store.mods) and STRONG.intersection(load.mods))


def _words(table: dict[int, np.ndarray], allocation: Any) -> np.ndarray:
    """A mark for each word of an array."""
    marks = table.get(allocation.address)
    if marks is None:
        marks = table[allocation.address] = np.zeros(-(-allocation.nbytes // 4) + 4, bool)
    return marks


class Letters(Listener):
    """Hears strong accesses, once they are entered in the stamps."""

    def __init__(self, machine: Watched, clocks: Clocks, memory: SharedOrder, everywhere: GlobalOrder, loads: Loads) -> None:
        self.M, self.clocks, self.memory, self.everywhere, self.loads = machine, clocks, memory, everywhere, loads.all
        self.some = loads                               # … of which some may be none
        self.sure = loads.all - loads.doubtful
        self.sites = np.array(sorted(loads.all))
        self.stores = np.array([i.index for i in machine.body if i.op == "st" and STRONG.intersection(i.mods)], int)
        self.reductions = np.array([i.index for i in machine.body if i.op == "cp" and "reduce" in i.mods], int)
        self.flags: dict[int, np.ndarray] = {}          # words of each array that a deciding load has read
        self.doubtful: dict[int, np.ndarray] = {}       # … that a load of `some.doubtful` has
        self.handed: dict[int, np.ndarray] = {}         # … that a store of `some.handing` has written
        self.late: list[tuple[Any, int, tuple[Any, ...], dict[str, Any]]] = []     # what is told at the end, where it still holds: array, word, finding
        self.written: np.ndarray | None = None          # shared memory: stamps of the latest strong store to each word
        self.looked: np.ndarray | None = None           # … of the latest letter read from it
        self.polled: np.ndarray | None = None           # … and whether a deciding load has read it

    def admitted(self, domains: np.ndarray, reused: np.ndarray) -> None:
        """Shared memory of new CTAs has no history."""
        for table in (self.written, self.looked, self.polled):
            if table is not None and len(reused):
                table.reshape(-1, self.memory.words)[reused] = 0

    # --- global memory ----------------------------------------------------------------------------------------------
    def global_read(self, C: Cohort, address: np.ndarray, parts: list[Part], info: Any) -> None:
        """A letter is read: has it come?"""
        for allocation, where, offset in parts if info.volatile else ():
            gids = C.gids if where is None else C.gids[where]
            at, mask = words_at(np.broadcast_to(offset, gids.shape), info.nbytes)
            if info.index in self.some.doubtful:
                _words(self.doubtful, allocation)[at] = True
            if info.index not in self.loads:
                _words(self.flags, allocation)[at] = True
            elif allocation.stamps is not None and allocation.stamps.who is not None:
                words = allocation.stamps
                if len(self.reductions):
                    self._reduced(gids, allocation, at, info.index)
                self._compare(gids, allocation, at, mask, (words.who, words.when), self.stores, info.index, "letter-early")

    def global_written(self, C: Cohort, address: np.ndarray, parts: list[Part], info: Any, value: Callable[..., Any]) -> None:
        """A letter is replaced: has it been read?"""
        for allocation, where, offset in parts if info.volatile else ():
            gids = C.gids if where is None else C.gids[where]
            at, mask = words_at(np.broadcast_to(offset, gids.shape), info.nbytes)
            if info.index in self.some.handing:
                _words(self.handed, allocation)[at] = True
            if allocation.stamps is not None and allocation.stamps.who is not None:
                for readers in allocation.stamps.readers():
                    self._compare(gids, allocation, at, mask, readers, self.sites, info.index, "letter-lost")

    def _reduced(self, gids: np.ndarray, allocation: Any, at: np.ndarray, site: int) -> None:
        """A total to which copies add is no letter, and nobody polls it: who reads it waits for them, as before any read."""
        words, everywhere = allocation.stamps, self.everywhere
        who, when = words.who[at], words.when[at]
        gids = np.broadcast_to(gids if at.ndim == 1 else gids[:, None], at.shape)
        bad = (who & 15 != 0) & np.isin(when & 0xFFFFF, self.reductions) & ~_words(self.flags, allocation)[at] & ~everywhere.foreign(who)
        bad[bad] = ~everywhere._ordered(gids[bad], who[bad], when[bad], P_needed=False)
        if bad.any():
            everywhere._report(gids, allocation, who, when, at, bad, site, "read", "write")
        elif words.reductions.places:
            everywhere._check_reductions(gids.reshape(-1), allocation, words, at.reshape(-1), site, "read")

    def _compare(self, gids: np.ndarray, allocation: Any, at: np.ndarray, mask: Any, stamps: tuple[np.ndarray, np.ndarray], sites: np.ndarray, site: int,
                 case: str) -> None:
        who, when = stamps[0][at], stamps[1][at]
        if at.ndim == 2:
            gids, mask = gids[:, None], mask if np.isscalar(mask) else mask[:, None]
        bad = (who & mask & 15 != 0) & (who >> SYNC & 1 == 1) & np.isin(when & 0xFFFFF, sites) & ~_words(self.flags, allocation)[at] & ~self.everywhere.foreign(who)
        if bad.any():
            gids = np.broadcast_to(gids, bad.shape)
            bad[bad] = ~self.everywhere._ordered(gids[bad], who[bad], when[bad], P_needed=False)
        if bad.any():
            k = tuple(int(axis[0]) for axis in np.nonzero(bad))
            finding, where = (case, site, int(when[k]) & 0xFFFFF, int(gids[k])), in_array(allocation, int(at[k]) * 4)
            if self.some.doubtful:
                self.late.append((allocation, int(at[k]), finding, where))
            else:
                self.M.findings.add(*finding, **where)

    def closed(self) -> None:
        """The launch is over: which words are flags is known."""
        late, self.late = self.late, []
        decides = any((self.handed[address] & flags).any() for address, flags in self.flags.items() if address in self.handed)
        for allocation, at, finding, where in late:
            maybe = decides and (_words(self.doubtful, allocation)[at] or not self.some.doubtful.isdisjoint(finding[1:3]))
            if not maybe and not _words(self.flags, allocation)[at]:
                self.M.findings.add(*finding, **where)

    # --- shared memory ----------------------------------------------------------------------------------------------
    def shared_read(self, C: Cohort, flat: np.ndarray, info: Any) -> None:
        """The same."""
        if not info.volatile:
            return
        if info.index not in self.sure:
            if self.polled is None:
                self.polled = np.zeros(len(self.memory.writes), bool)
            self.polled[words_of(flat, info.nbytes)] = True
            return
        at = words_of(flat, info.nbytes)
        if self.written is not None:
            self._check_words(C, at, self.written[at], info.index, "letter-early")
        if self.looked is None:
            self.looked = np.zeros(len(self.memory.writes), np.int64)
        self.looked[at] = self._stamps(C, at, info.index)

    def _stamps(self, C: Cohort, at: np.ndarray, site: int) -> np.ndarray:
        warp = C.gids >> 5
        stamp: np.ndarray = pack_write(self.clocks.epoch[warp], warp % self.clocks.warps, C.gids & 31, site)
        return stamp if at.ndim == 1 else stamp[:, None]

    def _check_words(self, C: Cohort, at: np.ndarray, stamps: np.ndarray, site: int, case: str, apart: bool = True) -> None:
        """Against stamps of words; apart: of other warps as well."""
        gids, column = np.broadcast_to(C.gids if at.ndim == 1 else C.gids[:, None], at.shape), (stamps >> W_COLUMN) & W_COLUMN_MASK
        hit = (stamps != 0) & (apart | (column == (gids >> 5) % self.clocks.warps))
        if hit.any():
            self._check(gids, at, column, (stamps >> W_LANE) & LANE_MASK, stamps >> W_EPOCH, stamps & W_SITE_MASK, hit, site, case)

    def shared_written(self, C: Cohort, flat: np.ndarray, info: Any, value: Callable[..., Any]) -> None:
        """The same."""
        if not info.volatile:
            return
        at, warp = words_of(flat, info.nbytes), C.gids >> 5
        if self.memory.strong is not None:
            stamps = self.memory.strong.take(flat >> 4, axis=1)
            mask = WHOLE if info.nbytes >= 16 else ((1 << info.nbytes) - 1) << (flat & 15)
            column = np.broadcast_to(np.arange(len(stamps))[:, None], stamps.shape)
            hit = ((stamps >> R_MASK) & mask & WHOLE != 0) & np.isin(stamps & R_SITE_MASK, sorted(self.sure))
            hit &= column != warp % self.clocks.warps             # lanes of one warp share a stamp
            self._check(np.broadcast_to(C.gids, stamps.shape), np.broadcast_to(flat >> 2, stamps.shape), column, (stamps >> R_LANE) & LANE_MASK, stamps >> R_EPOCH,
                        stamps & R_SITE_MASK, hit, info.index, "letter-lost")
        if self.looked is not None:
            self._check_words(C, at, self.looked[at], info.index, "letter-lost", apart=False)
        if self.written is None:
            self.written = np.zeros(len(self.memory.writes), np.int64)
        self.written[at] = self._stamps(C, at, info.index)

    def _check(self, gids: np.ndarray, at: np.ndarray, column: np.ndarray, lane: np.ndarray, epoch: np.ndarray, others: np.ndarray, bad: np.ndarray, site: int,
               case: str) -> None:
        bad = bad if self.polled is None else bad & ~self.polled[at]
        if bad.any():
            clocks, who = self.clocks, gids[bad]
            bad[bad] = ~(clocks.ordered(clocks.K, clocks.row_of[who], column[bad], lane[bad], epoch[bad]) | clocks.own_access(who, column[bad], lane[bad], epoch[bad]))
        if bad.any():
            k = tuple(int(axis[0]) for axis in np.nonzero(bad))
            self.M.findings.add(case, site, int(others[k]), int(gids[k]), **shared(self.M, int(at[k]) * 4))


def listeners(machine: Watched, clocks: Clocks, memory: SharedOrder, everywhere: GlobalOrder) -> list[Listener]:
    """One, where the kernel has loads that read letters."""
    loads = machine.translation.once("letters", letter_loads)
    return [Letters(machine, clocks, memory, everywhere, loads)] if loads.all else []
