# SPDX-License-Identifier: Apache-2.0
"""Check of lesson 05's small exercise: the box that holds a tile and its halo. An unanswered one is answered with a hint, so that Run All goes through."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..given import no_number, no_whole_numbers
from .boxes import reference_box
from .landed_box import land


SMALLEST = (10, 10, 16)           # a tile of 8³ with one layer around it, in rows of whole 16 bytes


def check_halo(volume: np.ndarray, box: Sequence[int] | None, start: Sequence[int] | None, expected_bytes: int | None) -> str:
    """Lesson 05: load an 8³ tile with one layer of neighbours, at three corners of `volume`, with the learner's box and its start before the tile."""
    if box is None or start is None or expected_bytes is None:
        return "Not answered yet: write the box, its start and the bytes, then run the cell again."
    wrong_form = no_whole_numbers(box, 3) or no_whole_numbers(start, 3) or no_number(expected_bytes)
    if wrong_form:
        return f"Not yet: {wrong_form}."
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
    right = f"Right: a row of {box[-1]} floats is a multiple of 16 bytes, and the barrier expects {landed.nbytes} bytes wherever the tile lies."
    return right if tuple(box) == SMALLEST else f"{right} It brings more than is needed: {' x '.join(map(str, SMALLEST))} is enough."
