# SPDX-License-Identifier: Apache-2.0
"""What the CTAs of a wave load at the same time, in bytes: found by wave.py, used by chip.py."""
from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Together:
    """Bytes that the CTAs of a wave ask for at the same time, and how many of them are not the same, by array."""

    asked: dict[int, float] = field(default_factory=dict)
    different: dict[int, float] = field(default_factory=dict)

    def share(self, address: int) -> float:
        """Of what is loaded of an array, what comes from memory if the L2 has nothing of the wave before; nothing of an array of which no load was seen."""
        return self.different[address] / self.asked[address] if self.asked.get(address) else 0.0
