# SPDX-License-Identifier: Apache-2.0
"""What lesson 13x breaks, for the learner to mend: a load before the wait, and a flag that is reset too early."""
from __future__ import annotations

from collections import Counter
from typing import Any

from ..repairs import Repair


def _chain(landing: str) -> tuple[bool, Any]:
    from .chain_runs import run_chain
    return run_chain(2, landing=landing)


def _weights_first(landing: str, run: Any) -> str:
    """What the late wait is there for: when a block's producer waits for the grid in front, its tiles of w are on their way, and nothing else."""
    asked, wrong = Counter[int](), set[int]()
    for event in run.timeline:
        asked[event.block] += event.what == "issue cp"
        if event.what == "wait griddepcontrol" and event.opcode == "griddepcontrol.wait" and event.warp == PRODUCER:
            wrong |= {asked[event.block] % (2 * K_TILES)} - {K_TILES}
    if not wrong:
        return ""
    return (f"when the producer waits for the kernel in front, it has asked for {min(wrong)} tiles, and it should be {K_TILES}: nobody in front writes w, "
            "and its tiles can be on their way by then.")


def _persistent(landing: str) -> tuple[bool, Any]:
    from .chain_runs import run_persistent
    return run_persistent(2, landing=landing)


PRODUCER, K_TILES = 4, 2             # the producer's warp; k-blocks of a product, fewer than slots: each asks for a tile of w and one of x
WAIT = "        if (WAIT_AT == WAIT_AT_X) wait_for_grid_in_front(trace);\n"
X = "        for (int i = 0; i < first; i++) load_x(i);\n"
REPAIRS = (
    Repair("wait", "launches/product.cu", "if (WAIT_AT == WAIT_AT_LOADS)", "for (int i = first; i < k_tiles", bug=((WAIT + X, X + WAIT),),
           run=_chain, also=_weights_first,
           hint="Which of the two tiles of a slot does nobody in front write? Only what reads the other one has to stand below the wait."),
    Repair("flag", "launches/persistent_chain.cu", "if (layer > 0) {", "for (int i = 0; i < cols", bug=((
        "                    fence_proxy_async();                        // written by ordinary stores, read by TMA\n",
        "                    fence_proxy_async();                        // written by ordinary stores, read by TMA\n"
        "                    *flag = 0;                                  // for the next launch\n"),), run=_persistent,
        hint="One flag tells several blocks. Who has seen it when the first of them resets it, and who resets all flags at the end of the kernel anyway?"),
)
