# SPDX-License-Identifier: Apache-2.0
"""When registers were computed, for wgmma: how many wgmma.fence the warp had run, and the instruction (PTX ISA 9.7.15.7.1).

compile/register_times.py gives registers that can reach a wgmma a second one for this; who listens to `operands_taken` judges.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..isa.value import Value
    from .cohort import Cohort

SITE_BITS = 18
SITE_MASK = (1 << SITE_BITS) - 1
COUNTS = 16383                   # fence counts wrap: a time is 1..COUNTS
NO_TIME = np.uint32(0)


class FenceCounts:
    """How many wgmma.fence every warp has run."""

    def __init__(self, slots: int, warps: int):
        self.slots = slots
        self.count = np.zeros(slots * warps, np.int64)
        self.serial = 0

    def run(self, warps: np.ndarray) -> None:
        """wgmma.fence by these warps."""
        self.count[warps] += 1
        self.serial += 1

    def reset_slots(self, slots: np.ndarray) -> None:
        """New CTAs have run none."""
        self.serial += 1
        self.count.reshape(self.slots, -1)[slots] = 0

    def base(self, C: Cohort) -> Value:
        """The cohort's present time without the instruction: a scalar when all warps agree."""
        known = C._cache.get("fences")
        if known is None or known[0] != self.serial:
            counts = self.count[C.gids >> 5] % COUNTS + 1 << SITE_BITS
            value = np.uint32(counts[0]) if (counts == counts[0]).all() else counts.astype(np.uint32)
            known = C._cache["fences"] = (self.serial, value)
        return known[1]

    def time(self, C: Cohort, site: int) -> Value:
        """The time of a register that instruction `site` computes now."""
        return self.base(C) | np.uint32(site)
