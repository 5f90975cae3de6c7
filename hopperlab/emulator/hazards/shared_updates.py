# SPDX-License-Identifier: Apache-2.0
"""Of each word in shared memory, the newest reduction of every warp, and of the copies that every mbarrier counts, since it was written plainly or observed.

Reductions (red, or atom whose old value nobody wants, red.async) say nothing of each other's order, so who reads the total, or clears it, must know
of all of them, and not of the one alone that came last (reduction_order.py has the same of global memory, of two). shared_order.py asks.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .stamps import W_COLUMN, W_COLUMN_MASK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .clocks import Clocks


class Updates:
    """Write stamps (stamps.py), a row for each warp of a cluster and one for each column of copies; made at the first reduction."""

    def __init__(self, clocks: Clocks, words: int) -> None:
        self.clocks, self.words = clocks, words
        self.warps: np.ndarray | None = None
        self.copies: dict[int, np.ndarray] = {}

    @property
    def any(self) -> bool:
        """Have there been reductions?"""
        return self.warps is not None or bool(self.copies)

    def rows(self) -> Iterator[np.ndarray]:
        """A table of all words each."""
        yield from () if self.warps is None else self.warps
        yield from self.copies.values()

    def reset_slots(self, slots: np.ndarray, words: int) -> None:
        """Shared memory of new CTAs (`words` each) has no history."""
        for row in self.rows():
            row.reshape(-1, words)[slots] = 0

    def forget(self, at: np.ndarray | slice) -> None:
        """Words `at` are somebody's own, or have been observed."""
        for row in self.rows():
            row[at] = 0

    def by_lanes(self, at: np.ndarray, stamps: np.ndarray) -> None:
        """Lanes reduced words `at`: their stamps."""
        if self.warps is None:
            self.warps = np.zeros((self.clocks.warps, self.words), np.int64)
        self.warps.reshape(-1)[((stamps >> W_COLUMN) & W_COLUMN_MASK) * self.words + at] = stamps

    def by_copy(self, w0: int, w1: int, stamp: int) -> None:
        """A copy reduces words w0..w1-1."""
        column = stamp >> W_COLUMN & W_COLUMN_MASK
        if column not in self.copies:
            self.copies[column] = np.zeros(self.words, np.int64)
        self.copies[column][w0:w1] = stamp

    def at(self, at: Any) -> np.ndarray:
        """(rows, *words): stamps of the reductions of words `at`, of those rows that have any."""
        found = [stamps for row in self.rows() if (stamps := row[at]).any()]
        return np.array(found) if found else np.zeros((0, 0), np.int64)
