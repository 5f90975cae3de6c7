"""Loops of a kernel that look at memory or a clock again and again, and which registers decide whether they go on.

Registers that are only counted or stored do not: a loop in which all the others come round again, while nothing that it reads
changes, never ends (recurrence.py). Per loop (a strongly connected part of the control-flow graph), as sets of names.
"""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Loop:
    """blocks: the loop's; deciding: registers that branches, addresses and values for others depend on; watched: instructions
    whose results do (by index)."""

    blocks: frozenset[int]
    deciding: frozenset[str]
    watched: frozenset[int]


def polling(function, ops: dict, graph) -> list[Loop]:
    """The loops that hold an instruction which can be polled."""
    body, found = function.body, []
    if not any(op.poll for op in ops.values()):
        return found
    for part in _components([b.succs for b in graph.blocks]):
        instrs = [i for k in part for i in body[graph.blocks[k].start:graph.blocks[k].end]]
        if any((op := ops.get(i.index)) is not None and op.poll for i in instrs):
            deciding = _deciding(instrs, ops)
            watched = {i.index for i in instrs if i.index in ops and any(r.name in deciding for r in i.dsts())}
            found.append(Loop(frozenset(part), frozenset(deciding), frozenset(watched)))
    return found


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


def _components(successors: list) -> list[list[int]]:
    """Strongly connected parts that hold a cycle (Tarjan, without recursion)."""
    order, low, on, stack, out = {}, {}, set(), [], []
    for root in range(len(successors)):
        if root in order:
            continue
        work = [(root, iter(successors[root]))]
        order[root] = low[root] = len(order)
        stack.append(root)
        on.add(root)
        while work:
            node, rest = work[-1]
            child = next((c for c in rest if c >= 0), None)
            if child is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    part = []
                    while True:
                        member = stack.pop()
                        on.discard(member)
                        part.append(member)
                        if member == node:
                            break
                    if len(part) > 1 or node in successors[node]:
                        out.append(part)
            elif child not in order:
                order[child] = low[child] = len(order)
                stack.append(child)
                on.add(child)
                work.append((child, iter(successors[child])))
            elif child in on:
                low[node] = min(low[node], order[child])
    return out
