# SPDX-License-Identifier: Apache-2.0
"""What lesson 16b breaks, for the learner to mend: the order in which CTAs add to dq, and the slot of do."""
from __future__ import annotations

from typing import Any

from ..repairs import Repair


def _ordered(landing: str) -> tuple[bool, Any]:
    """(right, session) of a pass whose dq is promised in order."""
    from .backward_panels import run_backward

    found = run_backward("ordered", 320, landing=landing, seed=1)
    return found.right, found.run


def _overlapped(landing: str) -> tuple[bool, Any]:
    from .backward_panels import run_backward

    found = run_backward("overlapped", 500, landing=landing, seed=1)
    return found.right, found.run


WAIT = "                            wait_for_count(&done[tile], before);\n"
RELEASE, WAITED = "release(&do_empty[slot]);", "wgmma_wait_group<AHEAD ? 2 : OVERLAP>();                // dv and dq are there"
GAP = "\n        "

REPAIRS = (
    Repair("order", "attention_backward/backward.cu", "float* target = sums + tile * BM * D + w * PART / 4;",
           "else cp_reduce_async_bulk_add_f32(target, dqs + w * PART, PART);", ((WAIT, ""),), _ordered,
           "The first CTA stores and the others add. How does a CTA know that it is its turn, and where does that number lie?"),
    Repair("slot", "attention_backward/backward.cu", "wgmma_dq<BN>(dq, ds_tile + (D == 64 ? me * KV_PANEL : 0), k_tile + (D == 64 ? 0 : me * KV_PANEL));",
           "release(&do_empty[slot]);",
           ((WAITED + GAP + RELEASE, RELEASE + GAP + WAITED),), _overlapped,
           "All lines are there. Which product still reads this slot of do, and which line waits for it?"),
)
