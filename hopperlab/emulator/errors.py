# SPDX-License-Identifier: Apache-2.0
"""Exceptions of the emulator. Every one says what happened, where (block, thread, source line) and what to try."""
from __future__ import annotations

import textwrap

COLUMNS = 72            # of a message in a notebook: what a window of 1024 pixels shows; JupyterLab breaks wider lines inside words


class EmulatorError(Exception):
    """Base class of everything the emulator raises."""

    def _render_traceback_(self) -> list[str]:
        """Notebooks show the message alone: the emulator's own frames teach a learner nothing."""
        return shown(f"{type(self).__name__}: {self}")


def shown(message: str) -> list[str]:
    """A message as lines of at most COLUMNS characters, broken between words; what continues a line is indented further than it."""
    return ["\n".join(textwrap.fill(line, COLUMNS, subsequent_indent=" " * (len(line) - len(line.lstrip()) + 4), break_long_words=False, break_on_hyphens=False)
                      for line in message.split("\n"))]


class LaunchInterrupted(KeyboardInterrupt):
    """Ctrl-C, or a notebook's Interrupt, during a launch: one that says how far it was, and in a notebook nothing of the emulator's own frames."""

    def __init__(self, kernel: str, done: int, blocks: int):
        super().__init__(f"the launch of {kernel} was interrupted when {done} of {blocks} block{'s' * (blocks != 1)} had ended; arrays hold what was written until then")

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows instead of a traceback."""
        return shown(f"KeyboardInterrupt: {self}")


class LaunchError(EmulatorError):
    """The launch itself is impossible (grid, block, shared memory, arguments)."""


class MemoryFault(EmulatorError):
    """An access outside every array, outside shared memory, or misaligned.

    Attributes: `kind` ('out-of-bounds' or 'misaligned'), `address`, `site` (source position or None), and where it was
    seen: `index` of the instruction, `block`, `thread`; `detail`: what is wrong, without place and kind.
    """

    def __init__(self, message: str, kind: str = "out-of-bounds", address: int | None = None, site=None,
                 index: int | None = None, block: tuple | None = None, thread: int | None = None, detail: str = ""):
        super().__init__(message)
        self.kind, self.address, self.site = kind, address, site
        self.index, self.block, self.thread, self.detail = index, block, thread, detail


class HazardError(EmulatorError):
    """One or more synchronisation hazards were found; `hazards` lists them."""

    def __init__(self, hazards):
        self.hazards = list(hazards)
        count = len(self.hazards)
        head = f"{count} hazard{'s' if count != 1 else ''} found"
        super().__init__(head + "\n\n" + "\n\n".join(str(h) for h in self.hazards))


class BudgetExceeded(EmulatorError):
    """The launches of a session did more work than its limit (`hl.emulate(limit=…)`); the message says where most of it was done."""


class HazardWarning(UserWarning):
    """Something in a launch is legal and suspicious (`Session.warnings`)."""


class DeadlockError(HazardError):
    """Nothing can run and nothing is in flight; the last hazard is the whole picture."""
