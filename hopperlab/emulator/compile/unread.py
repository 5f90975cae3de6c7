# SPDX-License-Identifier: Apache-2.0
"""Which instructions have a result that decides about nothing: no branch, guard, address, stored value or other machine operation depends on it.

A wait on an mbarrier that returns whether it waited long enough is none, where that is not looked at (PTX ISA 9.7.13.15.16): MachineOp.unread runs in its place.
"""
from __future__ import annotations

from dataclasses import dataclass, field

from ..ptx.ir import Function, Instr
from .translated import MachineOp


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
        if instr.index in ops or instr.op in ("bra", "brx", "ret", "exit", "call"):
            reads.add(instr)
        else:
            for reg in instr.dsts():
                made.setdefault(reg.name, []).append(instr)
    while reads.new:
        for instr in made.pop(reads.new.pop(), ()):
            reads.add(instr)
    return {i: op for i, op in waits.items() if not any(r.name in reads.useful for r in function.body[i].dsts())}
