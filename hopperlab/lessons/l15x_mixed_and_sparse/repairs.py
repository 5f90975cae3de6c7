# SPDX-License-Identifier: Apache-2.0
"""What lesson 15x breaks, for the learner to mend: words in the wrong order, metadata of the wrong thread, and fragments that change too early."""
from __future__ import annotations

from typing import Any

from ..repairs import Repair


def _int(landing: str) -> tuple[bool, Any]:
    from .mixed_runs import run_int
    return run_int(4, landing=landing)


def _sparse(landing: str) -> tuple[bool, Any]:
    from .mixed_runs import run_sparse
    return run_sparse(landing=landing)


REPAIRS = (
    Repair("order", "mixed/int_weights.cu", "uint4 word = words[j * 128];", "#else",
           bug=(("word.x, low, high), dequantise_4(a[b][4 * j + 1], word.y", "word.y, low, high), dequantise_4(a[b][4 * j + 1], word.x"),), run=_int,
           hint="A thread's 16 bytes are four words, one a k-step, in order. Which word belongs to which of the four fragments?"),
    Repair("thread", "mixed/sparse.cu", "for (int part = 0; part < ROWS * HALVES", "for (int part = 0; part < ROWS * HALVES",
           bug=(("part * 128 + thread]", "part * 128 + (thread ^ 2)]"),), run=_sparse,
           hint="A lane has the metadata of its own q, and the selector of the k-step names the lanes. What does a lane read here, and whose is it?"),
    Repair("wait", "mixed/int_weights.cu", "wgmma_commit_group();", "last = ring.slot;", bug=(("wgmma_wait_group<1>();", "wgmma_wait_group<2>();"),), run=_int,
           hint="The next k-block but one is converted into the registers of the one before this. How many products may be in flight by then?"),
)
