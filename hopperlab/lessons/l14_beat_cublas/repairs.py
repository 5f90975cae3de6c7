# SPDX-License-Identifier: Apache-2.0
"""What lesson 14 breaks, for the learner to mend: the end of a cluster's producer, and the release of a slot."""
from __future__ import annotations

from typing import Any

from ..repairs import Repair

def _final(landing: str) -> tuple[bool, Any]:
    """(right, session) of gemm/final.cu, 128 x 256 with clusters of two, three stages, on two cluster tiles of four k-blocks."""
    from .choices import configuration, run_choice, small_shape

    choice = configuration((128, 256), 3, (2, 1))
    return run_choice(choice, small_shape(choice), landing=landing)


WAIT = "                wgmma_wait_group<IN_FLIGHT>();                  // the k-block IN_FLIGHT before this one has been read\n"
RELEASE = "                if (i >= IN_FLIGHT) release(ring.slot - IN_FLIGHT);\n"
DRAIN = ("            for (int s = 0; SHARE > 1 && s < STAGES; s++, ring.advance())                       // all slots have come back\n"
         "                mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);\n")
REPAIRS = (
    Repair("leaves", "gemm/final.cu", "Right::load(stage + Left::BYTES", "} else {", bug=((DRAIN, ""),), run=_final,
           hint="Other CTAs of the cluster still arrive on this CTA's `empty` barriers when its producer has issued its last copy. What can it wait for?"),
    Repair("release", "gemm/final.cu", "if (late && i == min(STAGGER", "release(ring.slot - IN_FLIGHT);", bug=(
        (WAIT + RELEASE.rstrip("\n"), RELEASE + WAIT.rstrip("\n")),), run=_final,
        hint="All lines are there. What does `release` promise to the producers?"),
)
