"""Checks of the small exercises at the end of the lessons: each says in words what is right and what is not.

An unanswered exercise is answered with a hint, so that Run All goes through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .boxes import reference_box
from .landing import land

INTENSITIES = {"axpy": 2 / 12, "sum": 1 / 2, "thin product": 2 * 8192 * 8192 * 16 / (2 * (8192 * 8192 + 8192 * 16 + 8192 * 16))}


def check_halo(volume: np.ndarray, box: Sequence[int] | None, start: Sequence[int] | None, expected_bytes: int | None) -> str:
    """Lesson 05: load an 8³ tile with one layer of neighbours, at three corners of `volume`, with the learner's box and its start before the tile."""
    if box is None or start is None or expected_bytes is None:
        return "Not answered yet: write the box, its start and the bytes, then run the cell again."
    for axis, (edge, first) in enumerate(zip(box, start, strict=True)):
        if first > -1 or first + edge < 9:
            return f"Axis {axis}: a box of {edge} from {first} covers {first} to {first + edge - 1}; the tile and its halo are -1 to 8."
    import hopperlab as hl

    array = hl.array_module().asarray(volume)
    for tile in ((0, 0, 0), (4, 4, 4), (8, 8, 8)):
        corner = tuple(t + s for t, s in zip(tile, start))
        try:
            landed = land(array, corner, box)
        except hl.TensorMapError as error:
            return f"The hardware refuses this box: {error}"
        if not np.array_equal(landed, reference_box(volume, corner, box)):
            return f"The box at {corner} is not what the reference says."
        if landed.nbytes != expected_bytes:
            return f"The box is right: it lands {landed.nbytes} bytes, and the barrier would wait for {expected_bytes}. It counts the whole box."
    return f"Right: a row of {box[-1]} floats is a multiple of 16 bytes, and the barrier expects {expected_bytes} bytes wherever the tile lies."


def check_ring(prologue: Callable[[int], int] | None, wait: Callable[[int], int] | None, slot: Callable[[int, int], int] | None) -> str:
    """Lesson 03: play the main loop of a ring of S = 2 to 6 stages over 12 tiles and report the first misuse of a buffer."""
    if prologue is None or wait is None or slot is None:
        return "Not answered yet: write the three functions, then run the cell again."
    for stages in range(2, 7):
        trouble = _play(stages, 12, prologue, wait, slot)
        if trouble:
            return f"With {stages} stages: {trouble}"
    return "Right for 2 to 6 stages: no tile is read before it landed, and none is overwritten before it was read."


def _play(stages: int, tiles: int, prologue: Callable, wait: Callable, slot: Callable) -> str:
    first, pending = prologue(stages), wait(stages)
    if first > stages:
        return f"the prologue loads {first} tiles into {stages} buffers"
    holds = {i: i for i in range(first)}                     # buffer -> tile
    groups = first                                           # groups committed so far; group i is tile i
    for i in range(tiles):
        landed = groups - pending                            # tiles 0 .. landed - 1 have landed
        if i >= landed:
            return f"tile {i} is read while it may still be on its way: {groups} groups committed, {pending} of them may be open"
        if holds.get(i % stages) != i:
            return f"tile {i} is not in buffer {i % stages}: tile {holds.get(i % stages)} is"
        ahead = i + stages - 1
        target = slot(stages, i)
        if ahead < tiles:
            if target == i % stages:
                return f"tile {ahead} is copied over tile {i}, which is being read, in buffer {target}"
            holds[target] = ahead
        groups += 1
    return ""


def check_intensities(answers: Mapping[str, float | None]) -> str:
    """Lesson 00: three arithmetic intensities in FLOP per byte, right within 2 %."""
    lines = []
    for name, right in INTENSITIES.items():
        given = answers.get(name)
        if given is None:
            lines.append(f"{name}: not answered yet")
        elif abs(given - right) <= 0.02 * right:
            lines.append(f"{name}: right")
        else:
            lines.append(f"{name}: {given:.4g} FLOP/byte is not it; count the additions and multiplications, and each byte read or written once")
    return "\n".join(lines)
