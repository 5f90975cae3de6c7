# SPDX-License-Identifier: Apache-2.0
"""What a program does when mbarrier.try_wait or test_wait answers no, which they may do whenever the phase is not known to be over (PTX ISA 9.7.13.15.16).

Followed from the wait on, with the answer as a constant. Where it comes back to the same wait first, as loops do, nothing else is asked. Elsewhere the answer
decides what runs, and ops/mbarrier.py gives both: first no where the program may then touch something before it waits at the same address, first yes where
it waits there first; several times no where a loop may give up. Where such a loop leaves nothing by which the program could tell how it ended (gives_up.py), the
answer is the barrier's after that, and makes nothing known. Ways on which every end is a trap are none.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ptx.cfg import successors
from ..ptx.ir import Imm, Not, Reg
from . import gives_up

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..ptx.ir import Function, Instr
    from .translated import MachineOp

FIRST_NO, FIRST_YES, SEVERAL = 0, 1, 2           # which of a warp's visits to a wait are answered no: even or odd ones; the first eight, and then even ones
UNTOLD = 4                           # the first eight; a yes behind them makes nothing known
LEAVES = ("ret", "exit", "call")
IDLE = ("nanosleep", "activemask", "mov", "cvt", "cvta", "mapa", "getctarank", "isspacep", "elect")       # touch nothing, and tell nobody
MANY = 300                           # blocks that the search enters, after which nothing is known
COMPARE = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
           "ge": lambda a, b: a >= b, "lo": lambda a, b: a < b, "ls": lambda a, b: a <= b, "hi": lambda a, b: a > b, "hs": lambda a, b: a >= b}
BITS = {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "add": lambda a, b: a + b, "sub": lambda a, b: a - b}


def turns(function: Function, ops: Mapping[int, MachineOp]) -> dict[int, int]:
    """FIRST_NO, FIRST_YES or SEVERAL by wait, for those after which a no does not simply lead back to them."""
    waits = [i for i, op in ops.items() if op.unread is not None]
    if not waits:
        return {}
    starts, following = successors(function)
    block_at = {start: number for number, start in enumerate(starts)}
    search = Search(function, ops, starts, following, block_at)
    search.loops = frozenset(i for i in waits if search.after_no(i) == {"back"})
    return {i: UNTOLD if gives_up.alike(search, i) else _turn(search.after_no(i)) for i in waits if i not in search.loops}


def _turn(ends: set[str]) -> int:
    return FIRST_YES if ends <= {"waits", "back"} else SEVERAL if "back" in ends else FIRST_NO


class Search:
    """The kernel, and where its blocks begin and lead; loops: waits after which a no only leads back."""

    def __init__(self, function: Function, ops: Mapping[int, MachineOp], starts: list[int], following: list[tuple[int, ...]], block_at: dict[int, int]) -> None:
        self.body, self.ops, self.starts, self.following, self.block_at = function.body, ops, starts, following, block_at
        self.loops: frozenset[int] = frozenset()
        self.lives = self._lives()

    def _lives(self) -> list[bool]:
        """Of each instruction, whether anything but a trap (or a failed assertion) can come behind it in the end."""
        lives = [instr.op in ("ret", "exit") or op is not None and op.unread is not None for instr, op in ((i, self.ops.get(i.index)) for i in self.body)] + [True]
        grown = True
        while grown:
            grown = False
            for instr in reversed(self.body):
                if not lives[instr.index] and not _dies(instr) and any(lives[way] for way in self.next(instr, {})):
                    lives[instr.index] = grown = True
        return lives

    def after_no(self, wait: int) -> set[str]:
        """How the ways end: 'back' at the same wait, 'waits' at a loop on the same barrier, 'waits elsewhere'; 'on' where they touch something before, or leave."""
        seen: set[Any] = set()
        todo: list[tuple[int, dict[str, int]]] = [(wait + 1, {r.name: 0 for r in self.body[wait].dsts()})]
        ends = set()
        while todo:
            at, known = todo.pop()
            if at >= len(self.body):
                ends.add("on")
                continue
            if len(seen) > MANY:
                return ends | {"on"}
            if at in self.block_at:
                key = (at, frozenset(known.items()))
                if key in seen:
                    continue
                seen.add(key)
            end = self.step(self.body[at], known, wait)
            if end:
                ends.add(end)
            if not end or end == "on" and self.body[at].op not in LEAVES:
                todo += [(start, dict(known)) for start in self.next(self.body[at], known)]
        return ends

    def step(self, instr: Instr, known: dict[str, int], wait: int) -> str:
        """Take one instruction in: '' and known changed, or 'back', 'waits', 'on' where the way ends."""
        holds = _guard(instr, known)
        if holds is False or instr.op in ("bra", "brx"):
            return ""
        if instr.index == wait or not self.lives[instr.index]:
            return "back"
        op = self.ops.get(instr.index)
        if instr.op in LEAVES:
            return "on"
        if op is not None and op.unread is not None and instr.index in self.loops:
            return "waits" if instr.operands[1] == self.body[wait].operands[1] else "waits elsewhere"
        if op is not None and op.unread is not None:             # another one of this sort says no as well
            known.update((r.name, 0) for r in instr.dsts())
            return ""
        value = _value(instr, known) if op is None and holds else None
        for reg in instr.dsts():
            known.pop(reg.name, None)
            if value is not None:
                known[reg.name] = value
        return "" if self.idle(instr) else "on"

    def idle(self, instr: Instr) -> bool:
        """Whether it touches nothing, and tells nobody."""
        return instr.index not in self.ops or instr.op in IDLE or instr.op == "ld" and "param" in instr.mods

    def next(self, instr: Instr, known: dict[str, int]) -> list[int]:
        """Where the instruction may lead."""
        after = instr.index + 1
        if instr.op not in ("bra", "brx"):
            return [after]
        block = self.block_at.get(after, len(self.starts)) - 1
        ways = [self.starts[b] if b < len(self.starts) else len(self.body) for b in self.following[block]]
        holds = _guard(instr, known)
        return ways[:1] if holds and len(ways) > 1 and instr.op == "bra" else [after] if holds is False else ways


def _dies(instr: Instr) -> bool:
    """Ends the kernel with an error, whoever runs it."""
    return instr.guard is None and (instr.op == "trap" or instr.op == "call" and any(getattr(o, "name", o) == "__assertfail" for o in instr.operands))


def _guard(instr: Instr, known: dict[str, int]) -> bool | None:
    """Whether its guard holds; None where that is not known."""
    if instr.guard is None:
        return True
    value = known.get(instr.guard[0].name)
    return None if value is None else bool(value) != instr.guard[1]


def _constant(operand: Any, known: dict[str, int]) -> int | None:
    if type(operand) is Imm:
        return int(operand.value) if isinstance(operand.value, int) else None
    if type(operand) is Not:
        value = known.get(operand.reg.name)
        return None if value is None else int(not value)
    return known.get(operand.name) if type(operand) is Reg else None


def _value(instr: Instr, known: dict[str, int]) -> int | None:
    """What it writes, where that follows from what is known."""
    if len(instr.dsts()) != 1:
        return None
    given = [_constant(o, known) for o in instr.operands[1:]]
    if instr.op in ("mov", "cvt") and len(given) == 1:
        return given[0]
    if instr.op == "selp" and given[2] is not None:
        return given[0] if given[2] else given[1]
    if instr.op == "not" and "pred" in instr.mods and given[0] is not None:
        return int(not given[0])
    if instr.op == "and" and 0 in given:
        return 0
    if len(given) != 2 or given[0] is None or given[1] is None:
        return None
    if instr.op == "setp":
        compare = COMPARE.get(instr.mods[0])
        return None if compare is None or len(instr.mods) != 2 else int(compare(given[0], given[1]))
    return BITS[instr.op](given[0], given[1]) if instr.op in BITS else None
