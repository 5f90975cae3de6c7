"""Exceptions of the emulator. Every one says what happened, where (block, thread, source line) and what to try."""
from __future__ import annotations


class EmulatorError(Exception):
    """Base class of everything the emulator raises."""

    def _render_traceback_(self) -> list[str]:
        """Notebooks show the message alone: the emulator's own frames teach a learner nothing."""
        return [f"{type(self).__name__}: {self}"]


class LaunchError(EmulatorError):
    """The launch itself is impossible (grid, block, shared memory, arguments)."""


class MemoryFault(EmulatorError):
    """An access outside every array, outside shared memory, or misaligned.

    Attributes: `kind` ('out-of-bounds' or 'misaligned'), `address`, `site` (source position or None), and where it was
    seen: `index` of the instruction, `block`, `thread`.
    """

    def __init__(self, message: str, kind: str = "out-of-bounds", address: int | None = None, site=None,
                 index: int | None = None, block: tuple | None = None, thread: int | None = None):
        super().__init__(message)
        self.kind, self.address, self.site = kind, address, site
        self.index, self.block, self.thread = index, block, thread


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
