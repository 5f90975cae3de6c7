# SPDX-License-Identifier: Apache-2.0
"""Loads of global memory by the copy engine, as reads: they begin at issue, and are over when the phase of an mbarrier is.

A load is only noted when it is issued; what it reads is worked out when its array is first written, which for most arrays is never. A multicast is over for
who has seen the phase of one of its destinations. global_order.py asks. PTX ISA 8.9.1.1, 9.7.9.25.4, 9.7.9.25.5.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .global_words import COLUMN, SERIAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..machine.memory import Allocation, GlobalMemory
    from .global_words import Stamped

    Ends = tuple[tuple[int, int], ...]        # stamps (global_words.py) of the ends that tell of a load: who (an mbarrier), when (its phase)

NOTED = 1 << 12           # loads of an array that wait to be worked out
TOGETHER = 1 << 16        # pairs of a word and an end that are looked at in one go


@dataclass(frozen=True)
class Box:
    """Words that a copy touches in an array: `width` from each of `first` on, (rows,)."""

    first: np.ndarray
    width: int

    @staticmethod
    def of(memory: GlobalMemory, fields: Any, rows: Any) -> tuple[Allocation, Box] | None:
        """The array and the words of a tensor copy's box; None outside of every array, which the copy itself reports."""
        low, high = rows.first * fields.elem_bytes, rows.last * fields.elem_bytes
        if high <= low or not rows.inside.any():
            return None
        address = rows.address[rows.inside] + low
        allocation = memory.find(int(address.min()))
        if allocation is None or int(address.max()) + high - low > allocation.end:
            return None
        return allocation, Box((address - allocation.address) >> 2, (high - low + 3) >> 2)

    @staticmethod
    def span(first: int, nbytes: int) -> Box:
        """The words of `nbytes` bytes from byte `first` on."""
        return Box(np.array([first >> 2]), ((first + nbytes + 3) >> 2) - (first >> 2))

    def words(self, nbytes: int) -> np.ndarray:
        """All of them, in an array of `nbytes`."""
        words: np.ndarray = (self.first[:, None] + np.arange(self.width)).reshape(-1)
        return words if words[-1] < nbytes >> 2 else np.minimum(words, -(-nbytes // 4) - 1)


@dataclass
class Place:
    """Words that loads have read, as sorted starts of runs of `width`, and by mbarrier the ends of its newest."""

    first: np.ndarray
    width: int
    ends: dict[int, Ends] = field(default_factory=dict)
    fresh: bool = False

    def among(self, at: np.ndarray) -> np.ndarray:
        """Which of these words are here."""
        run = np.searchsorted(self.first, at, side="right") - 1
        found: np.ndarray = (run >= 0) & (at - self.first[run] < self.width)
        return found


class Loads:
    """Of one array. unread: words that no load has read since they were last written; places by their words; bounds: first and last word of each."""

    def __init__(self, allocation: Allocation) -> None:
        self.allocation = allocation
        self.noted: list[tuple[Ends, Any]] = []
        self.places: dict[tuple[int, bytes], Place] = {}
        self.order: list[Place] = []
        self.bounds = np.zeros((2, 16), np.int64)
        self.fresh: list[Place] = []
        self.read: np.ndarray | None = None

    def note(self, memory: GlobalMemory, ends: Ends, source: Any) -> None:
        """A load is issued. source: its Box, or the fields and rows of a tensor copy."""
        self.noted.append((ends, source))
        if len(self.noted) >= NOTED:
            self._settle(memory)

    def _settle(self, memory: GlobalMemory) -> None:
        for ends, source in self.noted:
            found = (self.allocation, source) if isinstance(source, Box) else Box.of(memory, *source)
            if found is not None and found[0] is self.allocation:
                self._enter(found[1], ends)
        self.noted.clear()

    def _enter(self, box: Box, ends: Ends) -> None:
        key = (box.width, box.first.tobytes())
        place = self.places.get(key)
        if place is None:
            place = self.places[key] = Place(np.sort(box.first), box.width)
            count = len(self.order)
            if count == self.bounds.shape[1]:
                self.bounds = np.pad(self.bounds, [(0, 0), (0, count)])
            self.bounds[:, count] = place.first[0], place.first[-1] + box.width
            self.order.append(place)
        place.ends[ends[0][0]] = ends
        if not place.fresh:
            place.fresh = True
            self.fresh.append(place)

    def _mark(self) -> np.ndarray:
        if self.read is None:
            self.read = np.zeros(-(-self.allocation.nbytes // 4), bool)
        for place in self.fresh:
            place.fresh = False
            self.read[Box(place.first, place.width).words(self.allocation.nbytes)] = True
        self.fresh.clear()
        return self.read

    def touching(self, memory: GlobalMemory, at: np.ndarray, whole: bool) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Words `at` (n,) are written (whole: all bytes of them). (positions in `at`, who, when) of the loads that read them since they were last
        written; who and when are (positions, alternatives): one of them is enough."""
        if self.noted:
            self._settle(memory)
        read = self._mark()
        hot = np.flatnonzero(read[at])
        if not len(hot):
            return
        words = at[hot]
        count, low, high = len(self.order), int(words.min()), int(words.max())
        for number in np.flatnonzero((self.bounds[0, :count] <= high) & (self.bounds[1, :count] > low)).tolist():
            place = self.order[number]
            here = hot[place.among(words)]
            if len(here):
                yield from _pairs(here, list(place.ends.values()))
        if whole:
            read[words] = False


def _pairs(here: np.ndarray, ends: list[Ends]) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Each position with each load."""
    most = max(map(len, ends))
    table = np.array([(*one, *[one[-1]] * (most - len(one))) for one in ends])           # (loads, alternatives, 2)
    step = max(1, TOGETHER // len(here))
    for start in range(0, len(table), step):
        some = table[start:start + step]
        positions = np.repeat(here, len(some))
        who, when = (np.tile(some[:, :, k], (len(here), 1)) for k in (0, 1))
        yield positions, who, when


class AsyncReads:
    """The loads of one launch, by array."""

    def __init__(self, order: Any, memory: GlobalMemory) -> None:         # order: GlobalOrder
        self.order, self.memory = order, memory
        self.of: dict[int, Loads] = {}                 # by address of an array
        self.near: dict[int, Loads | None] = {}        # by address that a tensor map names

    def note_box(self, ends: Ends, fields: Any, rows: Any) -> None:
        """A tensor load is issued."""
        address = fields.global_address
        if address not in self.near:
            allocation = self.memory.find(address)
            self.near[address] = None if allocation is None else self._array(allocation)
        loads = self.near[address]
        if loads is not None:
            loads.note(self.memory, ends, (fields, rows))

    def note(self, ends: Ends, allocation: Allocation, box: Box) -> None:
        """A load of these words is issued."""
        self._array(allocation).note(self.memory, ends, box)

    def written(self, gids: np.ndarray, allocation: Stamped, at: np.ndarray, site: int, verb: str, whole: bool) -> None:
        """Threads write words `at`, (n,) or (n, words), of an array that loads have read (whole: all bytes of them)."""
        gids = np.broadcast_to(gids if at.ndim == 1 else gids[:, None], at.shape).reshape(-1)
        at = at.reshape(-1)
        for here, who, when in self.of[allocation.address].touching(self.memory, at, whole):
            ok = np.zeros(len(here), bool)
            for one, time in zip(who.T, when.T):
                ok |= self.order._ordered(gids[here], one, time, P_needed=False) | self._told(gids[here], one, time)
            if not ok.all():
                self.order._report(gids[here], allocation, who[:, 0], when[:, 0], at[here], ~ok, site, verb, "read")

    def _told(self, gids: np.ndarray, who: np.ndarray, when: np.ndarray) -> np.ndarray | bool:
        """Ends of which .relaxed arrivals and waits have told: they order no data, and a read leaves none."""
        clocks = self.order.clocks
        if not clocks.relaxed:
            return False
        near = who >> SERIAL == self.order.serial[(gids >> 5) // clocks.warps]
        told: np.ndarray = near & (clocks.K[clocks.row_of[gids], clocks.R, np.where(near, who >> COLUMN & 0xFFFF, 0)] >= when >> 20)
        return told

    def _array(self, allocation: Allocation) -> Loads:
        loads = self.of.get(allocation.address)
        if loads is None:
            loads = self.of[allocation.address] = Loads(allocation)
        return loads
