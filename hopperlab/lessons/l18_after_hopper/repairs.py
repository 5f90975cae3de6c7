# SPDX-License-Identifier: Apache-2.0
"""What lesson 18 leaves to the learner to write: on Hopper, four rows to four places of a matrix, as a scatter4 does elsewhere."""
from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from ..repairs import Repair

ROWS = 100
CASES = ((7, 93, 8, 100), (99, 0, 41, 40))      # row 100 is outside, and must be left out


def scattered(landing: str) -> tuple[bool, Any]:
    """(right, session) of layouts/scatter_rows.cu, launched once for each of CASES. Right: the rows that are named, and no others."""
    import hopperlab as hl

    made = np.random.default_rng(18).integers(1, 99, (4, 64)).astype(np.float32)
    kernel, right = hl.load_kernel("layouts/scatter_rows.cu", "scatter_rows", backend="emulator"), True
    with hl.emulate(schedule=landing, hazards="collect") as run:
        for wanted in CASES:
            table, expected = (np.full((ROWS, 64), -1, np.float32) for _ in range(2))
            for row, values in zip(wanted, made, strict=True):
                expected[row:row + 1] = 2 * values
            kernel((1,), (64,), (hl.TensorMap.tiled(table, box=(1, 64)), np.asarray(wanted, np.int32), made))
            right &= bool((table == expected).all())
    return right, run


def one_by_one(landing: str, run: Any) -> str:
    """A scatter4 starts four rows at once: where copies read as late as they may, four stores of a launch are unread at the peak."""
    if landing != "lazy":
        return ""
    steps = accumulate((event.what == "issue store cp") - (event.what == "read store cp") for event in run.timeline)
    found = max(steps, default=0)
    if found >= len(CASES[0]):
        return ""
    return f"at most {found} store{'s are' if found > 1 else ' is'} under way at once, and the {len(CASES[0])} rows need not wait for each other."


REPAIRS = (
    Repair("scatter", "layouts/scatter_rows.cu", "for (int i = 0; i < 4; i++) tile[i]", "cp_async_bulk_wait_group_read<0>();", bug=(
        ("    fence_proxy_async_shared_cta();                             // what I wrote is there for the engine,\n", ""),
        ("                                            // and what the others wrote", ""),
        ("for (int i = 0; i < 4; i++) cp_async_bulk_tensor_2d_store(&rows, tile[i], 0, wanted[i]);", "cp_async_bulk_tensor_2d_store(&rows, tile, 0, wanted[0]);"),
        ("        cp_async_bulk_commit_group();                           // one group for all four\n", ""),
        ("        cp_async_bulk_wait_group_read<0>();", "        // yours")),
        run=scattered, also=one_by_one,
        hint="Who has written the tile, and by which way does the engine read it? No mbarrier counts a store: what else says that the tile was read?"),
)
