# SPDX-License-Identifier: Apache-2.0
"""The registers of a block as a budget that its warpgroups share: what a thread has at entry, and what setmaxnreg may ask for."""
from __future__ import annotations

from dataclasses import dataclass

from ...hopper import limits


def registers_at_entry(threads: int) -> int:
    """Most registers per thread can have when `threads` threads of one block share an SM: a multiple of 8, at most 255 (which is
    allotted as 256). CUDA Programming Guide, compute capability 9.0; ptxas allots this with __launch_bounds__(threads, 1)."""
    return min(limits.MAX_REGISTERS_PER_THREAD, limits.REGISTERS_PER_SM // threads // 8 * 8)


@dataclass(frozen=True)
class Budget:
    """Registers a thread of each warpgroup, and of the launch: `entry`. All may hold at most entry x warpgroups."""

    roles: tuple[int, ...]
    entry: int

    @property
    def limit(self) -> int:
        """What the roles' counts may add up to (measured on an H200: no slack)."""
        return -(-self.entry // 8) * 8 * len(self.roles)

    @property
    def problem(self) -> str:
        """Why this budget cannot be asked for; empty when it can."""
        low, high = limits.SETMAXNREG_RANGE
        for count in self.roles:
            if count % 8 or not low <= count <= high:
                return f"setmaxnreg takes multiples of 8 from {low} to {high}, not {count}"
        if sum(self.roles) > self.limit:
            return f"{' + '.join(map(str, self.roles))} = {sum(self.roles)}, and there are {self.limit}: the last setmaxnreg.inc waits for ever"
        return ""
