# SPDX-License-Identifier: Apache-2.0
"""Loops of a kernel that look at memory or a clock again and again, and which registers decide whether they go on.

Registers that are only counted or stored do not: a loop in which all the others come round again, while nothing that it reads
changes, never ends (recurrence.py). Per loop (a strongly connected part of the control-flow graph), as sets of names.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ptx.graphs import components
from ..ptx.ir import Special

if TYPE_CHECKING:
    from ..ptx.cfg import Cfg
    from ..ptx.ir import Function


STRONG = frozenset(("volatile", "relaxed", "release", "mmio"))      # stores with such a qualifier may be flags


@dataclass(frozen=True)
class Loop:
    """blocks: the loop's; deciding: registers that branches, addresses and values for others depend on; watched: instructions
    whose results do (by index), but for those that read a clock; timed: those of the deciding registers that follow from a clock."""

    blocks: frozenset[int]
    deciding: frozenset[str]
    watched: frozenset[int]
    timed: frozenset[str]


def polling(function: Function, ops: dict, graph: Cfg) -> list[Loop]:
    """The loops that hold an instruction which can be polled."""
    body, found = function.body, []
    if not any(op.poll for op in ops.values()):
        return found
    for part in components(0, lambda k: graph.blocks[k].succs):
        if len(part) == 1 and part[0] not in graph.blocks[part[0]].succs:
            continue
        instrs = [i for k in part for i in body[graph.blocks[k].start:graph.blocks[k].end]]
        if any((op := ops.get(i.index)) is not None and op.poll for i in instrs):
            deciding = _deciding(instrs, ops)
            clocks = {i.index for i in instrs if any(type(o) is Special and o.tells_time for o in i.operands)}
            watched = {i.index for i in instrs if i.index in ops and any(r.name in deciding for r in i.dsts())} - clocks
            found.append(Loop(frozenset(part), frozenset(deciding), frozenset(watched), frozenset(deciding & _timed(instrs, ops, clocks))))
    return found


def flags(function: Function, found: list[Loop]) -> frozenset[int]:
    """Strong stores and atomics that are no polls themselves, where a loop looks at memory again and again; elsewhere strong stores (not to shared memory), at which
    another launch may look."""
    watched = frozenset().union(*(loop.watched for loop in found))
    if not any(function.body[i].op in ("ld", "atom") for i in watched):
        return frozenset(i.index for i in function.body if i.op == "st" and STRONG.intersection(i.mods) and not any(m.startswith("shared") for m in i.mods))
    return frozenset(i.index for i in function.body if i.index not in watched and (i.op in ("atom", "red") or i.op == "st" and STRONG.intersection(i.mods)))


def _timed(instrs: list, ops: dict, clocks: set[int]) -> set[str]:
    """Registers that arithmetic in the loop makes of a clock's reading."""
    timed = {r.name for i in instrs if i.index in clocks for r in i.dsts()}
    grown = bool(timed)
    while grown:
        before = len(timed)
        for i in instrs:
            if i.index not in ops and any(r.name in timed for r in i.srcs()):
                timed.update(r.name for r in i.dsts())
        grown = len(timed) > before
    return timed


def _deciding(instrs: list, ops: dict) -> set[str]:
    """What flows into branches, addresses, and all other sources of what is not arithmetic, except values that are stored."""
    deciding: set[str] = set()
    for i in instrs:
        if i.op in ("bra", "brx", "ret", "exit"):
            deciding.update(r.name for r in i.srcs())
        elif i.index in ops:
            stored = {id(o) for o in i.operands[1:]} if i.op == "st" else ()
            deciding.update(_names([o for o in i.operands if id(o) not in stored]) if i.op == "st" else (r.name for r in i.srcs()))
            if i.guard is not None:
                deciding.add(i.guard[0].name)
    grown = True
    while grown:
        before = len(deciding)
        for i in instrs:
            if i.index not in ops and any(r.name in deciding for r in i.dsts()):
                deciding.update(r.name for r in i.srcs())
        grown = len(deciding) > before
    return deciding


def _names(operands: list) -> list[str]:
    """Registers of addresses."""
    bases = [getattr(o, "base", None) for o in operands]
    return [b.name for b in bases if hasattr(b, "type")]
