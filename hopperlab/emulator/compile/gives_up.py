# SPDX-License-Identifier: Apache-2.0
"""Loops around mbarrier.try_wait or test_wait that give up after a while, behind which the program cannot tell whether the answer was yes.

    for (int i = 0; i < 1000; i++) if (mbarrier_try_wait_parity(full, 0)) break;
    use(tile);

However many tries there are, what comes behind may run after a no, so a yes there makes nothing known (ops/mbarrier.py). Which loops these are follows from
the kernel: between the wait and its next turn lies arithmetic alone; yes and the last no leave for one and the same instruction; and what the loop has
counted or been answered is read nowhere behind it. `search` is a Search of wait_answers.py.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..ptx.ir import Instr

MANY = 2000                          # steps of a search, after which nothing is known


def alike(search: Any, wait: int) -> bool:
    """Whether the program goes on the same way behind the loop of this wait, whatever the answer was."""
    loop = _loop(search, wait)
    yes, no = (_exits(search, wait, loop, answer) for answer in (1, 0)) if loop else (set(), set())
    return len(yes) == 1 and yes <= no and not _read_behind(search, yes.pop(), _told(search, wait, loop))


def _quiet(search: Any, wait: int, instr: Instr) -> bool:
    """Arithmetic, a branch, a pause, or another try at the same barrier."""
    op, first = search.ops.get(instr.index), search.body[wait]
    if op is not None and op.unread is not None:
        return instr.operands[1:3] == first.operands[1:3]
    return search.idle(instr) and instr.op not in ("trap", "ret", "exit", "call")


def _loop(search: Any, wait: int) -> set[int]:
    """Instructions through which the wait comes back to itself, and nothing but tries happens on the way."""
    ahead: set[int] = set()
    todo = [wait + 1]
    while todo:
        at = todo.pop()
        if at < len(search.body) and at != wait and at not in ahead and _quiet(search, wait, search.body[at]):
            ahead.add(at)
            todo += search.next(search.body[at], {})
    back, grown = {wait}, True
    while grown:
        more = {at for at in ahead - back if not back.isdisjoint(search.next(search.body[at], {}))}
        back, grown = back | more, bool(more)
    return back - {wait}


def _exits(search: Any, wait: int, loop: set[int], answer: int) -> set[int]:
    """Where the loop is left after this answer; empty where it may go round nevertheless after a yes, or is too long to follow."""
    todo: list[tuple[int, dict[str, int]]] = [(wait + 1, {r.name: answer for r in search.body[wait].dsts()})]
    seen: set[Any] = set()
    found = set()
    while todo:
        at, known = todo.pop()
        if at not in loop and at != wait:
            found.add(at)
            continue
        tries = at == wait or search.body[at].index in search.ops and search.ops[at].unread is not None
        if len(seen) > MANY or answer and tries:
            return set()
        if at == wait or (key := (at, frozenset(known.items()))) in seen:
            continue
        seen.add(key)
        search.step(search.body[at], known, wait)
        todo += [(start, dict(known)) for start in search.next(search.body[at], known)]
    return found


def _told(search: Any, wait: int, loop: set[int]) -> frozenset[str]:
    """Registers of the loop that differ from round to round, or with the answer."""
    instrs = [search.body[at] for at in sorted(loop | {wait})]
    writers: dict[str, list[Instr]] = {}
    for instr in instrs:
        for reg in instr.dsts():
            writers.setdefault(reg.name, []).append(instr)
    same: set[str] = set()
    grown = True
    while grown:
        before = len(same)
        same |= {name for name, by in writers.items() if len(by) == 1 and by[0].guard is None and by[0].index not in search.ops
                 and all(r.name in same or r.name not in writers for r in by[0].srcs())}
        grown = len(same) > before
    return frozenset(writers) - same


def _read_behind(search: Any, start: int, told: frozenset[str]) -> bool:
    """Whether anything from `start` on reads one of these registers as the loop left it."""
    seen: set[tuple[int, frozenset[str]]] = set()
    todo = [(start, told)]
    while todo:
        at, held = todo.pop()
        if not held or at >= len(search.body) or (at, held) in seen:
            continue
        if len(seen) > MANY * 10:
            return True
        seen.add((at, held))
        instr = search.body[at]
        guard = set() if instr.guard is None else {instr.guard[0].name}
        if instr.op == "call" or not held.isdisjoint(guard | {r.name for r in instr.srcs()}):
            return True
        if instr.guard is None:
            held = held - {r.name for r in instr.dsts()}
        if instr.guard is not None or instr.op not in ("ret", "exit", "trap"):
            todo += [(way, held) for way in search.next(instr, {})]
    return False
