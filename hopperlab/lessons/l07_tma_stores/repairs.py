# SPDX-License-Identifier: Apache-2.0
"""What lesson 07 breaks, for the learner to mend: the fence before a store, and the wait before a slot is filled again."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..repairs import Repair

FENCE = "        fence_proxy_async_shared_cta();    // my stores come before the engine's reads ...\n"


def _scale(landing: str) -> tuple[bool, Any]:
    """(right, session) of copy/tma_scale.cu on 300 x 64 floats by one block."""
    import hopperlab as hl

    from ...measure.launches import launch

    a = (np.arange(300 * 64) % 97).astype(np.float32).reshape(300, 64)
    b = np.zeros_like(a)
    made = launch.tma_scale(a, b, 2.0, 1, backend="emulator")
    with hl.emulate(schedule=landing, hazards="collect") as run:
        made()
    return bool((b == 2 * a).all()), run


def _repair(name: str, changes: tuple[tuple[str, str], ...], hint: str) -> Repair:
    return Repair(name, "copy/tma_scale.cu", "int s = 0, phase = 0;", "// both slots were used: the next phase begins", changes, _scale, hint)


REPAIRS = (
    _repair("fence", ((FENCE, ""), ("// ... and everyone has fenced", "// everyone is here")),
            "Ordinary stores write the slot, the engine reads it: two proxies. Who has to fence, before which line?"),
    _repair("reuse", (("            cp_async_bulk_wait_group_read<0>();\n", ""),
                      ("stored from a step ago: it may be overwritten once the engine has read it.", "stored from a step ago.")),
            "The other slot was handed to the engine a turn ago. How does thread 0 learn that the engine has read it?"),
)
