# SPDX-License-Identifier: Apache-2.0
"""What the checkers of launches that may overlap share: which cluster is of which grid, what flags have published, and what has been reported.

Every cluster of every grid has a number of its own (`serial`), so that the stamps of global memory say which grid was there.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .global_words import SYNC

if TYPE_CHECKING:
    from .findings_grids import Told

ALL = np.ones((2, 1), np.int64)          # what is known of a grid that is over: everything, also through the async proxy
FIRST = 1024
MOST_BYTES = 1 << 29           # of what is kept of all grids' accesses


class Touched:
    """What one grid did in one array: of every word who read it last and who wrote it last, and when, as stamps (global_words.py)."""

    def __init__(self, words: int) -> None:
        self.words, self.nbytes = words, 0
        self.tables: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def note(self, verb: str, at: np.ndarray, who: np.ndarray, when: np.ndarray) -> None:
        """Threads `verb` ('read', 'write') words. A word that was ever touched plainly stays so."""
        if verb not in self.tables:
            self.tables[verb] = np.zeros(self.words, np.int64), np.zeros(self.words, np.int64)
            self.nbytes += 16 * self.words
        whos, whens = self.tables[verb]
        old = whos[at]
        plain = np.where(old != 0, old, -1) & who & 1 << SYNC
        whos[at] = who & ~(1 << SYNC) | plain | old & 15
        whens[at] = when


class GridTable:
    """owner, cta: by serial, the number of its grid and its first CTA; grids: the grids by number (emulator/grids.py); touched: what each did;
    published: what was released at words of global memory, for whom (device_key, system_key); told: what has been reported; devices: where the grids run;
    learned: by grid, what its threads have learned of others, by serial or mark."""

    def __init__(self) -> None:
        self.owner, self.cta = np.zeros(FIRST, np.int64), np.zeros(FIRST, np.int64)
        self.born = 0
        self.grids: dict[int, Any] = {}
        self.published: dict[tuple[int, int, int], dict[int, np.ndarray]] = {}
        self.told: Told = {}
        self.devices: set[int] = set()
        self.touched: dict[int, dict[int, Touched]] = {}          # by allocation and grid
        self.learned: dict[int, dict[int, np.ndarray]] = {}

    def enter(self, number: int, ctas: np.ndarray) -> np.ndarray:
        """Serials for new clusters of grid `number`, whose first CTAs are `ctas`."""
        first = self.born + 1
        self.born += len(ctas)
        while self.born >= len(self.owner):
            self.owner, self.cta = (np.concatenate([table, np.zeros_like(table)]) for table in (self.owner, self.cta))
        serials = np.arange(first, self.born + 1)
        self.owner[serials], self.cta[serials] = number, ctas
        return serials

    def of(self, allocation: Any, number: int) -> Touched:
        """What a grid did in an array."""
        grids = self.touched.setdefault(allocation.address, {})
        if number not in grids:
            self._make_room()
            grids[number] = Touched(-(-allocation.nbytes // 4))
        return grids[number]

    def _make_room(self) -> None:
        """Where there is too much, what the oldest grids that are over did is forgotten."""
        while sum(one.nbytes for grids in self.touched.values() for one in grids.values()) > MOST_BYTES:
            over = [number for grids in self.touched.values() for number in grids if self.grids[number].over]
            if not over:
                return
            self.known({min(over)})

    def known(self, numbers: set[int]) -> None:
        """Nobody comes too early for these grids any more."""
        for grids in self.touched.values():
            for number in numbers & grids.keys():
                del grids[number]

    def of_key(self, key: int) -> int:
        """The grid that a serial or a mark is about."""
        return -1 - key if key < 0 else int(self.owner[key])

    def numbers(self, serial: np.ndarray) -> np.ndarray:
        """Numbers of the grids of clusters (0: nobody)."""
        found: np.ndarray = self.owner[serial]
        return found


def mark(number: int) -> int:
    """The key under which a table of what is known, by serial, holds that all of a grid is."""
    return -1 - number


def device_key(device: int) -> int:
    """What all threads of a device are called there."""
    return -1 - 2 * device


def system_key(device: int) -> int:
    """What is published by threads of a device for other devices."""
    return -2 - 2 * device
