# SPDX-License-Identifier: Apache-2.0
"""Rules about a program as it is written, for what no run can show: which instructions need a number at once, and whether a constant follows from another.

A rule is complaint(text, PTX): what is missing, in words, or ''. `text` is that of the cell without its first line.
"""
from __future__ import annotations

import re
from collections.abc import Callable

STATEMENT = re.compile(r"^\s*(?:@!?%\w+\s+)?(?P<opcode>[a-z][\w.:]*)\s+(?P<operands>[^;]*);", re.MULTILINE)
LOADS = re.compile(r"ld(?:\.\w+)*\.global")
PASSES = re.compile(r"(?:mov|selp)\b")
PUTS = re.compile(r"st(?:\.\w+)*\.(?:shared|[bfsu](?:32|64)|v[24])")
REGISTER = re.compile(r"%\w+")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
NAME = re.compile(r"[^\W\d]\w*")


def only_put_down(_text: str, ptx: str) -> str:
    """What ld.global brings may be moved and stored to shared memory, and nothing else may need it: whoever computes with it waits for the load."""
    statements = [(found["opcode"], *_split(found["operands"])) for found in STATEMENT.finditer(ptx)]
    loaded: set[str] = set()
    size = -1
    while size != len(loaded):
        size = len(loaded)
        for opcode, to, of in statements:
            if LOADS.match(opcode) or PASSES.match(opcode) and loaded & of:
                loaded |= to
    for opcode, to, of in statements:
        if loaded & (of | to) and not (LOADS.match(opcode) or PASSES.match(opcode) or PUTS.match(opcode) or not loaded & of):
            return (f"{opcode} computes with a number that was loaded from global memory, and waits for it: what was loaded lies in registers until it is put into shared "
                    "memory, and is multiplied out of there")
    return ""


def _split(operands: str) -> tuple[set[str], set[str]]:
    """Registers that an instruction writes, and those that it reads; an address belongs to neither."""
    bare = re.sub(r"\[[^\]]*\]", "", operands)
    head = re.match(r"\s*(\{[^}]*\}|[^,{]*)", bare)
    assert head is not None
    return set(REGISTER.findall(head[0])), set(REGISTER.findall(bare[head.end():]))


def follows_from(constant: str, other: str) -> Callable[[str, str], str]:
    """The definition of `constant` must name `other`, or something whose definition does. An answer without this name says nothing of it."""
    def complaint(text: str, _ptx: str) -> str:
        code = COMMENT.sub(" ", text).replace("\\\n", " ")
        defined = {found[1]: set(NAME.findall(found[2])) for found in re.finditer(r"(?m)^\s*#\s*define\s+(\w+)\b(.*)$", code)}
        for found in re.finditer(r"\b(\w+)\s*(?:=(?!=)|\{)\s*([^;,}]*(?:\([^;]*\)[^;,}]*)*)", code):
            defined.setdefault(found[1], set(NAME.findall(found[2])))
        if constant not in defined:
            return ""
        known, new = {constant}, {constant}
        while new:
            new = set().union(*(defined.get(name, set()) for name in new)) - known
            known |= new
        return "" if other in known else f"{constant} is a number of its own: write it as an expression in which {other} stands, so that it follows when that changes"
    return complaint
