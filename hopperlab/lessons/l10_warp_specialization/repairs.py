# SPDX-License-Identifier: Apache-2.0
"""What lesson 10 breaks, for the learner to mend: a producer and two consumers that lose one another."""
from __future__ import annotations

from typing import Any

from ..repairs import Repair

RELEASE = "            if (threadIdx.x % 128 == 0) mbarrier_arrive(&empty[s]);\n"
PRODUCER = "for (int i = 0; i < k_tiles; i++) {", "trace.mark(TRACE_ISSUE, i);"


def _roles(landing: str) -> tuple[bool, Any]:
    """(right, session) of gemm/warp_specialized.cu on one tile of eight k-blocks."""
    from ...measure.launches import launch
    from ..l09_multistage.overlap import run_product
    return run_product(launch.warp_specialized, schedule=landing)[:2]


def _consumer(name: str, right: str, wrong: str, hint: str) -> Repair:
    return Repair(name, "gemm/warp_specialized.cu", "int my_rows = (warpgroup - 1)", "(BUG_ARRIVE_PER_THREAD", ((right, wrong),), _roles, hint)


REPAIRS = (
    Repair("leaves", "gemm/warp_specialized.cu", "for (int i = 0; i < (BUG_PRODUCER_LEAVES", "trace.mark(TRACE_ISSUE, i);",
           bug=(("i < k_tiles;", "i < STAGES;"),), run=_roles,
           hint="How many tiles does the producer bring, and how many do the consumers wait for?"),
    _consumer("arrive", "            if (threadIdx.x % 128 == 0) mbarrier_arrive(&empty[s]);", "            mbarrier_arrive(&empty[s]);",
              "`empty` was initialised for two arrivals. How many arrive?"),
    _consumer("release", "            wgmma_wait_group<0>();\n            trace.end(TRACE_MMA, i);\n            if (threadIdx.x % 128 == 0) mbarrier_arrive(&empty[s]);",
              "            if (threadIdx.x % 128 == 0) mbarrier_arrive(&empty[s]);\n            wgmma_wait_group<0>();\n            trace.end(TRACE_MMA, i);",
              "All lines are there. Which of them may not come before which?"),
)
