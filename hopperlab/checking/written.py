# SPDX-License-Identifier: Apache-2.0
"""Rules about a program as it is written, for what no run can show: which instructions need a number at once, and whether a constant follows from another.

A rule is complaint(text, PTX): what is missing, in words, or ''. `text` is that of the cell without its first line.
"""
from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping

import hopperlab as hl

from ..emulator.ptx import cfg
from ..emulator.ptx.ir import Addr, Function, Instr, Reg
from ..emulator.ptx.parser import parse

LOADS = re.compile(r"ld(?:\.\w+)*\.global")
PASSES = re.compile(r"(?:mov|selp)\b")
PUTS = re.compile(r"st(?!\S*\.(?:global|local)\b)(?:\.\w+)*\.(?:shared|[bfsu](?:32|64)|v[24])")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
NESTED = r"\((?:[^();]|\((?:[^();]|\((?:[^();]|\([^();]*\))*\))*\))*\)"
"""Parentheses, up to four deep."""
NAME = re.compile(r"[^\W\d]\w*")


def only_put_down(_text: str, ptx: str) -> str:
    """What ld.global brings may be moved and stored to shared memory, and nothing else may need it: whoever computes with it waits for the load."""
    used = next((one for function in parse(ptx).functions.values() if function.defined for one in _computing(function)), None)
    return "" if used is None else (f"{used.opcode} computes with a number that was loaded from global memory, and waits for it: what was loaded lies in registers until "
                                    "it is put into shared memory, and is multiplied out of there")


def _computing(function: Function) -> Iterator[Instr]:
    """The instructions that need what a load from global memory may have brought, in the order of the text. An address counts as no need."""
    starts, follow = cfg.successors(function)
    ends = [*starts[1:], len(function.body)]
    loaded: list[set[str]] = [set() for _ in starts]            # registers that may hold a loaded number where each block begins
    work = list(range(len(starts)))
    while work:
        block = work.pop()
        left = set(loaded[block])
        for one in function.body[starts[block]:ends[block]]:
            _step(one, left)
        for there in follow[block]:
            if not left <= loaded[there]:
                loaded[there] |= left
                work.append(there)
    for block, left in enumerate(loaded):
        for one in function.body[starts[block]:ends[block]]:
            if _values(one) & left and not any(kind.match(one.opcode) for kind in (LOADS, PASSES, PUTS)):
                yield one
            _step(one, left)


def _step(one: Instr, loaded: set[str]) -> None:
    """`loaded`, changed as this instruction changes it: what it writes holds a loaded number, or no longer does, unless a guard may leave it as it was."""
    written = {register.name for register in one.dsts()}
    if LOADS.match(one.opcode) or PASSES.match(one.opcode) and _values(one) & loaded:
        loaded |= written
    elif one.guard is None:
        loaded -= written


def _values(one: Instr) -> set[str]:
    """Registers that the instruction reads, but for those of an address."""
    addressed = {operand.base.name for operand in one.operands if isinstance(operand, Addr) and isinstance(operand.base, Reg)}
    return {register.name for register in one.srcs()} - addressed


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


def changes_with(constant: str, operands: Mapping[int, int], instruction: str, who: str) -> Callable[[str, str], str]:
    """The one operand of every `instruction` must follow when the program is compiled with another value of `constant`. operands: what it must be, by that value, the
    answer's own first; who: whose instructions they are, and what they take, 'the consumers take {} registers'."""
    own = next(iter(operands))
    definition = re.compile(rf"(\b{constant}\b\s*[={{(]?\s*){own}(?=[uU]?\b)")
    taken = re.compile(rf"\b{re.escape(instruction)}[\w.]*\s+(\w+)\s*;")

    def complaint(text: str, ptx: str) -> str:
        if not definition.search(COMMENT.sub(" ", text)):
            return f"{constant} = {own} is not defined as it stood: leave that line as it was given"
        for value, asked in operands.items():
            ptx = ptx if value == own else _compiled(definition.sub(rf"\g<1>{value}", text))
            if not ptx:
                return f"with {constant} = {value} it does not compile any more: what depends on {constant} is an expression of it"
            found = sorted(int(number, 0) for number in set(taken.findall(ptx)))
            if found != [asked]:
                return f"with {constant} = {value} {who.format(' and '.join(map(str, found)) or 'no')}, and each should take {asked}"
        return ""
    return complaint


def _compiled(text: str) -> str:
    """The PTX of a changed answer; '' where it does not compile. Notes of ptxas do not matter: nobody runs it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", hl.PtxasWarning)
            return hl.RawModule(code=text, name="changed.cu", backend="emulator").ptx
    except hl.CompileError:
        return ""
