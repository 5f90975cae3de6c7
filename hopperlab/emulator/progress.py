"""A line on the terminal while a launch takes longer than two seconds. Nothing is written where no terminal reads it."""
from __future__ import annotations

import sys
import time

QUIET = 2.0          # seconds before the first line
PERIOD = 0.5         # seconds between lines


class Progress:
    """Call `tick(done, total)` often; `close()` clears the line."""

    def __init__(self, name: str):
        self.name = name
        self.active = sys.stderr is not None and sys.stderr.isatty()
        self.started = time.monotonic()
        self.next = self.started + QUIET
        self.width = 0

    def tick(self, done: int, total: int) -> None:
        """`done` of `total` CTAs have ended."""
        if not self.active:
            return
        now = time.monotonic()
        if now < self.next:
            return
        self.next = now + PERIOD
        text = f"emulating {self.name}: {done} of {total} blocks done, {now - self.started:.0f} s"
        self.width = max(self.width, len(text))
        sys.stderr.write("\r" + text.ljust(self.width))
        sys.stderr.flush()

    def close(self) -> None:
        """Take the line away."""
        if self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()
