# SPDX-License-Identifier: Apache-2.0
"""What lesson 04 breaks, for the learner to mend: parity, arrival and bytes of a ring."""
from __future__ import annotations

from typing import Any

from ..repairs import Repair

def _ring(landing: str) -> tuple[bool, Any]:
    """(right, session) of mbarrier/ring.cu with two slots on five tiles."""
    from .stepper import ring_run

    run, right = ring_run(stages=2, tiles=5, schedule=landing)
    return right, run


def _repair(name: str, right: str, wrong: str, hint: str) -> Repair:
    return Repair(name, "mbarrier/ring.cu", "Ring<STAGES> ring;", "reinterpret_cast<float4*>(y + tile * TILE)[t] = sum;", ((right, wrong),), _ring, hint)


REPAIRS = (
    _repair("parity", "&full[ring.slot], ring.phase);", "&full[ring.slot], ring.phase ^ 1);",
            "`wait_parity(b, p)` returns when the phase of parity p is over. In which phase does the first tile arrive?"),
    _repair("arrive", "        if (t % 32 == 0) mbarrier_arrive(&empty[ring.slot]);\n", "",
            "The producer waits on `empty`, which was initialised for four arrivals. Which four, when, and after what?"),
    _repair("bytes", "expect_tx(&full[ring.slot], TILE_BYTES);", "expect_tx(&full[ring.slot], TILE_BYTES + 16);",
            "The phase ends when as many bytes have landed as were announced. How many land?"),
)
