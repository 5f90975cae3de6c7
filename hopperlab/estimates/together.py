# SPDX-License-Identifier: Apache-2.0
"""What the CTAs of a wave load at the same time, in bytes: found by wave.py, used by chip.py."""
from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

STEP = 1 << 15               # bytes of a CTA's loads that are looked at together


@dataclass
class Together:
    """Bytes that the CTAs of a wave ask for at the same time, and how many of them are not the same, by array. again: bytes that a CTA asks for as one before it
    did, as (bytes that those from the one to the other ask for and that differ, these bytes). new: each wave asks for other bytes than those before it.
    near: bytes that a CTA asks for as one of the cluster before it in the grid does at the same time; paired: as the other CTA of its cluster on
    the same TPC does; sent: that it asks for for several CTAs of its cluster; repeated: share of boxes that it asks for more than once.
    followed: where a launch's loads were followed in order (order.py), what that says of an L2 whose halves have so many bytes: the four that `on` puts in, which are
    brought: bytes that memory brings for the whole launch;
    dealt: loads of attention's CTAs that are dealt their tiles, which differ: of the sampled cluster's, of those of the cluster that has the most, and of all;
    steps: and which share of what each CTA asks for, so many bytes after so many; later: of what it asks for at last, what the one before it does at the same
    time; same: of all, what another one asks for at the same time.
    first: of attention, of the first of these bytes; known: what `followed` has said."""

    asked: dict[int, float] = field(default_factory=dict)
    different: dict[int, float] = field(default_factory=dict)
    again: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    near: dict[int, float] = field(default_factory=dict)
    paired: dict[int, float] = field(default_factory=dict)
    sent: dict[int, float] = field(default_factory=dict)
    repeated: dict[int, float] = field(default_factory=dict)
    new: bool = False
    followed: Callable[[float], tuple[float, list[float], float, float]] | None = None
    brought: float | None = None
    dealt: tuple[float, float, float] | None = None
    steps: list[float] = field(default_factory=list)
    later: float = 0.0
    same: float = 0.0
    first: float = 0.0
    known: dict[float, Together] = field(default_factory=dict)

    def on(self, half: float) -> Together:
        """The same on a board whose L2 has halves of so many bytes."""
        if self.followed is None:
            return self
        if half not in self.known:
            brought, steps, later, same = self.followed(half)
            self.known[half] = replace(self, followed=None, brought=brought, first=steps[0] if self.new and steps else 0.0, steps=[] if self.new else steps,
                                       later=later, same=same)
        return self.known[half]

    def share(self, address: int) -> float:
        """Of what is loaded of an array, what comes from memory if the L2 has nothing of the wave before; nothing of an array of which no load was seen."""
        return self.different[address] / self.asked[address] if self.asked.get(address) else 0.0

    def merged(self, loaded: dict[int, float], times: float, others: float) -> float:
        """Of bytes that SMs ask for, those that the L2 is asked for, if so many requests of neighbours for the same line are one, on average, and so many of others;
        what goes to several SMs of a cluster is asked for as often as they ask, what both SMs of a TPC ask for is asked for once (benchmarks/merged_requests.py: 1.9 to
        2.0). loaded: by array."""
        near = sent = paired = 0.0
        for address, nbytes in loaded.items():
            asked = max(1.0, self.asked.get(address, 0.0))
            several = self.sent.get(address, 0.0) / asked
            sent += nbytes * several
            near += nbytes * self.near.get(address, 0.0) / asked * (1 - several)
            paired += nbytes * self.paired.get(address, 0.0) / asked * (1 - several)
        all_of_them = max(1.0, sum(loaded.values()))
        return (near / times + sent + (all_of_them - near - sent - paired) / others) / all_of_them

    def several(self, loaded: dict[int, float]) -> float:
        """Share of what is loaded that goes to several CTAs of a cluster. loaded: by array."""
        return sum(nbytes * self.sent.get(address, 0.0) / max(1.0, self.asked.get(address, 0.0)) for address, nbytes in loaded.items()) / max(1.0, sum(loaded.values()))

    def repeating(self, loaded: dict[int, float]) -> float:
        """Share of what is loaded that an SM asks for while the same is on its way to it. loaded: by array."""
        return sum(nbytes * self.repeated.get(address, 0.0) for address, nbytes in loaded.items()) / max(1.0, sum(loaded.values()))

    def period(self, address: int, size: float, scale: float) -> float:
        """Waves until a byte of an array is asked for again: an array that neighbours share is walked through from one end to the other, of others the next wave
        asks for the same. size: of the array; scale: bytes of a wave, of each that was seen."""
        walked = self.near.get(address, 0.0) > 0.5 * self.asked.get(address, 1.0)
        return max(1.0, size / max(1.0, scale * self.different.get(address, size))) if walked else 1.0

    def alone(self, address: int, scale: float, kept: float, gone: float) -> float:
        """The same if CTAs do not go on together, but each begins where it is free, one after the other: what one before it has asked for is still there if at
        most `kept` bytes have come between, none of it if `gone` have. scale: bytes of a wave, of each that was seen."""
        if not self.asked.get(address):
            return 0.0
        lost = sum(nbytes * min(1.0, max(0.0, (scale * between - kept) / (gone - kept))) for between, nbytes in self.again.get(address, ()))
        return min(1.0, (self.different[address] + lost) / self.asked[address])
