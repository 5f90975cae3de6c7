# SPDX-License-Identifier: Apache-2.0
"""What lesson 16 breaks, for the learner to mend: rescaling, slots, turns and registers of attention's main loop."""
from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from ...emulator.observe.timeline import wgmma_turns
from ..repairs import Repair

def _attention(landing: str) -> tuple[bool, Any]:
    """(right, session) of the overlapped step on 256 queries and 384 keys."""
    from .attention_panels import run_attention

    found = run_attention(k_lengths=(384,), landing=landing)
    return found.right, found.run


def _traced() -> Any:
    """The session of the same launch in the lazy schedule, with exponentials and barriers on its timeline."""
    import hopperlab as hl

    from ...measure.launches import attention
    from .attention_panels import KEYS, STEPS, sequences

    q, k, v, *starts = sequences((256,), (384,), 1, 1, 64, 1.0)
    o, lse = np.zeros(q.shape, np.uint16), np.zeros((1, len(q)), np.float32)
    launch = attention.forward(*(x.view(np.uint16) for x in (q, k, v)), o, lse, *starts, False,
                               choice=replace(STEPS["overlapped"], bn=KEYS, blocks=1), backend="emulator")
    with hl.emulate(schedule="lazy", hazards="collect", trace="accesses") as run:
        launch()
    return run


def _kept(landing: str, _run: Any) -> str:
    """What the loop is there for: most exponentials run while a product of their own warp is in flight, the consumers' products do not mix, and the next one's
    turn comes before the softmax."""
    flying, under, since = Counter[tuple[int, int]](), Counter[bool](), Counter[tuple[int, int]]()
    issued, run = 0, _traced() if landing == "lazy" else None
    for event in run.timeline if run else ():
        warp = event.block, event.warp
        if event.what.endswith(" wgmma"):
            flying[warp] += 1 if event.kind == "issue" else -1
            if event.kind == "issue":
                issued, since[warp] = issued + 1, 0
        elif event.what == "exponential":
            under[flying[warp] > 0] += int(event.detail)
            since[warp] += int(event.detail)
        elif event.what == "meet bar" and "arrive" in event.opcode and since[warp]:
            return "a consumer passes its turn on after its softmax: the other one waits with its products, and nobody multiplies while this one takes exponentials."
    if under[True] < under[False]:
        return ("most exponentials are taken with no product in flight: the values of the block before are no longer under this block's softmax. Which product must "
                "have landed before the softmax begins, and which may still be on its way?")
    turns = len(wgmma_turns(run.timeline, 0)) if run else 0
    if issued // 4 < 4 * turns:                                 # each of the four warps issues; a product is four of them or more
        return f"the consumers' products mix: {issued // 4} wgmma in {turns} turns. Each one's scores and values are to be issued together, in its turn."
    return ""


GAP = "\n                "
TAIL = ("wgmma_wait_group<0>();", "trace.end(VALUES, j + 1);", "hand_back(&v_empty[before]);", "scale_rows(out, scales);")
ROUND = "scores_to_fragments(p, s);"


def _repair(name: str, right: str, wrong: str, hint: str) -> Repair:
    return Repair(name, "attention/forward.cu", "int before = ring.slot;", ROUND, ((right, wrong),), _attention, hint, also=_kept)


REPAIRS = (
    _repair("rescale", GAP + TAIL[3], "", "When a block brings a larger maximum, what becomes of the sums that were made with the smaller one?"),
    _repair("slot", GAP.join(TAIL[:3]), GAP.join((TAIL[2], *TAIL[:2])), "All lines are there. When may the producer write into the slot of v again?"),
    _repair("turn", "                next_turn();\n", "", "`my_turn()` waits until the other consumer says so. Who says it to the other, and when does it help most?"),
    _repair("registers", GAP.join((*TAIL, ROUND)), GAP.join((ROUND, *TAIL)), "All lines are there. Which product reads the registers of `p`, and when has it read them?"),
)
