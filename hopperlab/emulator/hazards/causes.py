# SPDX-License-Identifier: Apache-2.0
"""Which of several hazards is explained first: what the others mostly follow from. Checks, repairs and lessons that explain one ask here; lists stay
in the order of lines."""
from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .hazard import Hazard

FIRST = {"read-before-arrival": 0, "exit-in-flight": 2, "phase-overrun": 3, "deadlock": 4}
"""Causes (0) before others (1); then what mostly follows: who waits for the wrong phase also ends with the copy under way and is passed by, and both
say so of one barrier."""


def causes_first(hazards: Iterable[Hazard]) -> list[Hazard]:
    """The hazards, causes first. Of races those between warps or blocks come before those between lanes of a warp: the barrier that mends the first
    mends the lanes' too, and no __syncwarp() mends the first. A read of what a later copy brings, by somebody who waited for the right phase, follows from
    a slot that was released too early, which the copy's overwriting says. What is equal keeps the order of lines."""
    found = list(hazards)
    overrun = any(hazard.kind == "phase-overrun" for hazard in found)
    early = set() if overrun else {(hazard.other, hazard.where) for hazard in found if hazard.kind == "overwrite-in-flight"}

    def rank(hazard: Hazard) -> int:
        return 2 if hazard.kind == "read-before-arrival" and (hazard.where, hazard.other) in early else FIRST.get(hazard.kind, 1)
    return sorted(found, key=lambda hazard: (rank(hazard), hazard.case.endswith("-lanes"), hazard.sort_key()))
