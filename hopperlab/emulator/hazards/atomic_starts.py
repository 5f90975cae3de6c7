# SPDX-License-Identifier: Apache-2.0
"""Atomics on shared words that nobody has given a first value: what they add to is what was there before the launch.

As with other reads (checks_end.py), an instruction is told that in the whole launch never met a word somebody had written, by anything but atomics. An exchange is a
first value itself.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.events import Listener
from .shared_order import words_of
from .stamps import W_SITE_MASK

if TYPE_CHECKING:
    from ..machine.cohort import Cohort
    from .findings import Watched
    from .shared_order import SharedOrder


class AtomicStarts(Listener):
    """Hears atomics before they are entered in the stamps. raw: words to which only atomics have written, and none of them an exchange."""

    def __init__(self, machine: Watched, memory: SharedOrder, sites: frozenset[int]) -> None:
        self.M, self.memory = machine, memory
        self.sites = np.array(sorted(sites))
        self.sets = {i for i in sites if "exch" in machine.body[i].mods}
        self.raw = np.zeros(len(memory.writes), bool)

    def admitted(self, domains: np.ndarray, reused: np.ndarray) -> None:
        """Shared memory of new CTAs has no history."""
        if len(reused):
            self.raw.reshape(-1, self.memory.words)[reused] = False

    def shared_atomic(self, C: Cohort, flat: np.ndarray, info: Any) -> None:
        """Is there anything to add to?"""
        memory, strong = self.memory, self.memory.strong_stores.stamps
        if info.index in memory.fed:
            return
        at = words_of(flat, info.nbytes)
        stamps = memory.writes[at]
        begun = (stamps != 0) & ~(self.raw[at] & (stamps > 0) & np.isin(stamps & W_SITE_MASK, self.sites))
        if strong is not None:
            begun |= strong[at] != 0
        if info.index in self.sets:
            self.raw[at] = False
        elif begun.any():
            memory.fed.add(info.index)
        else:
            self.raw[at] = True
            memory.unfed.setdefault(info.index, (int(C.gids[0]), int(flat[0])))


def listeners(machine: Watched, memory: SharedOrder) -> list[Listener]:
    """One, where the kernel has atomics that may be of shared memory, and all who write there are known."""
    sites = frozenset(i.index for i in machine.body if i.op in ("atom", "red") and "global" not in i.mods and "async" not in i.mods)
    return [AtomicStarts(machine, memory, sites)] if sites and machine.cluster == 1 and memory.words else []
