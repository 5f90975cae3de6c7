# SPDX-License-Identifier: Apache-2.0
"""Before which instructions the warps of a warpgroup meet: the first wgmma.mma_async of each run (machine/meetings.py holds them there)."""
from __future__ import annotations

from ..ptx.ir import Function


def first_of_runs(function: Function, ops: dict) -> set[int]:
    """Indices of every wgmma.mma_async before which, in its basic block, no other has run since the last machine operation."""
    heads, first, running = set(function.labels.values()), set(), False
    for instr in function.body:
        if instr.index in heads or instr.op in ("bra", "brx", "ret", "exit", "call"):
            running = False
        op = ops.get(instr.index)
        if op is not None and op.meets is not None:
            if not running:
                first.add(instr.index)
            running = True
        elif op is not None:
            running = False
    return first
