# SPDX-License-Identifier: Apache-2.0
"""Whether loops that wait have come back to where they were: then they never end, since nothing else can change.

Asked only when nothing but looping threads could run and no operation is in flight. What counts of a loop are the registers and
the loaded values that decide whether it goes on (loops.py), and of threads that wait, in loops of their own perhaps, where they stand and for what.
Where memory stays as it is, their return is a proof. Where the loops themselves write memory, they are given PATIENCE more rounds; and a loop that
differs each time (it counts to a limit) has a budget. Where a clock decides too, time leaps ahead, so that what waits for a while ends soon; what has not changed
anything but its readings after CLOCK_REACH cycles a round of the budget, and CLOCK_PATIENCE rounds, never ends.
"""
from __future__ import annotations

import hashlib
import os
from typing import Any

from ..errors import LaunchError

QUIET_BUDGET = 50_000          # rounds of loops in memory that nobody changes
BUSY_BUDGET = 500_000          # rounds of loops that change memory
WARM_UP = 32                   # rounds that change memory before their states are looked at
PATIENCE = 256                 # rounds without a new state until loops that change memory are given up
LONG_PATIENCE = 2048           # the same, where a loop may depend on loaded values that nobody watches
CLOCK_PATIENCE = 4096          # rounds without a new state until loops that watch a clock are given up, once it has gone as far as it may
CLOCK_REACH = 1000             # cycles of the clock for each round of the budget
MANY_LANES = 4096              # lanes of loops in which a round is long
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
        self._same()
        self.why = ""

    def _same(self) -> None:
        """A state is new: count from here how often none is, and how far the clock has gone meanwhile."""
        self._repeats, self._leapt = 0, 0

    def endless(self, M: Any, events: int, polls: bool) -> bool:
        """True when the looping cohorts never end, or have used up their budget. events: what has happened besides loops so far; polls: some loop looks at memory
        or a clock, and does not only compute (then the round is none of the budget's)."""
        if self._events != events:
            self._events = events
            self._start()
        self._rounds += polls
        if self._progress != M.progress:
            self._progress, self._quiet_rounds, self._quiet_states = M.progress, 0, set()
            return self._busy(M)
        self._quiet_rounds += polls
        state = _state(M)
        if _timed(M):
            self._by_the_clock(M, state in self._quiet_states, self._quiet_budget)
        elif state in self._quiet_states:
            self.why = "what these loops read is changed by nobody any more"
        if not self.why and self._quiet_rounds > self._quiet_budget:
            self.why = _spent(self._quiet_rounds, "and nobody changes memory")
        self._keep(self._quiet_states, state)
        return bool(self.why)

    def _busy(self, M) -> bool:
        """Loops that change memory, but perhaps nothing that decides about them."""
        patience = _patience(M) if self._patience == PATIENCE else self._patience
        if self._rounds > self._busy_budget:
            self.why = _spent(self._rounds, "though they change memory")
        elif self._rounds > min(WARM_UP, patience):
            state = _state(M)
            known = state in self._states
            if not known:
                self._last_new = self._rounds
            self._keep(self._states, state)
            if _timed(M):
                self._by_the_clock(M, known, self._busy_budget)
            elif self._rounds - self._last_new >= patience:
                self.why = f"these loops write memory, but for {patience} rounds nothing that decides about them has changed ({MORE})"
        return bool(self.why)

    def _by_the_clock(self, M: Any, known: bool, budget: int) -> None:
        """Loops that a clock decides about are in a state, `known` or new, apart from its readings: time leaps ahead, twice as far each time."""
        if not known:
            self._same()
        self._repeats += 1
        reach = CLOCK_REACH * budget
        if self._leapt < reach and not M.landing.pending():
            leap = min(max(self._leapt, CLOCK_REACH), reach - self._leapt)
            M.ticks += leap
            self._leapt += leap
        elif self._repeats >= CLOCK_PATIENCE:
            self.why = (f"a clock that these loops watch has gone {self._leapt} cycles ahead, and for {self._repeats} rounds nothing else that decides about them "
                        f"has changed ({MORE})")

    @staticmethod
    def _keep(states: set, state: bytes) -> None:
        if len(states) >= MOST_STATES:
            states.clear()
        states.add(state)


def _spent(rounds: int, how: str) -> str:
    return f"{rounds} rounds in which only these loops ran, {how} ({MORE})"


def _patience(M) -> int:
    """Rounds that loops are given which change memory: fewer where many lanes make each round long."""
    loops = M.scheduler.polling
    if not all(M.translation.watches(C.pc) for C in loops):
        return LONG_PATIENCE
    return max(PATIENCE // 8, PATIENCE * MANY_LANES // max(sum(C.n for C in loops), MANY_LANES))


def _timed(M) -> bool:
    """True where a clock decides about one of the loops that are left."""
    return any(M.translation.timed(C.pc) for C in M.scheduler.polling)


def _state(M) -> bytes:
    """A digest of where all cohorts stand, of every register and loaded value that decides about them, but for readings of a clock, and of the mbarriers."""
    S = M.scheduler
    digest = hashlib.blake2b(M.seen.to_bytes(8, "little", signed=True), digest_size=16)
    M.seen = 0
    if M.barriers.offsets:
        for table in (M.barriers.phase & 1, M.barriers.pending, M.barriers.tx):
            digest.update(table.tobytes())
    waiting = [*S.polling, *(C for C, _ in S.parked), *(C for cohorts in S.converging.values() for C in cohorts)]
    for C in sorted(waiting, key=lambda c: (c.pc, int(c.gids[0]))):
        digest.update(C.digest or digest_of(M, C))
    return digest.digest()


def digest_of(M: Any, C: Any) -> bytes:
    """What decides about one cohort; kept until it runs on."""
    digest = hashlib.blake2b(C.pc.to_bytes(4, "little") + C.gids.tobytes(), digest_size=16)
    for slot in M.translation.deciding(C.pc):
        value = C.frame.get(slot)
        digest.update(value.tobytes() if hasattr(value, "tobytes") else id(value).to_bytes(8, "little"))
    C.digest = digest.digest()
    return C.digest
