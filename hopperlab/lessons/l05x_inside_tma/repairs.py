# SPDX-License-Identifier: Apache-2.0
"""What lesson 05x breaks, for the learner to mend: a barrier that is told of too few bytes."""
from __future__ import annotations

from typing import Any

from ..repairs import Repair


def _queue(landing: str) -> tuple[bool, Any]:
    """(right, session) of micro/tma_latency.cu: two rounds of two boxes of 64 x 64, by tensor copies. The kernel times; there are no values."""
    from .copy_engine import run_queue

    return True, run_queue(64, 64, 2, schedule=landing)[2]


REPAIRS = (
    Repair("expect", "micro/tma_latency.cu", "mbarrier_arrive_expect_tx(barrier, BOX_BYTES);", "else cp_async_bulk_load(",
           bug=(("mbarrier_arrive_expect_tx(barrier, BOX_BYTES);", "mbarrier_arrive_expect_tx(barrier, BOX_ROWS * BOX_COLS);"),), run=_queue,
           hint="The box has BOX_ROWS x BOX_COLS elements of bf16. In which unit does a barrier count?"),
)
