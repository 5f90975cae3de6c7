# SPDX-License-Identifier: Apache-2.0
"""Programs made of parts of a kernel's: its control flow alone, with or without the loads by the copy engine, and nothing that either does not need."""
from __future__ import annotations

import re

LEFT_OUT = "wgmma|cp|fence|setmaxnreg|bar|barrier|prefetch|prefetchu|applypriority|discard|st|red|stmatrix|mbarrier"
STATEMENT = re.compile(rf"^(\s*(?:@!?%\w+\s+)?)({LEFT_OUT})\.([^;]*);", re.MULTILINE)
LOAD = re.compile(r"(bulk(?:\.tensor\.\dd)?\.shared\S*)\s+\[[^]]*\](.*)\[[^]]*\]([^\]]*)$", re.DOTALL)
"""What follows `cp.async.` in a load: its destination and its mbarrier are the first and the last in brackets."""

WAIT = re.compile(r"(?:try_wait|test_wait)\.\S+\s+([%\w$]+)")
PURE = "add|sub|mul|mad|neg|abs|min|max|div|rem|shl|shr|shf|and|or|xor|not|lop3|bfe|bfi|prmt|mov|cvt|cvta|setp|selp"
COMPUTES = re.compile(rf"^\s*(?:@!?[%\w$]+\s+)?(?:{PURE})\.[\w.:]+\s+([%\w$]+)\s*,[^;{{}}|]*;\s*$")
MORE = "fma|ld|ldmatrix|mma|ex2|lg2|rcp|sqrt|rsqrt|sin|cos|tanh|movmatrix"
READS_TOO = re.compile(rf"^\s*(?:@!?[%\w$]+\s+)?(?:{PURE}|{MORE})\.[\w.:]+\s+({{[^{{}}]*}}|[%\w$]+(?:\|[%\w$]+)?)\s*,[^;]*;\s*$")
"""Statements whose only effect is in registers: what they compute, load or multiply."""

ALONE = re.compile(r"^[ \t]*\{[ \t]*([^;\n]*;)[ \t]*\}[ \t]*$", re.MULTILINE)          # a statement in braces, as of inline assembly

REGISTER = re.compile(r"%\w+|\b[A-Za-z_$][\w$]*\b")


def control_flow(ptx: str) -> str:
    """PTX without copies, products, stores and barriers; a wait for an mbarrier is over at once."""
    return STATEMENT.sub(lambda found: _over(*found.groups()), ptx)


def branches(ptx: str) -> str:
    """The control flow alone: nothing is loaded, computed or multiplied that no branch, address of an atomic or volatile access depends on."""
    return _needed(ALONE.sub(r"\1", control_flow(ptx)), READS_TOO)


def loading(ptx: str) -> str:
    """The same with its tensor and bulk loads, which go nowhere (to address 0), and without what is computed for nothing that is left."""
    def left(found: re.Match[str]) -> str:
        lead, op, rest = found.groups()
        load = LOAD.match(rest.removeprefix("async.")) if op == "cp" else None
        return f"{lead}cp.async.{load[1]} [0]{load[2]}[0]{load[3]};" if load else _over(lead, op, rest)
    return _needed(STATEMENT.sub(left, ptx))


def _over(lead: str, op: str, rest: str) -> str:
    waits = WAIT.match(rest) if op == "mbarrier" else None
    return f"{lead}setp.eq.u32 {waits[1]}, 0, 0;" if waits else ""


def _needed(ptx: str, computes: re.Pattern[str] = COMPUTES) -> str:
    """PTX without the computations of what no other statement reads, nor one that is needed."""
    lines = ptx.split("\n")
    computing: dict[str, list[int]] = {}
    needed: set[str] = set()
    for number, line in enumerate(lines):
        found = computes.match(line)
        if found:
            for name in REGISTER.findall(found[1]):
                computing.setdefault(name, []).append(number)
        elif not line.lstrip().startswith(".reg"):
            needed.update(REGISTER.findall(line))
    open_ = [name for name in computing if name in needed]
    kept: set[int] = set()
    while open_:
        for number in computing.pop(open_.pop(), ()):
            kept.add(number)
            open_ += [name for name in REGISTER.findall(lines[number]) if name in computing]
    gone = {number for numbers in computing.values() for number in numbers} - kept
    return "\n".join(line for number, line in enumerate(lines) if number not in gone)
