# SPDX-License-Identifier: Apache-2.0
"""What lesson 02 breaks, for the learner to mend: writer and reader of a swizzled tile that disagree."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..repairs import Repair

def _transpose(landing: str) -> tuple[bool, Any]:
    """(right, session) of banks/transpose.cu with the XOR."""
    import hopperlab as hl

    numbers = np.arange(1024, dtype=np.float32).reshape(32, 32)
    out = np.zeros_like(numbers)
    kernel = hl.load_kernel("banks/transpose.cu", "transpose", ("-DSWIZZLE=1",), backend="emulator")
    with hl.emulate(schedule=landing, hazards="collect") as run:
        kernel((1,), (32, 32), (numbers, out))
    return bool((out == numbers.T).all()), run


def _conflicts(landing: str, run: Any) -> str:
    """What the swizzle is there for: no conflicts."""
    count = run.counters["shared_load_conflicts"] + run.counters["shared_store_conflicts"]
    return f"{count} bank conflicts are back: without the XOR on both sides the columns of the tile lie in one bank." if count else ""


REPAIRS = (
    Repair("swizzle", "banks/transpose.cu", "int x = threadIdx.x, y", "out[y * 32 + x]", bug=(("tile[place(x, y, SWIZZLE)];", "tile[place(x, y, false)];"),),
           run=_transpose, also=_conflicts, hint="Say in words where the element of row y and column x lies after the first line. Does the last line look there?"),
)
