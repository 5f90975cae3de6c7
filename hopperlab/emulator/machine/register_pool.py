# SPDX-License-Identifier: Apache-2.0
"""The registers of a CTA as one pool that warps give to and take from: setmaxnreg (PTX ISA 9.7.19.5).

Measured on an H200: with R0 registers per thread at entry, the sum over warpgroups is at most R0 times their number, without
slack; setmaxnreg.inc blocks until the pool has enough. R0 and whether ptxas ignores setmaxnreg (C7508) come from the
compiler's report; without one (foreign PTX) nobody waits.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .waits import Wait

if TYPE_CHECKING:
    from .cohort import Cohort


class RegisterPool:
    """Registers a thread of every warp; `budget`: what all warps of a CTA may hold together."""

    def __init__(self, machine):
        self.M = machine
        self.entry = -(-(getattr(machine.info, "registers", 0) or 0) // 8) * 8        # registers are given out in eights
        notes = getattr(machine.info, "notes", ()) or ()
        self.ignored = any(getattr(note, "code", "") == "C7508" for note in notes)
        self.counts = self.entry > 0 and not self.ignored
        self.budget = self.entry * machine.warps
        self.now = np.full(machine.slots * machine.warps, self.entry, np.int64)

    def reset_slots(self, slots: np.ndarray) -> None:
        """New CTAs start with the registers of the launch."""
        self.now.reshape(self.M.slots, -1)[slots] = self.entry

    def set(self, warps: np.ndarray, direction: str, count: int, site: int) -> None:
        """The warps now hold `count` registers per thread."""
        if (self.now[warps] > count).any():
            self.M.named.flipped = True           # wakes whoever waits for registers
        self.now[warps] = count
        self.M.tell.registers_set(warps, site, direction, count)
        self.M.progress += 1

    def free(self, slots: np.ndarray) -> np.ndarray:
        """Registers (times 32 threads) that nobody holds, by slot."""
        return self.budget - self.now.reshape(self.M.slots, -1)[slots].sum(axis=1)


class RegisterWait(Wait):
    """setmaxnreg.inc: keys are global warp ids of the lanes, extra the registers wanted, site the instruction."""

    retries = True

    def __init__(self, keys: np.ndarray, extra: int, site: int):
        super().__init__(keys, extra)
        self.site = site

    def subset(self, index: np.ndarray) -> "RegisterWait":
        return RegisterWait(self.keys[index], self.extra, self.site)

    def mask(self, M: Any) -> np.ndarray:
        """Warps are served in order while the pool lasts."""
        warps = self.keys[::32]
        need = np.maximum(self.extra - M.registers.now[warps], 0)
        slots, first = np.unique(warps // M.warps, return_index=True)
        total = np.cumsum(need)
        before = np.repeat(total[first] - need[first], np.diff(np.append(first, len(warps))))
        free = np.repeat(M.registers.free(slots), np.diff(np.append(first, len(warps))))
        return np.repeat((total - before <= free) | (need == 0), 32)

    def passed(self, M: Any, C: Cohort) -> None:
        M.registers.set(C.gids[::32] >> 5, "inc", self.extra, self.site)

    def describe(self, M: Any, C: Cohort) -> str:
        """The state of the pool for a learner."""
        slot = int(C.gids[0]) // M.T
        held = M.registers.now.reshape(M.slots, -1)[slot]
        groups = [sorted(set(held[k:k + 4].tolist())) for k in range(0, M.warps, 4)]
        shown = ", ".join(" or ".join(map(str, group)) for group in groups)
        return (f"warps want {self.extra} registers per thread, the warpgroups hold {shown} now, and "
                f"{int(M.registers.free(np.array([slot]))[0]) // 4} of the pool's {M.registers.budget // 4} are free")
