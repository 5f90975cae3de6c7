# SPDX-License-Identifier: Apache-2.0
"""What lesson 13 breaks, for the learner to mend: the order of two consumers, and a slot of the epilogue."""
from __future__ import annotations

from typing import Any

from ..repairs import Repair

def _schedule(kernel: str, landing: str) -> tuple[bool, Any]:
    from .schedules import run_schedule
    return run_schedule(kernel, 2, 4, k=128, landing=landing) if kernel == "pingpong" else run_schedule(kernel, 1, 2, k=64, landing=landing)


REPAIRS = (
    Repair("order", "gemm/pingpong.cu", "if (me == 1 && !BUG_OUT_OF_ORDER)", "for (int i = 0;",
           bug=(("        if (me == 1) ring.skip(k_tiles);   // the first tile is the other's\n", ""),),
           run=lambda landing: _schedule("pingpong", landing),
           hint="The producer fills the ring with the k-blocks of tile after tile. Which of them belong to the second consumer?"),
    Repair("own", "gemm/pingpong.cu", "if (index != blockIdx.x && !BUG_NO_ORDER)", "// the other's turn", bug=(("bar_arrive(2 - me, 256);", "bar_arrive(1 + me, 256);"),),
           run=lambda landing: _schedule("pingpong", landing),
           hint="Consumer `me` waits on barrier 1 + me. Whom does it let go on?"),
    Repair("slot", "gemm/overlapped_store.cu", "unsigned char* slot = my_slots", "// one group a chunk", bug=(("<C_SLOTS - 1>", "<C_SLOTS>"),),
           run=lambda landing: _schedule("overlapped_store", landing),
           hint="C_SLOTS stores use C_SLOTS slots in turn. How many may still be read when the next one is written?"),
)
