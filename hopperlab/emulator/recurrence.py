"""Whether loops that wait have come back to where they were: then they never end, since nothing else can change.

Asked only when nothing but looping threads could run and no operation is in flight. What counts of a loop are the registers and
the loaded values that decide whether it goes on (loops.py). Where memory stays as it is, their return is a proof. Where the
loops themselves write memory, they are given PATIENCE more rounds; and a loop that differs each time (it watches the clock, or
counts to a limit) has a budget.
"""
from __future__ import annotations

import hashlib
import os

from .errors import LaunchError

QUIET_BUDGET = 50_000          # rounds of loops in memory that nobody changes
BUSY_BUDGET = 500_000          # rounds of loops that change memory
WARM_UP = 512                  # rounds that change memory before their states are looked at
PATIENCE = 2048                # rounds without a new state until loops that change memory are given up
MOST_STATES = 100_000
VARIABLE = "HOPPERLAB_POLLING_BUDGET"
MORE = f"if they do end, give them more rounds with hl.emulate(budget=…) or {VARIABLE}"


def budgets(given: int | None) -> tuple[int, int, int]:
    """(quiet, busy, patience) rounds: those of hl.emulate(budget=…), else of the environment variable, else the defaults."""
    text = os.environ.get(VARIABLE, "")
    if given is None and text:
        if not text.isdecimal():
            raise LaunchError(f"{VARIABLE}={text}: a whole number of rounds is wanted")
        given = int(text)
    return (QUIET_BUDGET, BUSY_BUDGET, PATIENCE) if given is None else (given, given, given)


class Recurrence:
    """The states of one launch in rounds in which only loops were left. `why`: what to say when they never end."""

    def __init__(self, budget: int | None = None) -> None:
        self._quiet_budget, self._busy_budget, self._patience = budgets(budget)
        self._events = -1
        self._start()

    def _start(self) -> None:
        self._rounds, self._last_new, self._states = 0, 0, set()
        self._progress, self._quiet_rounds, self._quiet_states = -1, 0, set()
        self.why = ""

    def endless(self, M, cohorts: list, events: int) -> bool:
        """True when the looping cohorts never end, or have used up their budget. events: what has happened besides loops so far."""
        if self._events != events:
            self._events = events
            self._start()
        self._rounds += 1
        if self._progress != M.progress:
            self._progress, self._quiet_rounds, self._quiet_states = M.progress, 0, set()
            return self._busy(M, cohorts)
        self._quiet_rounds += 1
        state = _state(M, cohorts)
        if state in self._quiet_states:
            self.why = "what these loops read is changed by nobody any more"
        elif self._quiet_rounds > self._quiet_budget:
            self.why = _spent(self._quiet_rounds, "and nobody changes memory")
        self._keep(self._quiet_states, state)
        return bool(self.why)

    def _busy(self, M, cohorts: list) -> bool:
        """Loops that change memory, but perhaps nothing that decides about them."""
        if self._rounds > self._busy_budget:
            self.why = _spent(self._rounds, "though they change memory")
        elif self._rounds > WARM_UP:
            state = _state(M, cohorts)
            if state not in self._states:
                self._last_new = self._rounds
            self._keep(self._states, state)
            if self._rounds - self._last_new >= self._patience:
                self.why = f"these loops write memory, but for {self._patience} rounds nothing that decides about them has changed ({MORE})"
        return bool(self.why)

    @staticmethod
    def _keep(states: set, state: bytes) -> None:
        if len(states) >= MOST_STATES:
            states.clear()
        states.add(state)


def _spent(rounds: int, how: str) -> str:
    return f"{rounds} rounds in which only these loops ran, {how} ({MORE})"


def _state(M, cohorts: list) -> bytes:
    """A digest of where the cohorts stand, of every register and loaded value that decides about them, and of how often a clock
    was read."""
    digest = hashlib.blake2b(M.ticks.to_bytes(8, "little") + M.seen.to_bytes(8, "little", signed=True), digest_size=16)
    M.seen = 0
    for C in sorted(cohorts, key=lambda c: (c.pc, int(c.gids[0]))):
        digest.update(C.pc.to_bytes(4, "little") + C.gids.tobytes())
        for slot in M.translation.deciding(C.pc):
            value = C.frame.get(slot)
            digest.update(value.tobytes() if hasattr(value, "tobytes") else id(value).to_bytes(8, "little"))
    return digest.digest()
