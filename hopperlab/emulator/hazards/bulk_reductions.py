# SPDX-License-Identifier: Apache-2.0
"""Reductions into an array of global memory by bulk and tensor copies: every thread's newest into each place.

They commute, so that none of them waits for another, and the table of writers (global_words.py) has room for the last only. Who reads the sum, or stores over
it, waits for all of them. PTX ISA 9.7.9.25.4.2.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Place:
    """Words to which copies add (sorted, or their range where they follow each other), and by thread the stamps of its newest."""

    words: np.ndarray | range
    stamps: dict[int, tuple[int, int]] = field(default_factory=dict)

    def among(self, at: np.ndarray) -> np.ndarray:
        """Which of these words are here."""
        if isinstance(self.words, range):
            return (at >= self.words[0]) & (at <= self.words[-1])
        return np.isin(at, self.words)


class BulkReductions:
    """places: by first word, last word and number of words."""

    def __init__(self) -> None:
        self.places: dict[tuple[int, int, int], Place] = {}
        self.bounds = np.zeros((0, 3), np.int64)

    def add(self, at: np.ndarray, thread: int, who: int, when: int) -> None:
        """`thread` starts a reduction into words `at`. Its groups end in order, so its earlier ones into the same place are over by then."""
        key = int(at.min()), int(at.max()), len(at)
        place = self.places.get(key)
        if place is None:
            whole = key[1] - key[0] + 1 == len(at)
            place = self.places[key] = Place(range(key[0], key[1] + 1) if whole else np.unique(at))
        place.stamps[thread] = who, when

    def touching(self, at: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """(positions in `at`, who, when) of the reductions that these words have had, by place."""
        if len(self.bounds) < len(self.places):
            self.bounds = np.array(list(self.places))
        near = (self.bounds[:, 0] <= at.max()) & (self.bounds[:, 1] >= at.min())
        for key in self.bounds[near].tolist():
            place = self.places[tuple(key)]
            here = np.flatnonzero(place.among(at))
            if len(here):
                who, when = np.array(list(place.stamps.values())).T
                yield here, who, when
