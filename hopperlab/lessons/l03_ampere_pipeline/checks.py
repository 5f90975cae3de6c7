# SPDX-License-Identifier: Apache-2.0
"""Check of lesson 03's small exercise: a ring of slots, played over 12 tiles. An unanswered one is answered with a hint, so that Run All goes through."""
from __future__ import annotations

from collections.abc import Callable


def check_ring(prologue: Callable[[int], int] | None, wait: Callable[[int], int] | None, slot: Callable[[int, int], int] | None) -> str:
    """Lesson 03: play the main loop of a ring of S = 2 to 6 stages over 12 tiles and report the first misuse of a slot."""
    if prologue is None or wait is None or slot is None:
        return "Not answered yet: write the three functions, then run the cell again."
    for stages in range(2, 7):
        trouble = _play(stages, 12, prologue, wait, slot) or _waste(stages, prologue(stages), wait(stages))
        if trouble:
            return f"With {stages} stages: {trouble}"
    return "Right for 2 to 6 stages: no tile is read before it landed, and none is overwritten before it was read."


def _waste(stages: int, first: int, pending: int) -> str:
    """What is safe in a ring of so many stages, but does more than it need."""
    if first == stages:
        return f"tile {stages - 1} is loaded twice, by the prologue and by the loop at tile 0"
    if pending < stages - 2:
        return f"safe, but the wait leaves {pending} {_groups(pending)} in flight where {stages - 2} may stay: the copies run under fewer products"
    return ""


def _groups(count: int) -> str:
    return "group" + "s" * (count != 1)


def _tiles(count: int) -> str:
    return f"{count} tile" + "s" * (count != 1)


def _play(stages: int, tiles: int, prologue: Callable, wait: Callable, slot: Callable) -> str:
    first, pending = prologue(stages), wait(stages)
    if first > stages:
        return f"the prologue loads {first} tiles into {stages} slots"
    holds = {i: i for i in range(first)}                     # slot -> tile
    groups = first                                           # groups committed so far; group i is tile i
    for i in range(tiles):
        landed = groups - pending                            # tiles 0 .. landed - 1 have landed
        if i >= groups:
            return f"tile {i} is used and was never copied: the prologue copies {_tiles(first)}, and the loop begins with tile {stages - 1}"
        if i >= landed:
            return f"tile {i} is read while it may still be on its way: of {groups} committed {_groups(groups)}, {pending} may be open"
        if (there := holds.get(i % stages)) != i:
            return f"tile {i} is not in slot {i % stages}: {'nothing' if there is None else f'tile {there}'} is"
        ahead = i + stages - 1
        target = slot(stages, i)
        if ahead < tiles:
            if target == i % stages:
                return f"tile {ahead} is copied over tile {i}, which is being read, in slot {target}"
            holds[target] = ahead
        groups += 1
    return ""
