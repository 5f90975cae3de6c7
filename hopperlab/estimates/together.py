# SPDX-License-Identifier: Apache-2.0
"""What the CTAs of a wave load at the same time, in bytes: found by wave.py, used by chip.py."""
from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Together:
    """Bytes that the CTAs of a wave ask for at the same time, and how many of them are not the same, by array. again: bytes that a CTA asks for as one before it
    did, as (bytes that those from the one to the other ask for and that differ, these bytes). new: each wave asks for other bytes than those before it."""

    asked: dict[int, float] = field(default_factory=dict)
    different: dict[int, float] = field(default_factory=dict)
    again: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    new: bool = False

    def share(self, address: int) -> float:
        """Of what is loaded of an array, what comes from memory if the L2 has nothing of the wave before; nothing of an array of which no load was seen."""
        return self.different[address] / self.asked[address] if self.asked.get(address) else 0.0

    def alone(self, address: int, scale: float, kept: float, gone: float) -> float:
        """The same if CTAs do not go on together, but each begins where it is free, one after the other: what one before it has asked for is still there if at
        most `kept` bytes have come between, none of it if `gone` have. scale: bytes of a wave, of each that was seen."""
        if not self.asked.get(address):
            return 0.0
        lost = sum(nbytes * min(1.0, max(0.0, (scale * between - kept) / (gone - kept))) for between, nbytes in self.again.get(address, ()))
        return min(1.0, (self.different[address] + lost) / self.asked[address])
