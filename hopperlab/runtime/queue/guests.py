# SPDX-License-Identifier: Apache-2.0
"""What one guest of the queue may hold at once: connections, and bytes of messages that are read or wait. More is refused, so that a flood
takes neither the server's memory nor its open files from the others."""
from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

MOST_LINES = 64              # connections of one guest: a launch takes one
MOST_HELD = 2 << 30          # bytes of one guest


class TooMuch(Exception):
    """A guest holds as much as it may."""


class Guests:
    """Connections and bytes by guest: a uid, or a process of it where all have one uid."""

    def __init__(self) -> None:
        self.lines: Counter[Hashable] = Counter()
        self.held: Counter[Hashable] = Counter()

    @contextmanager
    def line(self, guest: Hashable) -> Iterator[Line]:
        """One more connection, for as long as it lasts. Raises TooMuch."""
        with _counted(self.lines, guest, 1, MOST_LINES, "{most} connections to the queue are open already; close some of them"):
            yield Line(self, guest)


class Line:
    """One connection of a guest."""

    def __init__(self, guests: Guests, guest: Hashable):
        self.guests, self.guest = guests, guest

    @contextmanager
    def message(self, size: int) -> Iterator[int]:
        """`size` bytes more, for as long as their launch waits or runs. Raises TooMuch."""
        with _counted(self.guests.held, self.guest, size, MOST_HELD, "launches of more than {most} bytes wait already; wait for some of them"):
            yield size


@contextmanager
def _counted(count: Counter[Hashable], guest: Hashable, more: int, most: int, words: str) -> Iterator[None]:
    if count[guest] + more > most:
        raise TooMuch(words.format(most=most))
    count[guest] += more
    try:
        yield
    finally:
        count[guest] -= more
        if not count[guest]:
            del count[guest]
