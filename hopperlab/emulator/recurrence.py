"""Whether loops that wait have come back to where they were: then they never end, since nothing else can change.

Asked only when nothing but looping threads could run and no operation is in flight. A loop whose registers differ each time
(it counts, it reads on, it watches the clock) may still end by itself.
"""
from __future__ import annotations

import hashlib

MOST_WORK = 200_000_000        # thread iterations over memory that nobody changes (a round counts 2,048 more) before it is stuck


class Recurrence:
    """Brent's cycle detection over the states of one launch in which only loops were left."""

    def __init__(self) -> None:
        self._progress = -1
        self._work, self._rounds, self._keep_at, self._kept = 0, 0, 1, b""

    def seen(self, M, cohorts: list) -> bool:
        """True when the looping cohorts are in a state that they were in before, with nothing done in between."""
        if self._progress != M.progress:
            self._progress, self._work, self._rounds, self._keep_at, self._kept = M.progress, 0, 0, 1, b""
        state = _state(M, cohorts)
        self._work += 2048 + sum(C.n for C in cohorts)
        if state == self._kept or self._work > MOST_WORK:
            return True
        self._rounds += 1
        if self._rounds == self._keep_at:
            self._kept, self._keep_at = state, 2 * self._keep_at
        return False


def _state(M, cohorts: list) -> bytes:
    """A digest of where the cohorts stand, of every register that they may still read, and of how often a clock was read."""
    digest = hashlib.blake2b(M.ticks.to_bytes(8, "little"), digest_size=16)
    for C in sorted(cohorts, key=lambda c: (c.pc, int(c.gids[0]))):
        digest.update(C.pc.to_bytes(4, "little") + C.gids.tobytes())
        for slot in sorted(M.blocks[C.pc].live_in):
            value = C.frame.get(slot)
            digest.update(value.tobytes() if hasattr(value, "tobytes") else id(value).to_bytes(8, "little"))
    return digest.digest()
