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


def _one_warp(landing: str) -> tuple[bool, Any]:
    """(right, session) of gemm/producer_warp.cu with four stages on the same tile."""
    from ...measure.launches import variants
    from ..l09_multistage.overlap import run_product
    return run_product(variants.producer_warp, schedule=landing, stages=4)[:2]


def _held(landing: str, run: Any) -> str:
    """'' where the ring fills up before the first tile lands; only when copies land late can that be seen."""
    from .warp_roles import tiles_on_way
    most = tiles_on_way(run) if landing == "lazy" else 4
    return "" if most >= 4 else f"at most {most} of 4 tiles {'is' if most == 1 else 'are'} on the way at a time, however late the copies land."


def _consumer(name: str, right: str, wrong: str, hint: str) -> Repair:
    return Repair(name, "gemm/warp_specialized.cu", "int my_rows = (warpgroup - 1)", "(BUG_ARRIVE_PER_THREAD", ((right, wrong),), _roles, hint)


LOADED = "cp_async_bulk_tensor_2d_load(stage + A_BYTES, &b, &full[ring.slot], i * BK, col0);\n"
REPAIRS = (
    Repair("own", "gemm/producer_warp.cu", "for (int i = 0; i < k_tiles; i++, ring.advance()) {", "            }",
           plain=(("                if (WAIT_FOR_OWN_LOAD) mbarrier_wait_parity(&full[ring.slot], ring.phase);\n", ""),),
           bug=((LOADED, LOADED + "                mbarrier_wait_parity(&full[ring.slot], ring.phase);         // the tile is there: on to the next\n"),),
           run=_one_warp, also=_held,
           hint="Who reads the tile, and who has to know that it is there? And what has the producer to know before it may write into a slot?"),
    Repair("leaves", "gemm/warp_specialized.cu", "for (int i = 0; i < (BUG_PRODUCER_LEAVES", "trace.mark(TRACE_ISSUE, i);",
           bug=(("i < k_tiles;", "i < STAGES;"),), run=_roles,
           hint="How many tiles does the producer bring, and how many do the consumers wait for?"),
    _consumer("arrive", "            if (threadIdx.x % 128 == 0) mbarrier_arrive(&empty[s]);", "            mbarrier_arrive(&empty[s]);",
              "`empty` was initialised for two arrivals. How many arrive?"),
    _consumer("release", "            wgmma_wait_group<0>();\n            trace.end(TRACE_MMA, i);\n            if (threadIdx.x % 128 == 0) mbarrier_arrive(&empty[s]);",
              "            if (threadIdx.x % 128 == 0) mbarrier_arrive(&empty[s]);\n            wgmma_wait_group<0>();\n            trace.end(TRACE_MMA, i);",
              "All lines are there. Which of them may not come before which?"),
)
