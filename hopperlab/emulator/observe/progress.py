# SPDX-License-Identifier: Apache-2.0
"""How far a launch is, while it takes longer than two seconds: on the terminal, or on a line that whoever launches gives. Nothing is written elsewhere."""
from __future__ import annotations

import sys
import time
from typing import Protocol

from ..machine.events import Listener

QUIET = 2.0          # seconds before the first line
PERIOD = 0.5         # seconds between lines
LOOK = 0.1           # seconds between looks at how far it is: loops jump back often
FORM = "emulating {desc}: {n_fmt} of {total_fmt} blocks done, {elapsed_s:.0f} s"


class Line(Protocol):
    """A place for one line of words."""

    def say(self, text: str) -> None:
        """Show this in place of what was said before."""

    def close(self) -> None:
        """Take the line away."""


class Progress(Listener):
    """Hears how far a launch is, and clears the line at its end. `active`: a terminal reads it, or `line` was given."""

    def __init__(self, name: str, machine=None, line: Line | None = None):
        self.M, self.name, self.line = machine, name, line
        self.terminal = line is None and sys.stderr is not None and sys.stderr.isatty()
        self.active = self.terminal or line is not None
        self.began = time.monotonic()
        self.last, self.looked = self.began + QUIET - PERIOD, 0.0
        if self.terminal:
            from tqdm.std import tqdm              # what no launch elsewhere waits for
            self.bar = tqdm(desc=name, bar_format=FORM, delay=QUIET, mininterval=PERIOD, miniters=0, leave=False, dynamic_ncols=True, file=sys.stderr)

    def runs_on(self) -> None:
        """Now and then, also inside a long loop, say how many CTAs have ended."""
        if (now := time.monotonic()) - self.looked >= LOOK:
            self.looked = now
            self.tick(self.M.ended, self.M.geometry.ctas)

    def tick(self, done: int, total: int) -> None:
        """`done` of `total` CTAs have ended."""
        if self.terminal:
            self.bar.total = total
            self.bar.update(done - self.bar.n)
        elif self.line is not None and (now := time.monotonic()) - self.last >= PERIOD:
            self.last = now
            self.line.say(FORM.format(desc=self.name, n_fmt=done, total_fmt=total, elapsed_s=now - self.began))

    def closed(self) -> None:
        """Take the line away."""
        if self.terminal:
            self.bar.close()
        elif self.line is not None:
            self.line.close()
