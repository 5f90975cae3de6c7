# SPDX-License-Identifier: Apache-2.0
"""What lesson 01 breaks, for the learner to mend: the two barriers of a tile in shared memory."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..repairs import Repair

def _shared_tile(landing: str) -> tuple[bool, Any]:
    """(right, session) of gemm/shared_tile.cu on a product of 136 x 136 x 72."""
    import hopperlab as hl

    from ...measure.launches import gemm
    from ...measure.launches.edited import operands, product

    a, b, c = operands(136, 136, 72)
    with hl.emulate(schedule=landing, hazards="collect") as run:
        gemm.shared_tile(a, b, c, backend="emulator")()
    return bool(np.array_equal(c, product(a, b))), run


REPAIRS = (
    Repair("barriers", "gemm/shared_tile.cu", "for (int k0 = 0;", "// everyone has read it", bug=(
        ("        __syncthreads();              // the tile is there\n", ""), ("\n        __syncthreads();             // everyone has read it", "")),
        run=_shared_tile,
        hint="Two things are wrong at once. Who wrote the numbers that a thread reads from `a_tile`? And who may still be reading them when the next turn of "
             "the loop writes?"),
)
