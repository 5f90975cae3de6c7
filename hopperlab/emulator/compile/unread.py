# SPDX-License-Identifier: Apache-2.0
"""Which instructions have a result that decides about nothing: no branch, guard, address, stored value or other machine operation depends on it.

A wait on an mbarrier that returns whether it waited long enough is none, where that is not looked at (PTX ISA 9.7.13.15.16): MachineOp.unread runs in its place.
"""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ..ptx.cfg import successors
from ..ptx.ir import Function, Instr
from .translated import MachineOp

CONTROL = ("bra", "brx", "ret", "exit", "call")


@dataclass
class Reads:
    """Registers that somebody reads to an end, and what is still to be looked at."""

    useful: set[str] = field(default_factory=set)
    new: list[str] = field(default_factory=list)

    def add(self, instr: Instr) -> None:
        """An instruction that matters: so do its sources and its guard."""
        names = {r.name for r in instr.srcs()} | ({instr.guard[0].name} if instr.guard is not None else set())
        self.new += names - self.useful
        self.useful |= names


def replaced(function: Function, ops: dict[int, MachineOp]) -> dict[int, MachineOp]:
    """The operations that run in place of those whose result nobody reads, by instruction."""
    waits = {i: op.unread for i, op in ops.items() if op.unread is not None}
    if not waits:
        return {}
    made: dict[str, list] = {}
    reads = Reads()
    for instr in function.body:
        if instr.index in ops or instr.op in CONTROL:
            reads.add(instr)
        else:
            for reg in instr.dsts():
                made.setdefault(reg.name, []).append(instr)
    while reads.new:
        for instr in made.pop(reads.new.pop(), ()):
            reads.add(instr)
    counts = Counter(r.name for instr in function.body for r in instr.dsts())
    return {i: op for i, op in waits.items() if not any(r.name in reads.useful and (counts[r.name] == 1 or _matters(function, ops, i)) for r in function.body[i].dsts())}


def _matters(function: Function, ops: dict[int, MachineOp], wait: int) -> bool:
    """Whether the result of a wait comes to a read that matters before its registers are written anew."""
    starts, following = successors(function)
    number, seen = {start: k for k, start in enumerate(starts)}, set()
    todo = [(wait + 1, frozenset(r.name for r in function.body[wait].dsts()))]
    while todo:
        at, held = todo.pop()
        if at in number and (at, held) in seen or not held or at >= len(function.body):
            continue
        seen.add((at, held))
        instr = function.body[at]
        if any(r.name in held for r in instr.srcs()) and (instr.index in ops or instr.op in CONTROL):
            return True
        written = {r.name for r in instr.dsts()}
        if any(r.name in held for r in instr.srcs()):
            held |= written
        elif instr.guard is None:
            held -= written
        ends = instr.op in ("bra", "brx", "ret", "exit", "trap")
        ways = [starts[k] if k < len(starts) else len(function.body) for k in following[number[at + 1] - 1]] if ends else [at + 1]
        todo += [(start, held) for start in ways]
    return False
