# SPDX-License-Identifier: Apache-2.0
"""What lesson 13x breaks, for the learner to mend: a load before the wait, and a flag that is reset too early."""
from __future__ import annotations

from typing import Any

from ..repairs import Repair


def _chain(landing: str) -> tuple[bool, Any]:
    from .chain_runs import run_chain
    return run_chain(2, landing=landing)


def _persistent(landing: str) -> tuple[bool, Any]:
    from .chain_runs import run_persistent
    return run_persistent(2, landing=landing)


WAIT = "        if (WAIT_AT == WAIT_AT_X) wait_for_grid_in_front(trace);\n"
X = "        for (int i = 0; i < first; i++) load_x(i);\n"
REPAIRS = (
    Repair("wait", "launches/product.cu", "if (WAIT_AT == WAIT_AT_LOADS)", "for (int i = first; i < k_tiles", bug=((WAIT + X, X + WAIT),), run=_chain,
           hint="Which of the two tiles of a slot does nobody in front write? Only what reads the other one has to stand below the wait."),
    Repair("flag", "launches/persistent_chain.cu", "if (layer > 0) {", "for (int i = 0; i < cols", bug=((
        "                    fence_proxy_async();                        // written by ordinary stores, read by TMA\n",
        "                    fence_proxy_async();                        // written by ordinary stores, read by TMA\n"
        "                    *flag = 0;                                  // for the next launch\n"),), run=_persistent,
        hint="One flag tells several blocks. Who has seen it when the first of them resets it, and who resets all flags at the end of the kernel anyway?"),
)
