# SPDX-License-Identifier: Apache-2.0
"""Registers of an instruction at a block's head: what it reads, and where its results go. gates.py and warp_meetings.py run it."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ..compile.translated import Block
    from ..isa.value import Value
    from .cohort import Cohort


def put(C: Cohort, slot: int, value: Value) -> None:
    """Set a register of a cohort."""
    C.frame.R[slot] = value
    if C.frame.base is not None:
        C.frame.dirty.add(slot)  # type: ignore[union-attr]  # a frame with a parent has it


def sources(S: Any, C: Cohort, block: Block) -> list[Value]:
    """What the instruction reads. `S` is the Scheduler."""
    return [_source(S, C, source) for source in block.gate_srcs]


def _source(S: Any, C: Cohort, source: tuple[Any, ...]) -> Value:
    kind, key, offset = source
    if kind == "reg":
        value = C.frame.get(key)
        value = S.M.translation.zeros[key] if value is None else value
        return value + value.dtype.type(offset & 0xFFFFFFFF) if offset else value
    if kind == "not":
        value = C.frame.get(key)
        return ~(np.bool_(False) if value is None else value)
    if kind == "sym":
        return S.M.symbols[key] + np.uint64(offset)
    return key


def as_wanted(block: Block, values: list[Value]) -> list[Value]:
    """Sources as the types that the instruction works with, whatever their registers are declared as."""
    return [value.view(dtype) for value, dtype in zip(values, block.gate_types, strict=True)]


def deliver(S: Any, C: Cohort, block: Block, results: tuple[Value, ...]) -> None:
    """Results go to their registers (those behind the last one that this instruction has are nobody's)."""
    for target, value in zip(block.gate_dsts, results):
        if target is not None:
            put(C, target[0], value.view(target[1]))
            if block.gate_instr.index in S.M.translation.watched:  # type: ignore[union-attr]  # a gate has its instruction
                S.M.watch(value)
