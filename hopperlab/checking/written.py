# SPDX-License-Identifier: Apache-2.0
"""Rules about a program as it is written, for what no run can show: which instructions need a number at once, and whether a constant follows from another.

A rule is complaint(text, PTX): what is missing, in words, or ''. `text` is that of the cell without its first line.
"""
from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

VECTOR = re.compile(r"\{([^{};]*)\}")
STATEMENT = re.compile(r"(?P<guard>@!?%?\w+\s+)?(?P<opcode>[a-z][\w.:]*)(?:\s+(?P<operands>.*))?", re.DOTALL)
LEAD = re.compile(r"\s*(?:\.loc\b[^\n]*\n|([$%\w]+):(?!:))")
"""What may stand before an instruction: where its source is, and labels."""
LOADS = re.compile(r"ld(?:\.\w+)*\.global")
PASSES = re.compile(r"(?:mov|selp)\b")
PUTS = re.compile(r"st(?:\.\w+)*\.(?:shared|[bfsu](?:32|64)|v[24])")
REGISTER = re.compile(r"%\w+")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
NESTED = r"\((?:[^();]|\((?:[^();]|\((?:[^();]|\([^();]*\))*\))*\))*\)"
"""Parentheses, up to four deep."""
NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class _Step:
    """One instruction: registers that it writes and reads (an address belongs to neither), and where it may go on."""

    opcode: str
    guarded: bool
    to: frozenset[str]
    of: frozenset[str]
    after: tuple[int, ...]


def only_put_down(_text: str, ptx: str) -> str:
    """What ld.global brings may be moved and stored to shared memory, and nothing else may need it: whoever computes with it waits for the load."""
    steps = _steps(ptx)
    before: list[set[str]] = [set() for _ in steps]             # registers that may hold a loaded number
    work = list(range(len(steps)))
    while work:
        here = work.pop()
        step, loaded = steps[here], before[here]
        brings = LOADS.match(step.opcode) or PASSES.match(step.opcode) and loaded & step.of
        left = loaded | step.to if brings else loaded if step.guarded else loaded - step.to
        for there in step.after:
            if there < len(steps) and not left <= before[there]:
                before[there] |= left
                work.append(there)
    used = next((step for step, loaded in zip(steps, before, strict=True)
                 if loaded & step.of and not any(kind.match(step.opcode) for kind in (LOADS, PASSES, PUTS))), None)
    return "" if used is None else (f"{used.opcode} computes with a number that was loaded from global memory, and waits for it: what was loaded lies in registers until "
                                    "it is put into shared memory, and is multiplied out of there")


def _steps(ptx: str) -> list[_Step]:
    """The instructions of a program, in their order."""
    found: list[tuple[str, str, str]] = []
    places: dict[str, int] = {}
    for statement in re.split(r"[;{}]", VECTOR.sub(r"<\1>", COMMENT.sub(" ", ptx))):
        while lead := LEAD.match(statement):
            if lead[1]:
                places[lead[1]] = len(found)
            statement = statement[lead.end():]
        statement = statement.strip()
        if not statement.startswith(".") and (one := STATEMENT.fullmatch(statement)):
            found.append((one["guard"] or "", one["opcode"], one["operands"] or ""))
    return [_step(number, *one, places) for number, one in enumerate(found)]


def _step(number: int, guard: str, opcode: str, operands: str, places: Mapping[str, int]) -> _Step:
    bare = re.sub(r"\[[^\]]*\]", "", operands)
    head = re.match(r"\s*(<[^>]*>|[^,<]*)", bare)
    assert head is not None
    jumps = (places[operands.strip()],) if opcode.startswith("bra") and operands.strip() in places else ()
    ends = not guard and (bool(jumps) or opcode in ("ret", "exit"))
    return _Step(opcode, bool(guard), frozenset(REGISTER.findall(head[0])), frozenset(REGISTER.findall(bare[head.end():])), jumps if ends else (*jumps, number + 1))


def follows_from(constant: str, other: str) -> Callable[[str, str], str]:
    """The definition of `constant` must name `other`, or something whose definition does. An answer without this name says nothing of it."""
    def complaint(text: str, _ptx: str) -> str:
        code = COMMENT.sub(" ", text).replace("\\\n", " ")
        defined = {found[1]: set(NAME.findall(found[2])) for found in re.finditer(r"(?m)^\s*#\s*define\s+(\w+)\b(.*)$", code)}
        for begins in (r"=(?!=)", r"\{"):
            for found in re.finditer(rf"\b(\w+)\s*{begins}\s*((?:[^;,{{}}()]|{NESTED})*)", code):
                defined.setdefault(found[1], set(NAME.findall(found[2])))
        if constant not in defined:
            return ""
        known, new = {constant}, {constant}
        while new:
            new = set().union(*(defined.get(name, set()) for name in new)) - known
            known |= new
        return "" if other in known else f"{constant} is a number of its own: write it as an expression in which {other} stands, so that it follows when that changes"
    return complaint
