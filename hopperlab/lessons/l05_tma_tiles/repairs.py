# SPDX-License-Identifier: Apache-2.0
"""What lesson 05 breaks, for the learner to mend: what a barrier is told of a box, and who waits for it."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..repairs import Repair

EXPECT = "    mbarrier_arrive_expect_tx(&full, BOX_BYTES);\n"
WAIT = "    mbarrier_wait_parity(&full, 0);\n"


def _copy(landing: str) -> tuple[bool, Any]:
    """(right, session) of copy/tma_copy.cu on 128 x 64 halves."""
    import hopperlab as hl

    a = (np.arange(128 * 64) % 251).astype(np.float16).reshape(128, 64)
    b = np.zeros_like(a)
    maps = [hl.TensorMap.tiled(array, box=(64, 64), swizzle="128B") for array in (a, b)]
    kernel = hl.load_kernel("copy/tma_copy.cu", "tma_copy", backend="emulator")
    with hl.emulate(schedule=landing, hazards="collect") as run:
        kernel((1, 2), (32,), (*maps,), shared_mem=64 * 128)
    return bool((a == b).all()), run


def _repair(name: str, right: str, wrong: str, hint: str) -> Repair:
    return Repair(name, "copy/tma_copy.cu", "int column = blockIdx.x * BOX_COLS, row", "cp_async_bulk_wait_group<0>();", ((right, wrong),), _copy, hint)


REPAIRS = (
    _repair("expect", EXPECT, "", "Nobody has arrived on the barrier, and it was told of no bytes. Which one call does both? (Before the copy is where the "
                                  "course puts it. Behind it is right too: until that one arrival the phase cannot end, and the tx-count may be negative meanwhile.)"),
    _repair("wait", WAIT, "", "The store reads the tile. What has to have happened before? And which phase of a fresh barrier is that: which parity blocks "
                              "until it has happened, and which passes at once?"),
)
