# SPDX-License-Identifier: Apache-2.0
"""What lesson 03 breaks, for the learner to mend: the wait and the barrier of a ring of cp.async."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..repairs import Repair
from .exercises import by_warp_copies, peak_and_least

TILES = -(-200 // 32) + 3           # that a warp copies: those of k = 200, and those behind the end, of which nothing is copied but zeros
WAIT = "        cp_async_wait_group<STAGES - 2>();   // my copies of the next tile have landed;\n"
BARRIER = "        __syncthreads();            // so have everyone's, and all have read the tile before\n"


def _ring(landing: str) -> tuple[bool, Any]:
    """(right, session) of gemm/mma_multistage.cu with four stages on 136 x 136 x 200."""
    import hopperlab as hl

    from ...measure.launches import launch
    from ...measure.launches.edited import operands, product

    a, b, c = operands(136, 136, 200)
    made = launch.mma_multistage(a, b, c, 4, backend="emulator")
    with hl.emulate(schedule=landing, hazards="collect") as run:
        made()
    return bool(np.array_equal(c, product(a, b))), run


def _drained(landing: str, run: Any) -> str:
    """What the ring is there for: with four stages, two tiles stay on their way through each wait in the loop."""
    left = [least / (steps.count(1) / TILES) for steps in by_warp_copies(run) for _, least in [peak_and_least(steps)] if least is not None] if landing == "lazy" else []
    if not left or min(left) >= 2:
        return ""
    return (f"the wait leaves {min(left):g} tile{'s' * (min(left) != 1)} on the way, and 2 may stay with 4 stages: it waits for more than the next tile, and "
            f"copies run under fewer products.")


REPAIRS = (
    Repair("shallow", "gemm/mma_multistage.cu", "auto wait_for_tile", "cp_async_wait_all();", bug=((WAIT, "        cp_async_wait_group<STAGES - 1>();\n"),),
           run=_ring, also=_drained,
           hint="Count the groups that are committed when the wait is reached in the first turn of the loop. How many of them may still be open, if the next "
                "tile has to be there?"),
    Repair("barrier", "gemm/mma_multistage.cu", "auto wait_for_tile", "cp_async_wait_all();", bug=((BARRIER, ""),), run=_ring, also=_drained,
           hint="One line is missing. It has to say two things at once: that others' copies have landed, and that others have read."),
)
