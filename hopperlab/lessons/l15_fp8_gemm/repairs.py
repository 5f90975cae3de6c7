# SPDX-License-Identifier: Apache-2.0
"""What lesson 15 breaks, for the learner to mend: the promotion of a k-block's sums, and when its scales are read."""
from __future__ import annotations

from typing import Any

from ..repairs import Repair

def _promoted(landing: str) -> tuple[bool, Any]:
    """(right, session) of fp8/promoted.cu on 200 x 136 x 784 with scales that differ."""
    from .fp8_steps import run_fp8
    return run_fp8("promoted", landing=landing)


def _repair(name: str, right: str, wrong: str, hint: str) -> Repair:
    return Repair(name, "fp8/promoted.cu", "float b_scale = b_scales[", "promote(sum[0]", ((right, wrong),), _promoted, hint)


def _staged(landing: str) -> tuple[bool, Any]:
    """(right, session) of fp8/block_scaled.cu with its scales in the stage, a ring of two."""
    from .fp8_steps import run_fp8
    return run_fp8("staged_scales", stages=2, landing=landing)


READ, RELEASE = "                    read_scales(upper, lower);\n", "                    release(slot);\n"


REPAIRS = (
    Repair("scales", "fp8/block_scaled.cu", "if (x == 0) {", "promote(sum[x], 0, part", ((READ, ""), (RELEASE, RELEASE + READ)), _staged,
           "The tile is safe: the wait stands before the release. What else lies in the slot, and who still reads it when the slot goes back?"),
    _repair("wait", "            wgmma_wait_group<0>();\n", "", "The promotion reads `part`. Whose registers are these, and until when?"),
    _repair("afresh", "stage + A_BYTES, 0);", "stage + A_BYTES, i > 0);", "What has the last argument to be, if `part` shall hold this k-block's sums and nothing else?"),
)
