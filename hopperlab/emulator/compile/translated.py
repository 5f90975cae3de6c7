# SPDX-License-Identifier: Apache-2.0
"""What a translated kernel is made of: dtypes of registers, how the engine runs an instruction (MachineOp), and a basic block."""
from __future__ import annotations

from dataclasses import dataclass, field, replace
from collections.abc import Callable

import numpy as np

from ..ptx.ir import Instr

DTYPES = {
    "pred": np.bool_, "u8": np.uint8, "s8": np.int8, "u16": np.uint16, "s16": np.int16, "f16": np.float16,
    "u32": np.uint32, "s32": np.int32, "f32": np.float32, "u64": np.uint64, "s64": np.int64, "f64": np.float64,
    "b128": np.complex128,         # moved, never computed with
}
HOME = {
    "pred": "pred", "b8": "u8", "u8": "u8", "s8": "u8", "b16": "u16", "u16": "u16", "s16": "u16", "f16": "u16", "bf16": "u16",
    "b32": "u32", "u32": "u32", "s32": "u32", "f32": "f32", "f16x2": "u32", "bf16x2": "u32", "tf32": "u32",
    "b64": "u64", "u64": "u64", "s64": "u64", "f64": "f64", "b128": "b128",
}
EXIT = -1


@dataclass(frozen=True)
class MachineOp:
    """How the engine runs an instruction that is not plain arithmetic.

    fn(M, C, info, *sources) returns the values of `dsts` (one value, or a tuple for several, or None for none).
    srcs: (operand, dtype or None for the register's own); dsts: (Reg or Sink, dtype).
    gate: the instruction can block; fn does what it does at once and returns a Wait (machine/waits.py), or None where nothing blocks.
    collective: needs its warps whole. poll: spinning on it must yield to others.
    masked: a collective with a member mask, which may go on with part of a warp when the rest cannot come.
    raw: registers are handed over as they are, accumulator references included (wgmma).
    unread: what runs instead where nothing looks at the result (unread.py).
    meets: a gate that stands before the first of a run of such instructions (meetings.py).
    """

    fn: Callable
    info: object
    srcs: tuple = ()
    dsts: tuple = ()
    gate: bool = False
    collective: bool = False
    poll: bool = False
    raw: bool = False
    masked: bool = False
    meets: MachineOp | None = None
    unread: MachineOp | None = None

    def doubted(self, turn: int) -> MachineOp:
        """The same of a wait on an mbarrier that is answered no now and then (wait_answers.py)."""
        return replace(self, info=replace(self.info, turn=turn))  # type: ignore[type-var]  # an mbarrier's Info


@dataclass
class Block:
    """A translated basic block. apart: it is one instruction whose lanes may meet others of their warp that stand at another one of this kind ('': it is not).
    gate_types: dtypes in which such an instruction wants its sources. releases, publishes: it arrives at an mbarrier, or raises a flag."""

    id: int
    fn: Callable | None
    uses: tuple[int, ...]
    defs: frozenset[int]
    live_in: tuple[int, ...]
    collective: bool = False
    masked: bool = False
    apart: str = ""
    mask: int | tuple = 0xFFFFFFFF
    releases: bool = False
    publishes: bool = False
    gate: MachineOp | None = None
    gate_instr: Instr | None = None
    gate_srcs: tuple = ()
    gate_types: tuple = ()
    gate_dsts: tuple = ()
    gate_guard: tuple | None = None
    first: Instr | None = None
    size: int = 0
    text: str = field(default="", repr=False)
