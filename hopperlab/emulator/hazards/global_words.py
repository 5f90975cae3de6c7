# SPDX-License-Identifier: Apache-2.0
"""Stamps of an array in global memory: of every word who wrote it last and who read it since, as two numbers.

`who`: cluster | column | lane | whether by a synchronising access | bytes of the word; `when`: epoch | instruction (20 bits).
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .reduction_order import Earlier

if TYPE_CHECKING:
    from ..machine.memory import Allocation

    class Stamped(Allocation):
        """An allocation of a launch that this room listens to."""

        stamps: Words | None  # for the memory it is a place at which it never looks

    Part = tuple[Stamped, Any, np.ndarray]        # allocation, lanes (None: all), byte offsets

SERIAL, COLUMN, LANE, SYNC = 32, 16, 8, 4          # bit positions in `who`; bits 0 to 3 are the bytes of the word


class Words:
    """Stamps of one allocation: writer and last reader of every word (and the reader before, when it was another thread), updates before
    the last one, and reads that came before the first write."""

    __slots__ = ("who", "when", "reader", "read_when", "prior", "prior_when", "earlier", "log", "logged")
    who: Any                # arrays of int64, or None before `open`: who asks has looked
    when: Any
    reader: Any
    read_when: Any
    prior: Any
    prior_when: Any

    def __init__(self) -> None:
        self.who = self.when = self.reader = self.read_when = self.prior = self.prior_when = None
        self.log: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self.logged = 0

    def open(self, words: int) -> None:
        """First write: from now on every access is stamped; earlier reads are entered."""
        self.who, self.when, self.reader, self.read_when, self.prior, self.prior_when = (np.zeros(words, np.int64) for _ in range(6))
        self.earlier = Earlier(words, LANE, COLUMN, 63 - LANE)
        for at, who, when in self.log:
            self.mark(at, who, when)
        self.log = []

    def mark(self, at: np.ndarray, who: np.ndarray, when: np.ndarray) -> None:
        """Threads read words `at`."""
        old = self.reader[at]
        moved = ((old ^ who) >> LANE != 0) & (old != 0)
        if moved.any():
            self.prior[at[moved]], self.prior_when[at[moved]] = old[moved], self.read_when[at][moved]
        self.reader[at], self.read_when[at] = who, when
        lost = self.reader[at] != who
        if lost.any():
            self.prior[at[lost]], self.prior_when[at[lost]] = np.broadcast_to(who, at.shape)[lost], np.broadcast_to(when, at.shape)[lost]
