# SPDX-License-Identifier: Apache-2.0
"""What lesson 16 breaks, for the learner to mend: rescaling, slots, turns and registers of attention's main loop."""
from __future__ import annotations

from typing import Any

from ..repairs import Repair

def _attention(landing: str) -> tuple[bool, Any]:
    """(right, session) of the overlapped step on 256 queries and 384 keys."""
    from .attention_panels import run_attention

    found = run_attention(k_lengths=(384,), landing=landing)
    return found.right, found.run


GAP = "\n                "
TAIL = ("wgmma_wait_group<0>();", "trace.end(VALUES, j + 1);", "hand_back(&v_empty[before]);", "scale_rows(out, scales);")
ROUND = "scores_to_fragments(p, s);"


def _repair(name: str, right: str, wrong: str, hint: str) -> Repair:
    return Repair(name, "attention/forward.cu", "int before = ring.slot;", ROUND, ((right, wrong),), _attention, hint)


REPAIRS = (
    _repair("rescale", GAP + TAIL[3], "", "When a block brings a larger maximum, what becomes of the sums that were made with the smaller one?"),
    _repair("slot", GAP.join(TAIL[:3]), GAP.join((TAIL[2], *TAIL[:2])), "All lines are there. When may the producer write into the slot of v again?"),
    _repair("turn", "                next_turn();\n", "", "`my_turn()` waits until the other consumer says so. Who says it to the other, and when does it help most?"),
    _repair("registers", GAP.join((*TAIL, ROUND)), GAP.join((ROUND, *TAIL)), "All lines are there. Which product reads the registers of `p`, and when has it read them?"),
)
