# SPDX-License-Identifier: Apache-2.0
"""What lesson 16d breaks, for the learner to mend: weights without the maximum, and a page table that is read too early."""
from __future__ import annotations

from typing import Any

from ..repairs import Repair


def _large(landing: str) -> tuple[bool, Any]:
    from .decoding_runs import run_decoding
    return run_decoding((300,), landing=landing, size=60)


def _behind(landing: str) -> tuple[bool, Any]:
    from .decoding_runs import run_behind
    return run_behind(landing)


REPAIRS = (
    Repair("maximum", "decoding/combine.cu", "float most = MINUS_INFINITY;", "sum[x] += weight", bug=((
        "    float most = MINUS_INFINITY;\n    for (int i = 0; i < row.w; i++) most = fmaxf(most, lse[i * GROUP]);\n", "    float most = 0;\n"),), run=_large,
        hint="The largest power of two that a float holds is 2^127. What may be taken off every lse, so that the largest weight is 1 and the quotient stays what it is?"),
    Repair("table", "decoding/decode.cu", "__syncthreads();", "Ring<STAGES> ring;", bug=((
        "    griddepcontrol_wait();          // the last key", "    if (warp < WARPS) griddepcontrol_wait();          // the last key"),), run=_behind,
        hint="Only the consumers wait here. Who reads the page table, and who wrote it last?"),
)
