# SPDX-License-Identifier: Apache-2.0
"""Stamps of an array in global memory: of every word who wrote it last and who read it since, as two numbers.

`who`: cluster | column | lane | whether by a synchronising access | bytes of the word; `when`: epoch | instruction (20 bits).
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .bulk_reductions import BulkReductions
from .reduction_order import Earlier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..machine.memory import Allocation

    class Stamped(Allocation):
        """An allocation of a launch that this room listens to."""

        stamps: Words | None  # type: ignore[assignment]  # for the memory it is a place at which it never looks

    Part = tuple[Stamped, Any, np.ndarray]        # allocation, lanes (None: all), byte offsets

SERIAL, COLUMN, LANE, SYNC = 32, 16, 8, 4          # bit positions in `who`; bits 0 to 3 are the bytes of the word


class Words:
    """Stamps of one allocation: writer and last reader of every word (and the reader before, when it was another thread), updates before
    the last one, reductions by copies, and reads that came before the first write (words, and what gives their stamps)."""

    __slots__ = ("who", "when", "reader", "read_when", "prior", "prior_when", "earlier", "reductions", "log", "logged")
    who: Any                # arrays of int64, or None before `open`, those of readers before the first that is stamped: who asks has looked
    when: Any
    reader: Any
    read_when: Any
    prior: Any
    prior_when: Any

    def __init__(self) -> None:
        self.who = self.when = self.reader = self.read_when = self.prior = self.prior_when = None
        self.log: list[tuple[np.ndarray, Callable[[], tuple[np.ndarray, np.ndarray]]]] = []
        self.logged = 0

    def open(self, words: int) -> None:
        """First write: from now on every access is stamped; earlier reads are entered."""
        self.who, self.when = np.zeros(words, np.int64), np.zeros(words, np.int64)
        self.earlier = Earlier(words, LANE, COLUMN, 63 - LANE)
        self.reductions = BulkReductions()
        for at, stamps in self.log:
            self.mark(at, *stamps())
        self.log = []

    def readers(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The tables of readers that there are: who, when."""
        if self.reader is not None:
            yield self.reader, self.read_when
        if self.prior is not None:
            yield self.prior, self.prior_when

    def mark(self, at: np.ndarray, who: np.ndarray, when: np.ndarray) -> None:
        """Threads (one after the other) read words `at`, (n,) or (n, words)."""
        if at.ndim == 2:
            who, when = who[:, None], when[:, None]
        if self.reader is None:
            self.reader, self.read_when = np.zeros_like(self.who), np.zeros_like(self.who)
        old = self.reader[at]
        moved = ((old ^ who) >> LANE != 0) & (old != 0)
        if moved.any():
            self._keep(at[moved], old[moved], self.read_when[at][moved])
        self.reader[at], self.read_when[at] = who, when
        lost = self.reader[at] != who
        if lost.any():
            self._keep(at[lost], np.broadcast_to(who, at.shape)[lost], np.broadcast_to(when, at.shape)[lost])

    def _keep(self, at: np.ndarray, who: np.ndarray, when: np.ndarray) -> None:
        """Readers before the last ones."""
        if self.prior is None:
            self.prior, self.prior_when = np.zeros_like(self.who), np.zeros_like(self.who)
        self.prior[at], self.prior_when[at] = who, when


def words_at(offset: np.ndarray, nbytes: int) -> tuple[np.ndarray, np.ndarray | int]:
    """Of accesses at byte offsets: word indices (n,) or (n, words), and the byte mask inside the word."""
    first = offset >> 2
    if nbytes <= 4:
        return first, ((1 << nbytes) - 1) << (offset & 3) if nbytes < 4 else 15
    return first[:, None] + np.arange(nbytes >> 2), 15


def same_bytes(allocation: Stamped, offset: np.ndarray, nbytes: int, value: Callable[[Any], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """same(lanes): True where lanes store the bytes that are there already."""
    def same(lanes: np.ndarray) -> np.ndarray:
        equal: np.ndarray = (value(lanes) == allocation.view(1)[offset[lanes][:, None] + np.arange(nbytes)]).all(axis=1)
        return equal
    return same
