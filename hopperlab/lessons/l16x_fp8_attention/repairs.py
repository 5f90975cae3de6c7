# SPDX-License-Identifier: Apache-2.0
"""What lesson 16x breaks, for the learner to mend: the hand-over of the transposed v."""
from __future__ import annotations

from typing import Any

from ..repairs import Repair

def _attention(landing: str) -> tuple[bool, Any]:
    """(right, session) of attention/forward_fp8.cu on 130 queries and 384 keys."""
    from .fp8_attention_panels import run_attention_fp8

    found = run_attention_fp8(k_lengths=(384,), landing=landing)
    return found.right, found.run


FREE = "                    mbarrier_wait_parity(&vt_empty[ring.slot], ring.phase ^ 1);\n"
FENCE = "                    fence_proxy_async_shared_cta();             // each lane's own writes, before wgmma reads them\n"


def _repair(name: str, right: str, wrong: str, hint: str) -> Repair:
    return Repair(name, "attention/forward_fp8.cu", "for (int left = work_at(index).blocks; left > 0; left--, ring.advance()) {", "mbarrier_arrive(&vt_full[ring.slot]);",
                  ((right, wrong),), _attention, hint)


REPAIRS = (
    _repair("fence", FENCE, "", "The transposing warp writes with ordinary stores, and wgmma reads. What is missing, and who of the warp has to run it?"),
    _repair("empty", FREE, "", "The transposed tile has a ring of its own. What does the transposing warp have to know before it writes into a slot?"),
)
