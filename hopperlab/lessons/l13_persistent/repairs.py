# SPDX-License-Identifier: Apache-2.0
"""What lesson 13 breaks, for the learner to mend: the order of two consumers, and a slot of the epilogue."""
from __future__ import annotations

from collections import Counter
from typing import Any

from ..repairs import Repair
from .exercises import in_turn, tells_in_time

TILES, EACH = 8, 16                 # of the block that runs ping-pong: 2 x 4 tiles of two k-blocks, each of 2 x 4 wgmma
SLOTS = 4                           # C_SLOTS of overlapped_store


def _schedule(kernel: str, landing: str) -> tuple[bool, Any]:
    from .schedules import run_schedule
    return run_schedule(kernel, 2, 4, k=128, landing=landing) if kernel == "pingpong" else run_schedule(kernel, 1, 2, k=64, landing=landing)


def _turns(landing: str, _run: Any) -> str:
    """What the order barrier is there for: whole tiles by turns, and each turn told as soon as the last k-block has been issued. The launch of `_schedule`
    again, with barriers on its timeline."""
    import hopperlab as hl

    from ...measure.launches import gemm
    from ...measure.launches.edited import operands

    launch = gemm.LADDER["pingpong"](*operands(2 * 128, 4 * 128, 128), stages=6, group=2, blocks=1, options=(), backend="emulator")
    with hl.emulate(schedule=landing, hazards="collect", trace="accesses") as run:
        launch()
    return in_turn(2, [TILES], EACH).complaint(run) or tells_in_time(EACH).complaint(run)


def _unread(landing: str, run: Any) -> str:
    """What the slots are there for: as many stores as there are slots are unread at the peak, when copies read as late as they may."""
    now, most = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for event in run.timeline:
        thread = event.block, event.warp
        now[thread] += (event.what == "issue store cp") - (event.what == "read store cp")
        most[thread] = max(most[thread], now[thread])
    found = min((count for count in most.values() if count), default=0)
    if landing != "lazy" or found >= SLOTS:
        return ""
    return (f"at most {found} store{'s are' if found > 1 else ' is'} under way at once, and {SLOTS} slots have room for {SLOTS}: the wait is for more than the slot "
            "that is written next.")


REPAIRS = (
    Repair("order", "gemm/pingpong.cu", "if (me == 1 && !BUG_OUT_OF_ORDER)", "for (int i = 0;",
           bug=(("        if (me == 1) ring.skip(k_tiles);   // the first tile is the other's\n", ""),),
           run=lambda landing: _schedule("pingpong", landing), also=_turns,
           hint="The producer fills the ring with the k-blocks of tile after tile. Which of them belong to the second consumer?"),
    Repair("own", "gemm/pingpong.cu", "if (index != blockIdx.x && !BUG_NO_ORDER)", "// the other's turn", bug=(("bar_arrive(2 - me, 256);", "bar_arrive(1 + me, 256);"),),
           run=lambda landing: _schedule("pingpong", landing), also=_turns,
           hint="Consumer `me` waits on barrier 1 + me. Whom does it let go on?"),
    Repair("slot", "gemm/overlapped_store.cu", "unsigned char* slot = my_slots", "// one group a chunk", bug=(("<C_SLOTS - 1>", "<C_SLOTS>"),),
           run=lambda landing: _schedule("overlapped_store", landing), also=_unread,
           hint="C_SLOTS stores use C_SLOTS slots in turn. How many may still be read when the next one is written?"),
)
