# SPDX-License-Identifier: Apache-2.0
"""Basic blocks of PTX -> Python functions over NumPy arrays, once a kernel.

A block's function takes (M, C, R): the machine, the cohort and its register list. Arithmetic becomes inline expressions
(isa/), everything that touches memory, other threads or time becomes a call of a handler (ops/). Here is what is known of
the whole kernel; emitter.py writes the source of its blocks, translated.py has the records.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ptx import cfg
from ..ptx.ir import CARRY, Function, Instr, Reg
from . import loops, masks, meetings, register_times, unread, wait_answers
from .emitter import Emitter
from .translated import DTYPES, EXIT, HOME, Block, MachineOp

__all__ = ["Block", "DTYPES", "EXIT", "HOME", "MachineOp", "Translation"]


class Translation:
    """All blocks of one kernel. `slots` maps register names to places in a frame's list."""

    def __init__(self, function: Function, resolve: Callable[[Instr, Function], MachineOp | None]):
        self.function = function
        self.ops: dict[int, MachineOp] = {}
        for instr in function.body:
            if instr.op in ("bra", "ret", "exit", "brx"):
                continue
            op = resolve(instr, function)
            if op is not None:
                self.ops[instr.index] = op
        self.ops |= unread.replaced(function, self.ops)
        for wait, turn in wait_answers.turns(function, self.ops).items():
            self.ops[wait] = self.ops[wait].doubted(turn)
        self.times, self.tainted = register_times.plan(function, self.ops), self._tainted()
        self.apart = masks.meeting_apart(function, self.ops, self.tainted | self.times.tracked)
        gates = {i for i, op in self.ops.items() if op.gate} | set(self.apart)
        self.masks = masks.of_function(function, self.ops)
        self.meetings = meetings.first_of_runs(function, self.ops)
        arrivals = {i for i, op in self.ops.items() if op.collective and function.body[i].op in ("bar", "barrier") and function.body[i].mods[-1] == "arrive"}
        heads = gates | masks.splits(self.masks) | self.meetings | arrivals
        graph = cfg.build(function, split_before=lambda i: i.index in heads, split_after=lambda i: i.index in gates)
        self.flags = loops.flags(function, loops.polling(function, self.ops, graph))
        if self.flags:                                  # somebody polls, and whoever raises a flag lets him look: a boundary behind each
            graph = cfg.build(function, split_before=lambda i: i.index in heads, split_after=lambda i: i.index in gates | self.flags)
        self.times.extend_live(graph)
        extra = [name + register_times.TIME for name in sorted(self.times.tracked)]
        self.successors = [b.succs for b in graph.blocks]
        self.spans = [(b.start, b.end) for b in graph.blocks]
        self._once: dict[str, object] = {}
        self.slots = {name: k for k, name in enumerate([*function.registers, CARRY.name, *extra])}
        kinds = function.registers
        self.zeros = [DTYPES[HOME[kinds[name]]](0) if kinds.get(name) in HOME else np.uint32(0) for name in self.slots]    # what an unwritten register reads as
        self._deciding: dict[int, list[int]] = {}
        self.foreign = self._foreign()
        self.loops = loops.polling(function, self.ops, graph)
        self.watched = frozenset().union(*(loop.watched for loop in self.loops))
        emitter = Emitter(self)
        self.blocks = [emitter.block(b, graph) for b in graph.blocks]
        emitter.compile(self.blocks)

    def _tainted(self) -> set[str]:
        """Registers that can hold an accumulator in flight: wgmma results and whatever `mov` copies from them."""
        held = {r.name for i, op in self.ops.items() if op.raw for r in self.function.body[i].dsts()}
        if not held:
            return held
        grown = True
        while grown:
            before = len(held)
            held.update(d for d, s in self._moves() if s in held)
            grown = len(held) > before
        return held

    def _moves(self) -> list[tuple[str, str]]:
        """(written, read) of every mov between registers."""
        return [(i.dsts()[0].name, i.operands[1].name) for i in self.function.body if i.op == "mov" and type(i.operands[1]) is Reg and i.dsts()]

    def _foreign(self) -> set[str]:
        """Registers that may hold values of another dtype than their type's: accumulators of wgmma that are declared .b32, or .f32 for
        packed halves or integers, and copies of accumulators."""
        registers = self.function.registers
        found = {r.name for op in self.ops.values() if op.raw for r, home in op.dsts if HOME[r.type] != home}
        found.update(d for d, s in self._moves() if s in self.tainted and HOME[registers[d]] != HOME[registers[s]])
        grown = bool(found)
        while grown:
            before = len(found)
            found.update(d for d, s in self._moves() if s in found)
            grown = len(found) > before
        return found

    def once(self, name: str, make: Callable[["Translation"], object]) -> Any:
        """What somebody works out of the kernel, the first time they ask under this name."""
        if name not in self._once:
            self._once[name] = make(self)
        return self._once[name]

    def wants_result(self, index: int) -> bool:
        """True when some instruction reads a register that instruction `index` writes."""
        read = self.once("registers read", lambda t: {reg.name for instr in t.function.body for reg in instr.srcs()})
        return any(reg.name in read for reg in self.function.body[index].dsts())

    def watches(self, pc: int) -> bool:
        """True for a block in a loop whose loaded values are watched (loops.py)."""
        return pc in self.once("watched", lambda t: {block for loop in t.loops for block in loop.blocks})

    def timed(self, pc: int) -> bool:
        """True for a block in a loop that a clock's readings decide about."""
        return any(pc in loop.blocks and loop.timed for loop in self.loops)

    def deciding(self, pc: int) -> list[int]:
        """Slots of the registers at the head of block `pc` that decide whether its loop goes on (all that live, outside of loops), but for those that
        follow from a clock."""
        known = self._deciding.get(pc)
        if known is None:
            loop = next((p for p in self.loops if pc in p.blocks), None)
            wanted = None if loop is None else {self.slots[name] for name in loop.deciding - loop.timed if name in self.slots}
            known = self._deciding[pc] = [slot for slot in sorted(self.blocks[pc].live_in) if wanted is None or slot in wanted]
        return known
